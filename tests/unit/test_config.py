import datetime as dt
import pickle
from typing import Self

import pytest
from pydantic import Field, field_validator, model_validator

from airflow_provider_connect.config import Options
from airflow_provider_connect.connection import Connection, read_connections, write_connections
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
    assert Example.from_options(options.model_dump(mode="json")) == options


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


def test_an_extra_field_must_be_text():
    connection = Connection(conn_id="c", extra={"project_id": 12, "region": "", "proxy": ["a"]})
    assert connection.option("project_id") == "12"
    assert connection.option("region") is None
    with pytest.raises(ConfigError, match="'proxy' must be text"):
        connection.option("proxy")


class Templated(Options):
    path: str
    topics: tuple[str, ...] = ()
    parts: int = 1
    wait: dt.timedelta = dt.timedelta(seconds=1)
    names: dict[str, str] = Field(default_factory=dict)

    @field_validator("path")
    @classmethod
    def _absolute(cls, path: str) -> str:
        if not path.startswith("/"):
            raise ValueError("must be absolute")
        return path.rstrip("/")

    @model_validator(mode="after")
    def _differ(self) -> Self:
        if self.path in self.topics:
            raise ValueError("path is a topic")
        return self


def upper(text: str) -> str:
    return text.replace("{{ x }}", "/X").replace("{{ n }}", "7")


def test_a_template_is_validated_when_it_is_rendered_and_not_before():
    options = Templated(path="{{ x }}/", parts="{{ n }}", topics=["a", "b{{ x }}"], names={"k{{ n }}": "{{ x }}"})
    assert options.templates == {"path", "parts", "topics", "names"}
    done = options.rendered(upper).checked()
    assert done == Templated(path="/X", parts=7, topics=("a", "b/X"), names={"k7": "/X"})
    assert done.templates == frozenset()


def test_the_rest_of_options_with_a_template_is_validated_at_once():
    with pytest.raises(ConfigError) as caught:
        Templated(path="{{ x }}", parts="many", wait="long", pth="{{ x }}")
    text = str(caught.value)
    assert "parts: " in text
    assert "wait: " in text
    assert "pth: unknown option; did you mean 'path'?" in text
    assert "absolute" not in text


def test_options_beside_a_template_are_normalised_at_once():
    options = Templated(path="/a/", topics=["b"], parts="3", wait="{{ x }}", names={"k": "{{ x }}"})
    assert (options.path, options.topics, options.parts) == ("/a", ("b",), 3)
    assert (options.wait, options.names) == ("{{ x }}", {"k": "{{ x }}"})
    assert options.templates == {"wait", "names"}
    assert options.model_fields_set == {"path", "topics", "parts", "wait", "names"}


def test_options_beside_a_template_keep_their_defaults():
    options = Templated(path="/a/", parts="{{ n }}")
    assert (options.path, options.topics, options.wait) == ("/a", (), dt.timedelta(seconds=1))
    assert options.model_fields_set == {"path", "parts"}


def test_a_time_span_that_is_none_says_how_to_write_one():
    with pytest.raises(ConfigError, match=r"wait: .*ISO 8601.*'PT1H'.*'P1D'"):
        Templated(path="/a", wait="{{ x }}").rendered(lambda _: "1h").checked()
    assert Templated(path="/a", wait="{{ x }}").rendered(lambda _: "PT1H").checked().wait == dt.timedelta(hours=1)


def test_all_errors_of_rendered_options_are_told_at_once():
    options = Templated(path="{{ y }}", parts="{{ y }}")
    with pytest.raises(ConfigError, match=r"Templated: path: must be absolute; parts: must be a whole number"):
        options.rendered(lambda _: "no").checked()


def test_a_rendered_text_is_no_template_again():
    done = Templated(path="/{{ x }}").rendered(lambda _: "/{{ secret }}").checked()
    assert done.path == "/{{ secret }}"
    assert done.templates == frozenset()
    assert Templated.from_options(done.serialize()) == done


def test_options_that_wait_for_their_templates_can_be_shown():
    options = Templated(path="{{ x }}", topics=["b{{ x }}"], parts="{{ n }}", wait=dt.timedelta(seconds=2))
    assert options.serialize()["topics"] == ["b{{ x }}"]
    assert pickle.loads(pickle.dumps(options)).rendered(upper).checked().parts == 7


class Renaming(Options):
    renamed = {"project_timezone": "zone"}
    removed = {"page_size": "pages are as large as the endpoint allows"}
    zone: str = "UTC"


@pytest.mark.parametrize("make", [lambda options: Renaming(**options), Renaming.from_options])
def test_a_former_name_is_accepted_with_a_warning(make):
    with pytest.warns(FutureWarning, match="project_timezone is called zone now"):
        options = make({"project_timezone": "US/Pacific"})
    assert options == Renaming(zone="US/Pacific")
    assert options.model_dump() == {"zone": "US/Pacific"}


def test_a_template_may_stand_under_a_former_name():
    with pytest.warns(FutureWarning):
        options = Renaming(project_timezone="{{ x }}")
    assert options.rendered(upper).checked() == Renaming(zone="/X")


@pytest.mark.parametrize("make", [lambda options: Renaming(**options), Renaming.from_options])
def test_a_removed_option_is_refused_with_what_replaces_it_and_a_former_name_beside_the_present_one(make):
    with pytest.raises(ConfigError) as caught:
        make({"page_size": 7, "project_timezone": "UTC", "zone": "UTC", "zome": 1})
    assert "page_size: no longer an option: pages are as large as the endpoint allows" in str(caught.value)
    assert "project_timezone: the former name of zone, which is set as well" in str(caught.value)
    assert "zome: unknown option; did you mean 'zone'?" in str(caught.value)
