"""The page's own example: a notifier of Airflow's quotes the report of a task that failed."""

from __future__ import annotations

import re
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest
from airflow.providers.smtp.notifications.smtp import SmtpNotifier
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_connect.capabilities.source import HasQuota
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.polling.quota.limits import Quota
from tests.equipment.airflow.connectors import TinyLedger, TinySource
from tests.unit.operators.conftest import SparkSubmit, Supervisor, Task, once, task_instance

PAGE = Path(__file__).parents[4] / "docs" / "report.md"
FAILED = """
publish("2026-10-05")
failure = dict(type="DataError", message="a <b>column</b> changed")
report(dict(day="2026-10-05", status="published", generation=1, rows_written=10),
       dict(day="2026-10-06", status="failed", failure=failure), failure=failure)
"""


class Mails:
    """Stands for the notifier's hook, and keeps what it would send."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []

    def __enter__(self) -> Mails:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        pass

    def send_email_smtp(self, **mail: Any) -> None:
        self.sent.append(mail)


@pytest.fixture
def mails(monkeypatch: pytest.MonkeyPatch) -> Mails:
    mails = Mails()
    monkeypatch.setattr(SmtpNotifier, "hook", mails)
    return mails


@pytest.fixture
def notifier() -> SmtpNotifier:
    [example] = re.findall("```python\n(.*?)```", PAGE.read_text().partition("## Notifications")[2], re.DOTALL)
    names: dict[str, Any] = {}
    exec(example, names)
    return names["tell"]


def mail_of(task: Task, notifier: SmtpNotifier, mails: Mails) -> dict[str, Any]:
    kept: dict[str, Any] = {}

    def pulled(*, key: str) -> Any:
        return kept.get(key)

    task.context["ti"] = task_instance(xcom_push=kept.__setitem__, xcom_pull=pulled)
    with pytest.raises(AirflowFailException) as caught:
        task.run()
    notifier(task.context | {"exception": caught.value})
    [mail] = mails.sent
    return mail


def test_the_mail_quotes_each_day(task: Task, spark_submit: SparkSubmit, notifier: SmtpNotifier, mails: Mails) -> None:
    spark_submit.does(FAILED)
    mail = mail_of(task, notifier, mails)
    assert mail["subject"] == "dag.events has failed"
    assert "<li>2026-10-06: a &lt;b&gt;column&lt;/b&gt; changed</li>" in mail["html_content"]
    assert "Published: 2026-10-05<" in mail["html_content"]


def test_a_task_that_failed_before_its_job_is_reported(
    task: Task, notifier: SmtpNotifier, mails: Mails, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_SPARK_DEFAULT")
    mail = mail_of(task, notifier, mails)
    assert "&#39;spark_default&#39;" in mail["html_content"]
    assert "<li>" not in mail["html_content"]


class CountedSource(TinySource, HasQuota):
    def quota(self, connection: Connection) -> Quota | None:
        return Quota("tiny", requests=9)


FIRST = """
import time
publish("2026-10-05")
failure = dict(type="QuotaError", message="the job may send 0 more")
report(dict(day="2026-10-05", status="published", generation=1, rows_written=10),
       dict(day="2026-10-06", status="not_started", failure=failure), failure=failure, sent=[time.time()])
sys.exit(75)
"""


def test_days_published_by_earlier_jobs_are_reported(
    ledger: TinyLedger, spark_submit: SparkSubmit, supervisor: Supervisor, notifier: SmtpNotifier, mails: Mails
) -> None:
    task = Task(ledger, source=CountedSource(conn_id="tiny_default"), days="2026-10-05..2026-10-06")
    spark_submit.does(once(FIRST, FAILED.replace('status="published"', 'status="already_published"')))
    mail = mail_of(task, notifier, mails)
    assert "Published: 2026-10-05<" in mail["html_content"]


def test_an_xcom_that_cannot_be_written_does_not_hide_why_the_task_failed(
    task: Task, spark_submit: SparkSubmit
) -> None:
    spark_submit.does(FAILED)
    with pytest.raises(AirflowFailException, match="column"):  # this task instance has no xcom_push
        task.run()
