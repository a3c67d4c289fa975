"""What a source itself says of answers, and a quota that its connection tells."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from airflow_provider_connect.errors import ConfigError, ConnectError, QuotaError
from airflow_provider_connect.polling.asking.asker import Asker
from airflow_provider_connect.polling.asking.call import Call
from airflow_provider_connect.polling.asking.judging import Heard
from airflow_provider_connect.polling.asking.rules import ErrorRule
from airflow_provider_connect.polling.quota.limits import Quota
from airflow_provider_connect.polling.tally import Tally
from tests.equipment.clock import NoTime
from tests.equipment.http.answering import AnsweringServer, Said

Make = Callable[..., Asker]
CANARY = "canary-7f"


def test_a_source_says_what_rules_cannot_and_leaves_them_the_rest(asker_of: Make, clock: NoTime) -> None:
    heard: list[Heard] = []

    def refusal(call: Call, answer: Heard) -> ConnectError | None:
        heard.append(answer)
        if answer.seen.status != 429:
            return None
        return QuotaError(f"no more of {call.url}", said=(3, 3, 7.0), retry_after_seconds=7.0)

    answers = iter([Said({"is": "full"}, 429), Said({}, 404)])
    with AnsweringServer(lambda _: next(answers)) as server:
        rules = [ErrorRule(status="404", then="empty"), ErrorRule(status="429", then="empty")]
        asker = asker_of(server, refusal=refusal, errors=rules, extra={"auth": "bearer"}, password=CANARY)
        with pytest.raises(QuotaError, match=r"no more of a$") as caught:
            asker.ask(Call("a", is_repeatable=False), Tally())
        assert asker.ask(Call("a"), Tally()).verdict == "empty"
    assert (caught.value.said, caught.value.retry_after_seconds) == ((3, 3, 7.0), 7.0)
    assert [(each.seen.status, each.seen.body) for each in heard] == [(429, b'{"is": "full"}'), (404, b"{}")]
    assert heard[0].secrets.struck_from(CANARY) != CANARY
    assert clock.pauses == []


def test_what_a_source_refuses_is_not_asked_again_and_what_passes_is(asker_of: Make, clock: NoTime) -> None:
    said = iter([QuotaError("full", retry_after_seconds=30), ConfigError("a person must act")])
    with AnsweringServer(lambda _: Said({}, 429)) as server:
        asker = asker_of(server, refusal=lambda _, __: next(said), quota=Quota("of.it", requests=9))
        with pytest.raises(ConfigError, match="person"):
            asker.ask(Call("a"), tally := Tally())
        assert len(server.heard) == tally.requests == 2
    assert len(clock.pauses) == 1
    assert clock.pauses[0] >= 30
