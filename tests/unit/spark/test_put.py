"""Which of several shares' failures a day ends with."""

from __future__ import annotations

import pytest

from airflow_provider_connect.errors import (
    ConfigError,
    ConnectError,
    DataError,
    Failure,
    OvertakenError,
    RetriableError,
)
from airflow_provider_connect.spark.put import collect_receipts


@pytest.mark.parametrize(
    ("errors", "wanted"),
    [
        ([RetriableError("fenced"), OvertakenError("by run-2", by="t")], OvertakenError),
        ([OvertakenError("by run-2", by="t"), ConfigError("no right")], ConfigError),
        ([DataError("bad row"), RetriableError("away")], RetriableError),
        ([DataError("bad row")], DataError),
    ],
)
def test_the_failure_that_decides_what_is_done_next_is_raised_whichever_share_has_it(
    errors: list[ConnectError], wanted: type[ConnectError]
) -> None:
    with pytest.raises(wanted) as caught:
        collect_receipts([("sent", None), *((None, Failure.from_error(error)) for error in errors)])
    assert type(caught.value) is wanted


def test_receipts_come_in_the_order_of_the_shares() -> None:
    assert collect_receipts([("a", None), ("b", None)]) == ["a", "b"]
