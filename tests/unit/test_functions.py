"""A function travels to the driver with all that the driver cannot import, and says no more than it must."""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.operators.arguments import require_sound
from airflow_provider_connect.spark.transform.loading import function_of, takes_day
from airflow_provider_connect.stage.transform import Given, PickledFunction, Transform, held, of_text, problem
from airflow_provider_connect.submit import functions
from airflow_provider_connect.submit.functions import python_version, shipped

CODE = """
import importlib.util, sys
sys.path.insert(0, {folder!r})
spec = importlib.util.spec_from_file_location("unusual_prefix_0123_dag", {folder!r} + "/dag.py")
module = importlib.util.module_from_spec(spec)
sys.modules[spec.name] = module
spec.loader.exec_module(module)
from airflow_provider_connect.stage.transform import Given
from airflow_provider_connect.submit.functions import shipped
sent = shipped(Given(module.clean))
assert "unusual_prefix" in module.clean.__module__
print(sent.model_dump_json())
"""
DAG = """
import beside
from beside import FACTOR
KNOWN = {"a", "b", "c", "d"}

def clean(frame):
    return [beside.plus_one(value) * FACTOR for value in frame if value or "a" in KNOWN]
"""


def sent_by_a_dag(tmp_path: Path, seed: str) -> Transform:
    (tmp_path / "dag.py").write_text(DAG)
    (tmp_path / "beside.py").write_text("FACTOR = 2\n\ndef plus_one(value):\n    return value + 1\n")
    code = CODE.format(folder=str(tmp_path))
    env = os.environ | {"PYTHONHASHSEED": seed, "PYTHONDONTWRITEBYTECODE": ""}
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env)
    return Transform.model_validate_json(made.stdout.splitlines()[-1])


def test_a_dag_file_s_function_runs_where_neither_the_file_nor_its_neighbour_can_be_imported(tmp_path: Path) -> None:
    sent = sent_by_a_dag(tmp_path, "1")
    assert not {"beside", "unusual_prefix_0123_dag"} & sys.modules.keys()
    function: Any = function_of(sent)
    assert function([1, 2]) == [4, 6]
    assert (str(sent), takes_day(function)) == ("clean()", False)
    assert "pickle" not in repr(sent), "what it closes over is printed nowhere"
    # A retry pickles it in another process, and finds what this one has frozen.
    assert sent.digest == sent_by_a_dag(tmp_path, "2").digest
    shutil.rmtree(tmp_path / "__pycache__", ignore_errors=True)
    assert sent.digest == sent_by_a_dag(tmp_path, "3").digest, "compiled anew, or read from the cache: the same"
    edited = shipped(Given(lambda frame: [*frame, 1]))
    assert edited is not None
    assert edited.digest != sent.digest


def test_a_module_may_have_two_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """As ``__main__`` has where :mod:`multiprocessing` has started the process."""
    monkeypatch.setitem(sys.modules, "another_name", sys.modules[__name__])
    assert shipped(Given(lambda frame: frame)) is not None


def test_a_digest_tells_functions_apart() -> None:
    some = [
        lambda frame: (frame, 1, 2),
        lambda frame: (frame, 2, 1),
        lambda frame: frame in {"a", "b"},
        lambda frame: frame in {"a", "c"},
        closing_over(1),
        closing_over(2),
        lambda frame, day=1: frame,
        lambda frame, day=2: frame,
        lambda frame: Kind.first,
        lambda frame: Kind.second,
    ]
    assert len({sent.digest for each in some if (sent := shipped(Given(each)))}) == len(some)


class Kind:
    first, second = range(2)


def closing_over(value: Any) -> Any:
    def function(frame: Any) -> Any:
        return [frame, value, function]

    return function


def test_packages_that_are_installed_stay_where_they_are() -> None:
    import pyarrow as pa

    sent = shipped(Given(lambda frame: pa.table(frame, names=None)))
    assert sent is not None
    assert sent.function is not None
    assert len(sent.function.pickle) < 5_000
    function: Any = function_of(sent)
    assert function({"a": [1]}).num_rows == 1


def test_what_does_not_travel_is_told_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    lock = threading.Lock()
    with pytest.raises(ConfigError, match=r"cannot be pickled \(TypeError\).*'package.module:function'"):
        shipped(Given(lambda frame: lock and frame))
    monkeypatch.setattr(functions, "MOST_BYTES", 10)
    with pytest.raises(ConfigError, match="it closes over data; read it in the function"):
        shipped(Given(lambda frame: frame))


def test_the_driver_says_why_it_cannot_run_a_function() -> None:
    wrong = PickledFunction(name="f", python="2.7", digest="", pickle="")
    with pytest.raises(ConfigError, match=r"the task runs Python 2\.7 and Spark's driver"):
        function_of(Transform(function=wrong))
    missing = base64.b64encode(b"cnowhere_to_be_found\nf\n.").decode()
    with pytest.raises(ConfigError, match="the function needs 'nowhere_to_be_found', which Spark's driver cannot"):
        function_of(Transform(function=PickledFunction(name="f", python=python_version(), digest="", pickle=missing)))
    with pytest.raises(ConfigError, match="the driver cannot import 'nowhere'"):
        function_of(of_text("nowhere.there:f"))
    with pytest.raises(ConfigError, match="module json has no function 'nothing'"):
        function_of(of_text("json:nothing"))
    import json

    assert function_of(of_text("json:dumps")) is json.dumps
    assert function_of(of_text("SELECT 1")) is None


def test_a_function_with_two_parameters_gets_the_day() -> None:
    assert takes_day(lambda frame, day: frame)
    assert not takes_day(lambda frame: frame)
    assert not takes_day(lambda frame, *, day=None: frame)


@pytest.mark.parametrize(
    "value",
    [
        None,
        "SELECT * FROM polled",
        "-- why\n/* and\nmore */ (with a AS (SELECT 1) SELECT * FROM a)",
        "FROM polled |> WHERE n > 0",
        "{{ var.value.query }}",
        "my_project.transforms:daily",
        test_a_function_with_two_parameters_gets_the_day,
    ],
)
def test_what_may_be_a_transform(value: Any) -> None:
    assert problem(value) is None
    require_sound("", {"transform": value})


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("", "is empty"),
        ("-- nothing", "is empty"),
        ("DROP TABLE polled", "it begins with 'DROP'"),
        ("polled", "it begins with 'polled'"),
        (3, "not a int"),
        (dict, "not a type"),
    ],
)
def test_what_may_not(value: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        require_sound("", {"transform": value})


def test_airflow_sees_a_name_and_calls_nothing() -> None:
    from airflow.serialization.helpers import serialize_template_field

    given = held(test_what_may_not)
    assert not callable(given)
    assert serialize_template_field(given, "transform") == "test_what_may_not()"
    assert held("SELECT 1") == "SELECT 1"
    assert held(None) is None
