"""Names made from any text: tables, topics and schemas that exist must be found again under them, byte for byte."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_connect.sinks._bigquery import names as bigquery
from airflow_provider_connect.sinks._kafka import topic_names as kafka
from airflow_provider_connect.values.hashed_names import HASH_SUFFIX_CHARS, has_hash, name_hash, name_with_hash
from airflow_provider_connect.values.names import legal_name

TEXTS = st.text(st.sampled_from("abXY01_x-. \n$é٣Ａ"), max_size=20) | st.text(max_size=20)


def test_columns_of_tables_that_exist_keep_their_names() -> None:
    names = ["$city", "1st", "a_x0123456789", "plain"]
    assert list(bigquery.legal_names(names).values()) == [
        "_city_xc4a5dac697", "_1st_xe7a9bcb1b3", "a_x0123456789_x62a7adcd88", "plain"
    ]  # fmt: skip
    assert bigquery.staged_name("$city") == "_city_xc4a5dac697"


def test_jobs_labels_and_ends_of_tables_keep_theirs() -> None:
    assert bigquery.legal_table_suffix("$city") == "_city_xc4a5dac697"
    assert bigquery.legal_job_id("a_x0123456789") == "a_x0123456789_x62a7adcd88"
    assert bigquery.labels({"$city": "$city", "$CITY": "v"}) == {
        "x_city_xc4a5dac697": "_city",
        "x_city_x746bdd3f3d": "v",
    }


def test_topics_that_exist_keep_their_names() -> None:
    assert kafka.topic_names("pre.{c}-post", ["$city", "1st", "a_x0123456789", None]) == {
        "$city": "pre._city_x2996fd2bdd-post",
        "1st": "pre.1st-post",
        "a_x0123456789": "pre.a_x0123456789_xd1b4af45cd-post",
        None: "pre.null_xa487c6bc85-post",
    }


def test_fields_of_schemas_that_are_registered_keep_their_names() -> None:
    names = ["$city", "1st", "a_x0123456789", "plain"]
    assert [legal_name(name) for name in names] == [
        "_city_x4cde774e1a", "_1st_xe01ddf6594", "a_x0123456789_x3ad289cfc8", "plain"
    ]  # fmt: skip


@given(TEXTS, TEXTS)
def test_two_texts_never_share_a_name(one: str, other: str) -> None:
    for make in (bigquery.legal_job_id, legal_name, lambda text: kafka.topic_names("t-{c}", [text])[text]):
        assert (make(one) == make(other)) is (one == other)


@given(TEXTS, st.integers(0, 12))
def test_a_mark_has_its_size_and_is_known(text: str, room: int) -> None:
    name = name_with_hash(text, name_hash(text), max_chars=room)
    assert len(name) == min(len(text), room) + HASH_SUFFIX_CHARS
    assert has_hash(name)
    assert has_hash(name.upper(), any_case=True)


@pytest.mark.parametrize("name", ["", "a", "a_x012345678", "a_x01234567890", "a_x012345678g", "a_X0123456789"])
def test_other_names_have_no_mark(name: str) -> None:
    assert not has_hash(name)
