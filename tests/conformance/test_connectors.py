"""What sources and sinks have in common: their name, their options, their documentation."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from airflow_provider_connect import registry
from airflow_provider_connect.config import Options
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.sink import Sink
from airflow_provider_connect.source import Source
from tests.conformance.conftest import example

Connector = tuple[str, str, type[Options]]
HEADINGS = {
    "sources": {"Connection", "Days", "Rows", "Key", "Limits", "Errors"},
    "sinks": {"Connection", "Delivery", "Ledger", "Schema", "Limits", "Errors"},
}


def test_name_is_the_files_name(connector: Connector) -> None:
    room, name, cls = connector
    assert cls.name == name
    assert re.fullmatch(r"[a-z][a-z0-9_]*", name)
    module = importlib.import_module(cls.__module__)
    assert Path(module.__file__ or "").stem == name
    contract = Source if room == "sources" else Sink
    own = [v for v in vars(module).values() if isinstance(v, type) and issubclass(v, contract)]
    assert [v for v in own if v.__module__ == module.__name__] == [cls]


def test_options_travel_as_json(connector: Connector, tmp_path: Path) -> None:
    _, _, cls = connector
    made = example(cls, tmp_path)
    assert cls.of(json.loads(json.dumps(made.serialize()))) == made


def test_an_unknown_option_is_refused_with_the_nearest_name(connector: Connector, tmp_path: Path) -> None:
    _, _, cls = connector
    for name in cls.model_fields:
        with pytest.raises(ConfigError) as caught:
            cls(**{f"{name}_x": 1})
        assert f"{name}_x: unknown option; did you mean {name!r}?" in str(caught.value)


def test_options_never_change(connector: Connector, tmp_path: Path) -> None:
    made = example(connector[2], tmp_path)
    for name in type(made).model_fields:
        with pytest.raises(ValidationError, match="frozen"):
            setattr(made, name, getattr(made, name))


def test_every_option_says_what_it_is(connector: Connector) -> None:
    for name, field in connector[2].model_fields.items():
        assert field.description, name
        assert field.description.strip().endswith((".", "?")), f"{name}: {field.description}"


def test_the_documentation_says_what_a_user_must_know(connector: Connector) -> None:
    room, _, cls = connector
    page = importlib.import_module(cls.__module__).__doc__ or ""
    assert page.strip().splitlines()[0].endswith("."), "a page begins with one sentence"
    assert HEADINGS[room] - set(re.findall(r"^\*\*(\w+)", page, re.MULTILINE)) == set()
    assert "https://" in page, "vendor facts need their source"
    assert (cls.__doc__ or "").strip() not in ("", (cls.__base__.__doc__ or "").strip())


def test_imports_need_nothing_heavy() -> None:
    """Importing a connector costs a DAG file neither Airflow, Spark nor Arrow: all of them in one fresh interpreter."""
    code = (
        "import sys\nfrom airflow_provider_connect import registry\n"
        f"for name in {registry.names('sources')!r}: registry.source_class(name)\n"
        f"for name in {registry.names('sinks')!r}: registry.sink_class(name)\n"
        "heavy = {'airflow', 'pyspark', 'pyarrow', 'numpy', 'deltalake', 'pandas'}\n"
        "print(*sorted(heavy & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "\n"
