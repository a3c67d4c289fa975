"""What sources and sinks have in common: their name, their options, their documentation, what their import costs."""

from __future__ import annotations

import functools
import importlib
import json
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from airflow_provider_connect.config import Options
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.sink import Sink
from airflow_provider_connect.source import Source

LOGIN, PASSWORD = "canary-user-7f3a", "canary'pass\"{{ 9c1e"  # made to be found where it must not be
HEADINGS = {
    Source: {"Connection", "Days", "Rows", "Key", "Limits", "Errors"},
    Sink: {"Connection", "Delivery", "Ledger", "Schema", "Limits", "Errors"},
}
HEAVY = ("airflow", "pyspark", "pyarrow", "numpy", "deltalake", "pandas")


def secrets_of(connections: Iterable[Connection]) -> set[str]:
    """Return logins and passwords, as they are and as JSON has them, with the suite's own."""
    held = {LOGIN, PASSWORD}
    for connection in connections:
        held |= {secret.get_secret_value() for secret in (connection.login, connection.password) if secret}
    return {form for text in held if text for form in (text, json.dumps(text)[1:-1])}


def as_fixtures(cls: type, names: Iterable[str], values: tuple[type, ...]) -> None:
    """Make fixtures of attributes that a subclass has set to a value, or to a plain function of other fixtures."""
    for name in names:
        given = cls.__dict__.get(name)
        if isinstance(given, values):
            setattr(cls, name, pytest.fixture(_returning(given)))
        elif type(given) is type(as_fixtures):
            setattr(cls, name, pytest.fixture(given))


def _returning(value: Any) -> Any:
    return lambda self: value


class ConnectorConformance:
    """The part of both suites that needs neither server nor data: give it a ``connector``."""

    @pytest.fixture
    def connector(self) -> Options:
        """Return the source or sink, made with its options."""
        raise NotImplementedError("give the subclass a fixture 'connector', 'source' or 'target'")

    def test_the_name_is_the_files_name(self, connector: Options) -> None:
        """A job finds its connector by the name alone: with another one, no executor would find this."""
        contract, cls = _contract(connector), type(connector)
        name = getattr(cls, "name", None)
        assert isinstance(name, str), f"{cls.__name__} needs name = '…'"
        assert re.fullmatch(r"[a-z][a-z0-9_]*", name)
        module = importlib.import_module(cls.__module__)
        assert Path(module.__file__ or "").stem == name
        own = [value for value in vars(module).values() if isinstance(value, type) and issubclass(value, contract)]
        assert [value for value in own if value.__module__ == module.__name__] == [cls]

    def test_options_travel_as_json(self, connector: Options) -> None:
        """An executor makes the connector again from JSON: what is lost on the way is another stream or target."""
        assert type(connector).from_options(json.loads(json.dumps(connector.serialize()))) == connector

    def test_an_unknown_option_is_refused_with_the_nearest_name(self, connector: Options) -> None:
        """A misspelt option that is taken in silence does something else than its user believes."""
        for name in type(connector).model_fields:
            with pytest.raises(ConfigError) as caught:
                type(connector)(**{f"{name}_x": 1})
            assert f"{name}_x: unknown option; did you mean {name!r}?" in str(caught.value)

    def test_options_never_change(self, connector: Options) -> None:
        """Driver, executors and Airflow hold one copy each: a changed one would poll or publish something else."""
        for name in type(connector).model_fields:
            with pytest.raises(ValidationError, match="frozen"):
                setattr(connector, name, getattr(connector, name))

    def test_every_option_says_what_it_is(self, connector: Options) -> None:
        """``Field(description=…)`` is the only place where an option is documented."""
        for name, field in type(connector).model_fields.items():
            assert field.description, f"{name} needs Field(description=…)"
            assert field.description.strip().endswith((".", "?")), f"{name}: {field.description}"

    def test_the_documentation_says_what_a_user_must_know(self, connector: Options) -> None:
        """The module's docstring is the connector's page: what is missing there, a user finds out at night."""
        contract, cls = _contract(connector), type(connector)
        page = importlib.import_module(cls.__module__).__doc__ or ""
        assert page.strip(), "the module needs a docstring: it is the connector's page"
        assert page.strip().splitlines()[0].endswith("."), "a page begins with one sentence"
        missing = sorted(HEADINGS[contract] - set(re.findall(r"^\*\*(\w+)", page, re.MULTILINE)))
        assert not missing, f"the page lacks paragraphs that begin with **{'**, **'.join(missing)}**"
        assert "https://" in page, "vendor facts need their source"
        assert (cls.__doc__ or "").strip() not in ("", (cls.__base__.__doc__ or "").strip())

    def test_the_import_needs_nothing_heavy(self, connector: Options) -> None:
        """A DAG file imports the connector every few seconds: it may cost neither Airflow, Spark nor Arrow."""
        module = importlib.import_module(type(connector).__module__)
        run = _imported(module.__name__, module.__file__)
        assert run.returncode == 0, run.stderr
        assert run.stdout.split() == [], "import these inside functions"


@functools.cache  # a source is tried with each of its streams: its module is the same
def _imported(name: str, file: str | None) -> subprocess.CompletedProcess[str]:
    """Import a connector's module in a fresh interpreter, which prints what is heavy of all that came with it."""
    code = (
        f"import importlib.util, sys\nsys.path[:0] = {[path for path in sys.path if path]!r}\n"
        f"spec = importlib.util.spec_from_file_location({name!r}, {file!r})\n"
        "sys.modules[spec.name] = made = importlib.util.module_from_spec(spec)\nspec.loader.exec_module(made)\n"
        f"print(*sorted(set({HEAVY!r}) & set(sys.modules)))"
    )
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)  # noqa: S603


def _contract(connector: Options) -> type[Source] | type[Sink]:
    return Source if isinstance(connector, Source) else Sink
