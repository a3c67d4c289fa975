from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.sinks._kafka.topic_names import (
    MAX_TOPIC_NAME,
    template_column,
    topic_name_pattern,
    topic_name_problem,
    topic_names,
    topic_template_problem,
)

LEGAL = re.compile(r"[A-Za-z0-9._-]{1,249}")
TEMPLATES = ["mixpanel_{event}", "{event}", "a.b-{event}.v1", "x" * 237 + "{event}"]
AWKWARD = [
    None, "", ".", "..", "a.b", "a_b", "a-b", "a b", "Sign Up", "sign_up", "Sign_Up", "é", "名前", "🎉",
    "\ud800", "null", "null_x0123456789", "x" * 249, "x" * 250, "x" * 300, "y" * 300, "__consumer_offsets", "ledger",
    "led.ger", "{event}", "a/b", "a\nb", "$ae_session",
]  # fmt: skip
values = st.lists(st.sampled_from(AWKWARD) | st.text(max_size=8), unique=True, max_size=12)


@given(values, st.sampled_from(TEMPLATES))
def test_topics_are_legal_and_no_two_are_one_to_kafka(events: list[str | None], template: str):
    made = topic_names(template, events)
    assert list(made) == events
    for name in made.values():
        assert LEGAL.fullmatch(name)
        assert name not in (".", "..")
        assert topic_name_problem(name) is None
    assert len({name.replace(".", "_") for name in made.values()}) == len(events)


@given(values, st.sampled_from(TEMPLATES))
def test_every_topic_of_a_template_is_like_it(events: list[str | None], template: str):
    assert all(re.fullmatch(topic_name_pattern(template), name) for name in topic_names(template, events).values())


def test_topics_of_others_are_not_like_a_template():
    others = ["mixpanel", "mixpanel_", "a_mixpanel_b", "mixpanel_b.dead_letters", "a.b-x.v2", "axb-x.v1"]
    assert not [name for name in others if re.fullmatch(topic_name_pattern("mixpanel_{event}"), name)]
    assert not [name for name in others if re.fullmatch(topic_name_pattern("a.b-{event}.v1"), name)]


@given(values, values, st.sampled_from(TEMPLATES))
def test_a_topic_does_not_depend_on_the_company(events: list[str | None], others: list[str | None], template: str):
    alone = {event: topic_names(template, [event])[event] for event in events}
    together = topic_names(template, dict.fromkeys([*others, *events]))
    assert {event: together[event] for event in events} == alone


@given(st.sampled_from([name for name in AWKWARD if name]))
def test_the_name_of_a_topic_gets_nothing_of_another(event: str):
    # The text of a topic that was made may come as an event, too: it must not lead there.
    [made] = topic_names("{event}", [event]).values()
    assert made == event or topic_names("{event}", [made])[made] != made


def test_a_template_gives_the_documented_topic_names():
    made = topic_names("mixpanel_{event}", ["Purchase", "Sign Up", None, "a.b"])
    assert made["Purchase"] == "mixpanel_Purchase"
    assert re.fullmatch(r"mixpanel_Sign_Up_x[0-9a-f]{10}", made["Sign Up"])
    assert re.fullmatch(r"mixpanel_null_x[0-9a-f]{10}", made[None])
    assert re.fullmatch(r"mixpanel_a_b_x[0-9a-f]{10}", made["a.b"])


def test_topic_names_equal_those_of_earlier_versions():
    # Written down: another hash would send the events of tomorrow to other topics.
    made = topic_names("{event}", ["Sign Up", None])
    assert made == {"Sign Up": "Sign_Up_x658c9ec752", None: "null_xa487c6bc85"}


@pytest.mark.parametrize("reserved", ["ledger", "led.ger"])
def test_no_event_reaches_a_reserved_topic(reserved: str):
    [made] = topic_names("{event}", [reserved.replace(".", "_")], reserved_names=[reserved]).values()
    assert made.replace(".", "_") != reserved.replace(".", "_")
    assert "__consumer_offsets" not in topic_names("{event}", ["__consumer_offsets"]).values()


def test_a_single_topic_keeps_its_name():
    assert topic_names("events", ["a", None]) == {"a": "events", None: "events"}
    assert template_column("events") is None
    assert template_column("mixpanel_{event}.v1") == "event"


@pytest.mark.parametrize("good", ["events", "a.b-c_D9", "x" * MAX_TOPIC_NAME, *TEMPLATES])
def test_valid_templates_have_no_problem(good: str):
    assert topic_template_problem(good) is None


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ("", "no legal topic name"),
        (".", "no legal topic name"),
        ("a b", "no legal topic name"),
        ("x" * 250, "249 characters"),
        ("__transaction_state", "Kafka's internal topics"),
        ("a b {event}", "around the column"),
        ("{event", "no legal topic name"),
        ("{}", "no legal topic name"),
        ("{a}{b}", "names 2 columns"),
        ("x" * 238 + "{event}", "at most 237 characters"),
    ],
)
def test_invalid_templates_are_refused_with_the_reason(bad: str, says: str):
    problem = topic_template_problem(bad)
    assert problem is not None
    assert says in problem
    with pytest.raises(ConfigError, match="topic: "):
        topic_names(bad, ["a"])
