import pytest
from pydantic import Field

from airflow_provider_connect.config import Options
from airflow_provider_connect.connection import (
    Connection,
    open_connections,
    read_connections,
    seal_connections,
    write_connections,
)
from airflow_provider_connect.errors import ConfigError


class Example(Options):
    conn_id: str
    timeout_seconds: float = Field(default=1.0, gt=0)
    stream: str = "export"


def test_every_wrong_option_is_named_at_once_with_the_nearest_known_name():
    with pytest.raises(ConfigError) as caught:
        Example(timeout_second=3, timeout_seconds=-1, zzz=1)
    text = str(caught.value)
    assert "conn_id: required" in text
    assert "timeout_second: unknown option; did you mean 'timeout_seconds'?" in text
    assert "timeout_seconds: Input should be greater than 0" in text
    assert "zzz: unknown option; known: conn_id, stream, timeout_seconds" in text


def test_a_wrong_value_is_not_repeated():
    with pytest.raises(ConfigError) as caught:
        Example(conn_id={"password": "hunter2"}, timeout_seconds="hunter2")
    assert "hunter2" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_options_survive_json():
    options = Example(conn_id="x", timeout_seconds=2)
    assert Example.of(options.model_dump(mode="json")) == options


SECRETS = ["it's", 'a "quote"', "100%", "{{ ds }}", "two\nlines", "x", "sécrèt✓", "$HOME `id` \\"]


@pytest.mark.parametrize("secret", SECRETS)
def test_secrets_of_any_shape_reach_the_driver_and_no_repr(secret, tmp_path):
    connection = Connection(conn_id="c", login=secret, password=secret, extra={"token": secret})
    path = tmp_path / "connections.json"
    write_connections(path, {"c": connection})
    again = read_connections(path)["c"]
    assert again == connection
    assert again.password is not None
    assert again.password.get_secret_value() == secret
    assert path.stat().st_mode & 0o777 == 0o600
    if len(secret) > 1:
        assert secret not in repr(again)
        assert secret not in str(again.model_dump(exclude={"extra"}))


def test_connections_never_overwrite_a_file(tmp_path):
    path = tmp_path / "connections.json"
    path.touch()
    with pytest.raises(FileExistsError):
        write_connections(path, {})


@pytest.mark.parametrize("secret", SECRETS)
def test_neither_half_of_sealed_connections_tells_anything(secret):
    connections = {"c": Connection(conn_id="c", password=secret + "canary")}
    sealed, pad = seal_connections(connections)
    assert open_connections(sealed, pad) == connections
    assert b"canary" not in sealed
    assert b"canary" not in bytes.fromhex(pad)
    assert seal_connections(connections)[1] != pad


def test_an_extra_field_must_be_text():
    connection = Connection(conn_id="c", extra={"project_id": 12, "region": "", "proxy": ["a"]})
    assert connection.option("project_id") == "12"
    assert connection.option("region") is None
    with pytest.raises(ConfigError, match="'proxy' must be text"):
        connection.option("proxy")
