"""``airflow connect new rest``: writes files, keeps existing ones, and checks two pages of each stream."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from airflow.cli.cli_parser import get_parser

from airflow_provider_connect.cli.declarations import connection_id_of
from tests.equipment.rest_api.server import Answer, Request, RestApi
from tests.unit.cli.manifests.own import ROWS, manifest, option, paged, stream

BY_OFFSET = paged({"type": "OffsetIncrement", "page_size": 3}, option("skip"), option("limit"))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    tree = manifest(stream(paginator=BY_OFFSET), stream("jobs") | {"retriever": {"type": "AsyncRetriever"}})
    (tmp_path / "shop.yaml").write_text(yaml.safe_dump(tree))
    return tmp_path


def run(*arguments: str) -> int:
    args = get_parser().parse_args(["connect", "new", *arguments, "--output", "json"])
    with pytest.raises(SystemExit) as ended:
        args.func(args)
    code = ended.value.code
    assert isinstance(code, int)
    return code


def rows(capsys: pytest.CaptureFixture[str]) -> dict[str, dict[str, Any]]:
    return {row["stream"]: row for row in json.loads(capsys.readouterr().out)}


def test_files_are_written_once(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("rest", "--from", "shop.yaml") == 0
    written = rows(capsys)
    assert written["things"] | {"file": ""} == {"stream": "things", "result": "whole", "file": "", "remarks": ""}
    assert "creates a job" in written["jobs"]["remarks"]
    assert sorted(path.name for path in (folder / "shop").iterdir()) == ["_connections.yaml", "things.yaml"]
    mine = folder / "shop" / "things.yaml"
    mine.write_text(mine.read_text() + "# mine\n")
    assert run("rest", "--from", "shop.yaml") == 0
    assert rows(capsys)["things"]["file"] == "shop/things.yaml (kept)"
    assert mine.read_text().endswith("# mine\n")


def _serve(request: Request) -> Answer:
    first = int(request.first("skip"))
    return Answer({"data": ROWS[first : first + 3]})


def test_a_check_requests_two_pages(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with RestApi() as api:
        api.faults.append(_serve)
        connection = {"conn_type": "http", "host": f"http://127.0.0.1:{api.port}"}
        monkeypatch.setenv("AIRFLOW_CONN_SHOP", json.dumps(connection))
        assert run("rest", "--from", "shop.yaml", "--check") == 0
        assert [request.first("skip") for request in api.asked] == ["0", "3"]
    assert rows(capsys)["things"]["pages"] == "pages with 3 and 3 rows"


def test_a_check_names_the_problem_of_each_stream(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with RestApi() as api:
        api.faults.append(lambda _: Answer({"error": "no"}, status=403))
        connection = {"conn_type": "http", "host": f"http://127.0.0.1:{api.port}"}
        monkeypatch.setenv("AIRFLOW_CONN_SHOP", json.dumps(connection))
        assert run("rest", "--from", "shop.yaml", "--check") == 1
    assert "answered 403" in rows(capsys)["things"]["pages"]


@pytest.mark.parametrize(
    "arguments", [("rest",), ("rest", "name", "--from", "shop.yaml"), ("source",), ("sink", "a", "--from", "shop.yaml")]
)
def test_arguments_that_do_not_fit_are_refused(folder: Path, arguments: tuple[str, ...]) -> None:
    assert run(*arguments) == 78
    assert [path.name for path in folder.iterdir()] == ["shop.yaml"]


@pytest.mark.parametrize(
    ("path", "conn_id"),
    [("/x/source-my-api/manifest.yaml", "my_api"), ("/x/Shop 2.yaml", "shop_2"), ("/manifest.yaml", "api")],
)
def test_the_connection_is_named_like_the_file(path: str, conn_id: str) -> None:
    assert connection_id_of(Path(path)) == conn_id
