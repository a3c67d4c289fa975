"""A connector names its capabilities: a member that the driver would never ask for is refused."""

from __future__ import annotations

import importlib
import inspect
from typing import Any, ClassVar

import pytest

from airflow_provider_connect.capabilities.publisher import StagesByExecutors
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.connector import CAPABILITIES
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.sink import Publisher, Sink
from airflow_provider_connect.source import Poller, Source

MODULES = ("source", "poller", "publisher")
NO_CAPABILITY = ("RewrittenRows", "Together")
CONTRACTS: dict[str, type] = {"source": Source, "poller": Poller, "publisher": Publisher, "sink": Sink}


def old(contract: type, member: str) -> type:
    """Define a class of an earlier version, whose base had the member."""
    return type("Old", (contract,), {member: lambda *_: None, "__module__": __name__})


@pytest.mark.parametrize(
    ("contract", "member", "capability"),
    [
        ("source", "quota", "source.HasQuota"),
        ("source", "counts_late", "source.CountsLate"),
        ("source", "inspect", "source.Inspects"),
        ("poller", "count", "poller.CountsRows"),
        ("poller", "split", "poller.Splits"),
        ("poller", "resume", "poller.Resumes"),
        ("poller", "is_read_by_spark", "poller.ReadBySpark"),
        ("publisher", "put", "publisher.StagesByExecutors"),
        ("publisher", "confirm", "publisher.Confirms"),
        ("publisher", "erase", "publisher.Erases"),
        ("publisher", "rewrite_by_key", "publisher.RewritesByKey"),
        ("publisher", "sweep", "publisher.Sweeps"),
        ("publisher", "note", "publisher.KeepsNotes"),
        ("sink", "stages_marks", "publisher.StagesMarks"),
    ],
)
def test_a_member_without_its_capability_is_refused_by_name(contract: str, member: str, capability: str) -> None:
    with pytest.raises(TypeError, match=rf"Old defines {member}: derive it from capabilities\.{capability}, too"):
        old(CONTRACTS[contract], member)


def test_a_member_of_a_helper_class_is_no_capability_either() -> None:
    helper = type("Helper", (), {"count": lambda *_: None})
    with pytest.raises(TypeError, match=r"Counting defines count: derive it from capabilities\.poller\.CountsRows"):
        type("Counting", (helper, Poller), {})


def test_a_class_of_the_same_name_is_no_capability() -> None:
    homonym = type("CountsRows", (), {"count": lambda *_: None})
    with pytest.raises(TypeError, match=r"Counting defines count: derive it from capabilities\.poller\.CountsRows"):
        type("Counting", (homonym, Poller), {})


def test_a_method_of_a_capability_and_one_of_a_base_pass() -> None:
    steps: dict[str, Any] = {name: lambda *_: None for name in ("begin", "put", "abort")}
    new = type("New", (Publisher, StagesByExecutors), steps)
    assert issubclass(type("Newer", (new,), {"put": lambda *_: None}), StagesByExecutors)


def test_an_option_is_no_member() -> None:
    class Narrow(Source):
        name: ClassVar[str] = "narrow"
        connection_types: ClassVar[tuple[str, ...]] = ("x",)
        stream_key: ClassVar[str] = "s"  # type: ignore[misc]
        column_names: tuple[str, ...] = ()

        def open(self, connection: Connection, context: Any) -> Poller:
            raise NotImplementedError

    assert Narrow(conn_id="x").column_names == ()


def test_every_capability_is_known_with_each_member() -> None:
    known = {name: set(members.split()) for table in CAPABILITIES.values() for name, members in table.items()}
    modules = [importlib.import_module(f"airflow_provider_connect.capabilities.{name}") for name in MODULES]
    for module in modules:
        for name, cls in inspect.getmembers(module, inspect.isclass):
            if cls.__module__ != module.__name__ or name in NO_CAPABILITY:
                continue
            assert {each for each in vars(cls) if not each.startswith("_")} - {"proposal_fields"} <= known[name], name


def test_a_source_of_an_earlier_version_is_refused_in_words() -> None:
    """Its open(connection) would end in a TypeError on the first executor, which names no remedy."""
    with pytest.raises(ConfigError, match=r"Old is written for an earlier version: write open\(self"):

        class Old(Source):
            name: ClassVar[str] = "old"
            connection_types: ClassVar[tuple[str, ...]] = ("old",)
            stream_key: ClassVar[str] = "s"  # type: ignore[misc]

            def open(self, connection: Connection) -> Poller:  # type: ignore[override]
                raise NotImplementedError
