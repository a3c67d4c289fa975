"""Conformance cases of sources and sinks: name, options, documentation, import cost."""

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

LOGIN, PASSWORD = "canary-user-7f3a", "canary'pass\"{{ 9c1e"  # unmistakable in any message or log
HEADINGS = {
    Source: {"Connection", "Days", "Rows", "Key", "Limits", "Errors"},
    Sink: {"Connection", "Delivery", "Ledger", "Schema", "Limits", "Errors"},
}
HEAVY = ("airflow", "pyspark", "pyarrow", "numpy", "deltalake", "pandas")


def secrets_of(connections: Iterable[Connection]) -> set[str]:
    """Return all logins and passwords, plain and JSON-escaped."""
    secrets = {LOGIN, PASSWORD}
    for connection in connections:
        secrets |= {secret.get_secret_value() for secret in (connection.login, connection.password) if secret}
    return {spelling for text in secrets if text for spelling in (text, json.dumps(text)[1:-1])}


def as_fixtures(cls: type, names: Iterable[str], values: tuple[type, ...]) -> None:
    """Turn attributes into pytest fixtures: values, or functions of other fixtures."""
    for name in names:
        attribute = cls.__dict__.get(name)
        if isinstance(attribute, values):
            setattr(cls, name, pytest.fixture(_constant_fixture(attribute)))
        elif type(attribute) is type(as_fixtures):
            setattr(cls, name, pytest.fixture(attribute))


def _constant_fixture(value: Any) -> Any:
    return lambda self: value


class ConnectorConformance:
    """Cases without server and data. A subclass defines ``connector``."""

    @pytest.fixture
    def connector(self) -> Options:
        """Return the source or sink."""
        raise NotImplementedError("define a fixture 'connector', 'source' or 'target' in the subclass")

    def test_the_name_is_the_files_name(self, connector: Options) -> None:
        """Executors import a connector by its name alone."""
        contract, cls = _contract_of(connector), type(connector)
        name = getattr(cls, "name", None)
        assert isinstance(name, str), f"{cls.__name__} needs name = '…'"
        assert re.fullmatch(r"[a-z][a-z0-9_]*", name)
        module = importlib.import_module(cls.__module__)
        assert Path(module.__file__ or "").stem == name
        classes = [
            cls_of_module
            for cls_of_module in vars(module).values()
            if isinstance(cls_of_module, type) and issubclass(cls_of_module, contract)
        ]
        assert [cls_of_module for cls_of_module in classes if cls_of_module.__module__ == module.__name__] == [cls]

    def test_options_travel_as_json(self, connector: Options) -> None:
        """A lost option would select another stream or target."""
        assert type(connector).from_options(json.loads(json.dumps(connector.serialize()))) == connector

    def test_an_unknown_option_is_refused_with_the_nearest_name(self, connector: Options) -> None:
        """An ignored misspelt option would leave an unwanted default."""
        for name in type(connector).model_fields:
            with pytest.raises(ConfigError) as caught:
                type(connector)(**{f"{name}_x": 1})
            assert f"{name}_x: unknown option; did you mean {name!r}?" in str(caught.value)

    def test_options_never_change(self, connector: Options) -> None:
        """A changed copy in driver, executor or Airflow would poll or publish other rows."""
        for name in type(connector).model_fields:
            with pytest.raises(ValidationError, match="frozen"):
                setattr(connector, name, getattr(connector, name))

    def test_every_option_has_a_description(self, connector: Options) -> None:
        """``Field(description=…)`` is an option's only documentation."""
        for name, field in type(connector).model_fields.items():
            assert field.description, f"{name} needs Field(description=…)"
            assert field.description.strip().endswith((".", "?")), f"{name}: {field.description}"

    def test_the_documentation_has_every_required_paragraph(self, connector: Options) -> None:
        """The module's docstring is the connector's page, which users need during incidents."""
        contract, cls = _contract_of(connector), type(connector)
        page = importlib.import_module(cls.__module__).__doc__ or ""
        assert page.strip(), "the module needs a docstring: it is the connector's page"
        assert page.strip().splitlines()[0].endswith("."), "the page must begin with a one-line sentence"
        missing_headings = sorted(HEADINGS[contract] - set(re.findall(r"^\*\*(\w+)", page, re.MULTILINE)))
        assert not missing_headings, f"the page has no paragraphs that begin with **{'**, **'.join(missing_headings)}**"
        assert "https://" in page, "the page needs links to the vendor's documentation"
        assert (cls.__doc__ or "").strip() not in ("", (cls.__base__.__doc__ or "").strip())

    def test_the_import_needs_nothing_heavy(self, connector: Options) -> None:
        """Airflow imports DAG files every few seconds: no Airflow, Spark or Arrow."""
        module = importlib.import_module(type(connector).__module__)
        process = _import_in_new_process(module.__name__, module.__file__)
        assert process.returncode == 0, process.stderr
        assert process.stdout.split() == [], "move these imports into functions"


@functools.cache  # all streams of a source share one module
def _import_in_new_process(name: str, file: str | None) -> subprocess.CompletedProcess[str]:
    code = (
        f"import importlib.util, sys\nsys.path[:0] = {[path for path in sys.path if path]!r}\n"
        f"spec = importlib.util.spec_from_file_location({name!r}, {file!r})\n"
        "sys.modules[spec.name] = made = importlib.util.module_from_spec(spec)\nspec.loader.exec_module(made)\n"
        f"print(*sorted(set({HEAVY!r}) & set(sys.modules)))"
    )
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)  # noqa: S603


def _contract_of(connector: Options) -> type[Source] | type[Sink]:
    return Source if isinstance(connector, Source) else Sink
