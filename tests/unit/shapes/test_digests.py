"""Digests of shapes and of mask keys."""

from __future__ import annotations

import time

import pytest
from pydantic import SecretStr

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.shapes import Drop, Mask
from airflow_provider_connect.shapes.chain import Chain, Shaping

KEY, OTHER_KEY = "0123456789abcdef-one", "0123456789abcdef-two"


def shaping(*shapes, **keys):
    connections = {
        name: Connection(conn_id=name, conn_type="generic", password=SecretStr(key)) for name, key in keys.items()
    }
    return Shaping(Chain(shapes), connections)


def test_equal_shapes_under_an_equal_key_have_equal_digests_whatever_their_connection_is_called():
    one = shaping(Drop(columns=["a"]), Mask(columns=["b"], conn_id="x"), x=KEY).digests("target")
    other = shaping(Drop(columns=["a"]), Mask(columns=["b"], conn_id="y"), y=KEY).digests("target")
    assert one == other
    assert one.keys() == {"shapes", "key[1]"}


@pytest.mark.parametrize(
    ("changed", "part"),
    [
        (shaping(Mask(columns=["b"], conn_id="x"), x=OTHER_KEY), "key[0]"),
        (shaping(Mask(columns=["c"], conn_id="x"), x=KEY), "shapes"),
        (shaping(Mask(columns=["b"], mode="redact")), "shapes"),
        (shaping(), "shapes"),
    ],
)
def test_another_key_column_mode_or_no_mask_has_other_digests(changed, part):
    before = shaping(Mask(columns=["b"], conn_id="x"), x=KEY).digests("target")
    assert changed.digests("target").get(part) != before[part]


def test_digests_hold_no_key_and_differ_between_targets():
    mask = shaping(Mask(columns=["b"], conn_id="x"), x=KEY)
    assert KEY not in str(mask.digests("one"))
    assert mask.digests("one")["key[0]"] != mask.digests("two")["key[0]"]


def test_a_guess_of_a_key_takes_milliseconds_not_nanoseconds():
    mask = shaping(Mask(columns=["b"], conn_id="x"), x=KEY)
    begun = time.process_time()
    mask.digests("target")
    assert time.process_time() - begun > 0.005


def test_a_short_key_is_refused():
    with pytest.raises(ConfigError, match="fewer than 16 bytes"):
        shaping(Mask(columns=["b"], conn_id="x"), x="short").digests("target")
