import sys
import textwrap

import pytest

from airflow_provider_connect import registry, sources
from airflow_provider_connect.capabilities.poller import Follows
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.registry import require_capability
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.sources.mixpanel import MixpanelSource

SOURCE = """
from typing import ClassVar
from airflow_provider_connect.source import Source

class {cls}(Source):
    name: ClassVar[str] = {name!r}
    connection_types: ClassVar[tuple[str, ...]] = ("x",)

    @property
    def stream_key(self): return "s"
    def open(self, connection, context): ...
"""


@pytest.fixture
def new_file(tmp_path, monkeypatch):
    """Put a file beside those in ``sources/``, as far as Python's import is concerned."""
    monkeypatch.setattr(sources, "__path__", [*sources.__path__, str(tmp_path)])

    def write(name, text):
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(text))
        monkeypatch.delitem(sys.modules, f"airflow_provider_connect.sources.{name}", raising=False)

    yield write
    for path in tmp_path.glob("*.py"):
        sys.modules.pop(f"airflow_provider_connect.sources.{path.stem}", None)
        if hasattr(sources, path.stem):
            delattr(sources, path.stem)


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Install a package of somebody else that names a connector in its entry points."""

    def install(room, name, module, text, target):
        (tmp_path / f"{module}.py").write_text(text)
        info = tmp_path / f"{module}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[airflow_provider_connect.{room}]\n{name} = {module}:{target}\n")
        monkeypatch.syspath_prepend(str(tmp_path))
        monkeypatch.delitem(sys.modules, module, raising=False)

    return install


def test_connectors_are_named_by_their_files():
    assert "mixpanel" in registry.names("sources")
    assert "delta" in registry.names("sinks")
    assert not any(name.startswith("_") for room in ("sources", "sinks") for name in registry.names(room))
    assert registry.source_class("mixpanel") is MixpanelSource
    assert registry.sink_class("delta") is DeltaSink


def test_an_unknown_name_is_refused_with_the_nearest():
    with pytest.raises(ConfigError, match=r"no source is called 'mixpanle'; did you mean 'mixpanel'\?"):
        registry.source_class("mixpanle")
    with pytest.raises(ConfigError, match=r"no sink is called 'zzz'; known: .*delta"):
        registry.sink_class("zzz")
    with pytest.raises(ConfigError, match="no sink is called 'mixpanel'"):
        registry.sink_class("mixpanel")


@pytest.mark.parametrize("name", ["_delta_table", "os", "..config", "delta.__class__", ""])
def test_only_connectors_are_imported_by_name(name):
    with pytest.raises(ConfigError):
        registry.sink_class(name)


def test_a_new_file_is_a_new_connector(new_file):
    new_file("fresh", SOURCE.format(cls="FreshSource", name="fresh"))
    new_file("_part_of_it", "")
    assert "fresh" in registry.names("sources")
    assert "_part_of_it" not in registry.names("sources")
    assert registry.source_class("fresh").__name__ == "FreshSource"


@pytest.mark.parametrize(
    "text",
    [
        "x = 1",
        SOURCE.format(cls="A", name="other"),
        SOURCE.format(cls="A", name="fresh") + SOURCE.format(cls="B", name="fresh"),
        "from airflow_provider_connect.sources.mixpanel import MixpanelSource",
    ],
    ids=["no class", "another name", "two classes", "another file's class"],
)
def test_a_file_must_define_exactly_one_class_of_its_name(new_file, text):
    new_file("fresh", text)
    with pytest.raises(ConfigError, match="'fresh' must define exactly one Source with name = 'fresh'"):
        registry.source_class("fresh")


def test_another_package_brings_a_connector(installed):
    installed("sources", "theirs", "their_connector", SOURCE.format(cls="Theirs", name="theirs"), "Theirs")
    assert "theirs" in registry.names("sources")
    assert registry.source_class("theirs").__module__ == "their_connector"
    assert "theirs" not in registry.names("sinks")


def test_a_name_of_ours_cannot_be_taken(installed):
    installed("sources", "mixpanel", "their_connector", SOURCE.format(cls="Theirs", name="mixpanel"), "Theirs")
    assert registry.source_class("mixpanel") is MixpanelSource
    assert registry.names("sources").count("mixpanel") == 1
    assert "their_connector" not in sys.modules


def test_another_packages_connector_must_be_what_it_says(installed):
    installed("sinks", "theirs", "their_connector", SOURCE.format(cls="Theirs", name="theirs"), "Theirs")
    with pytest.raises(ConfigError, match="must define exactly one Sink"):
        registry.sink_class("theirs")


def test_a_poller_that_lacks_what_its_source_says_is_refused_in_words() -> None:
    class Plain:
        pass

    with pytest.raises(ConfigError, match="Plain must be a Follows, because its rows are increments"):
        require_capability(Plain(), Follows, "its rows are increments")  # type: ignore[arg-type]
