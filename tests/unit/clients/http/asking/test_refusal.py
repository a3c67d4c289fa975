"""What a source itself says of answers."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from airflow_provider_connect.clients.http.asking.call import Call, Reply
from airflow_provider_connect.clients.http.asking.rules import ErrorRule
from airflow_provider_connect.clients.http.json_api import JsonApi
from airflow_provider_connect.errors import ConfigError, ConnectError, QuotaError
from tests.equipment.clock import NoTime
from tests.equipment.http.answering import AnsweringServer, Said

Make = Callable[..., JsonApi]
CANARY = "canary-7f"


def test_a_source_names_errors_that_rules_cannot_describe(asker_of: Make, clock: NoTime) -> None:
    heard: list[Reply] = []

    def refusal(answer: Reply) -> ConnectError | None:
        heard.append(answer)
        if answer.status != 429:
            return None
        return QuotaError(f"no more of {answer.url}", said=(3, 3, 7.0), retry_after_seconds=7.0)

    answers = iter([Said({"is": "full"}, 429), Said({}, 404)])
    with AnsweringServer(lambda _: next(answers)) as server:
        rules = [ErrorRule(status="404", then="empty"), ErrorRule(status="429", then="empty")]
        asker = asker_of(server, errors=rules, extra={"auth": "bearer"}, password=CANARY)
        with pytest.raises(QuotaError, match="no more of http") as caught:
            asker.ask(Call("a", is_repeatable=False), error_of=refusal)
        assert asker.ask(Call("a"), error_of=refusal).verdict == "empty"
    assert (caught.value.said, caught.value.retry_after_seconds) == ((3, 3, 7.0), 7.0)
    assert [(each.status, each.body) for each in heard] == [(429, b'{"is": "full"}'), (404, b"{}")]
    assert heard[0].secrets.redact(CANARY) != CANARY
    assert clock.pauses == []


def test_a_refusal_by_the_source_is_not_retried_and_a_temporary_error_is(asker_of: Make, clock: NoTime) -> None:
    said = iter([QuotaError("full", retry_after_seconds=30), ConfigError("a person must act")])
    with AnsweringServer(lambda _: Said({}, 429)) as server:
        asker = asker_of(server)
        with pytest.raises(ConfigError, match="person"):
            asker.ask(Call("a"), error_of=lambda _: next(said))
        assert len(server.heard) == 2
    assert len(clock.pauses) == 1
    assert clock.pauses[0] >= 30
