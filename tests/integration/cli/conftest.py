"""A real Airflow database with the DAGs of a test module, and a way to call commands as a person does."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from airflow.cli.cli_parser import get_parser
from airflow.models.connection import Connection
from airflow.models.variable import Variable
from airflow.utils.db import initdb
from airflow.utils.session import create_session
from sqlalchemy import delete

from tests.standins.mixpanel.events import Project
from tests.standins.mixpanel.server import StandIn

CANARY = "canary-secret-9c1e"
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def mixpanel() -> Iterator[StandIn]:
    with StandIn(Project(seed=5, events_per_day=50)) as standin:
        yield standin


@pytest.fixture(scope="module")
def lake(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, mixpanel: StandIn) -> Iterator[Path]:
    """Make the database with what the module's DAGS need, and the folder of their file; return the lake's folder."""
    lake, dags = tmp_path_factory.mktemp("lake"), tmp_path_factory.mktemp("dags")
    (dags / "cli_dags.py").write_text(request.module.DAGS)
    with pytest.MonkeyPatch.context() as patched:
        bundle = {"classpath": "airflow.dag_processing.bundles.local.LocalDagBundle", "kwargs": {"path": str(dags)}}
        patched.setenv("AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST", json.dumps([bundle | {"name": "cli"}]))
        initdb()
        account = mixpanel.account
        with create_session() as session:
            session.add(
                Connection(
                    conn_id="cli_mixpanel",
                    conn_type="mixpanel",
                    host=mixpanel.url,
                    login=account.username,
                    password=account.secret,
                    extra=json.dumps({"project_id": str(account.project_id), "proxy_token": CANARY}),
                )
            )
            session.add(Connection(conn_id="cli_spark", conn_type="spark", host="local"))
            session.add(Connection(conn_id="cli_key", conn_type="generic", password=CANARY * 3))
        Variable.set("cli_lake", str(lake))
        yield lake
        with create_session() as session:
            session.execute(delete(Connection).where(Connection.conn_id.like("cli_%")))
            session.execute(delete(Variable).where(Variable.key.like("c%")))  # the lake, offsets and quotas


@pytest.fixture
def run(lake: Path, mixpanel: StandIn, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Call a command; whatever it says, it shows no secret."""

    def called(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["airflow", "connect", *arguments])
        args = get_parser().parse_args(["connect", *arguments])
        with pytest.raises(SystemExit) as ended:
            args.func(args)
        out, err = capsys.readouterr()
        assert not [secret for secret in (mixpanel.account.secret, CANARY) if secret in out + err]
        return ended.value.code, out, err  # type: ignore[return-value]  # a number

    return called


def lines(out: str) -> list[dict[str, Any]]:
    return json.loads(out)  # type: ignore[no-any-return]
