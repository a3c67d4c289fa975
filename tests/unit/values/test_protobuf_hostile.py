"""Protobuf records of other writers: broken indexes, and decimals with many digits."""

from __future__ import annotations

from decimal import Decimal

import pytest

from airflow_provider_connect.values.protobuf.decoding import MessageTypes, message_values, read_message_index

DECIMALS = 'syntax="proto3"; import "confluent/type/decimal.proto"; message M { confluent.type.Decimal a = 1; }'


@pytest.mark.parametrize("index", [b"\x01", b"\x80" * 20 + b"\x01"])
def test_an_index_with_a_negative_or_an_endless_number_is_refused(index: bytes) -> None:
    with pytest.raises(ValueError, match="index"):
        read_message_index(index)


def test_a_decimal_keeps_all_of_its_digits() -> None:
    unscaled = 12345678901234567890123456789012345678
    inner = b"\x0a\x10" + unscaled.to_bytes(16, "big", signed=True) + b"\x18\x02"
    message = MessageTypes(DECIMALS, lambda _name: None).parse((0,), b"\x0a" + bytes([len(inner)]) + inner)
    assert message_values(message)["a"] == Decimal(f"{unscaled}E-2")
