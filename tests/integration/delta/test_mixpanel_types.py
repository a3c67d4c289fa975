"""Promoted properties of Mixpanel through Spark into a Delta table: typed there, digit for digit."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest
from deltalake import DeltaTable

from tests.integration.conftest import Submitter

pytestmark = pytest.mark.slow

DAY = "2026-11-10"


def test_decimals_timestamps_and_dates_land_typed(submit: Submitter) -> None:
    """Of each row the columns against the properties beside them, read by another parser."""
    promote = {
        "amount": ["exact", "decimal(38,10)"],
        "$browser": ["browser", "string"],
        "cart": "string",
        "$screen_width": ["width", "decimal(9,0)"],
        "$os": ["never_a_time", "timestamp"],
        "plan": ["never_a_date", "date"],
    }
    report = submit.here([DAY], source={"promote": promote, "null_texts": ["undefined", "<null>"]}).report
    assert report.failure is None
    (day,) = report.days
    assert day.status == "published"

    table = DeltaTable(str(submit.table))
    types = {one.name: str(one.type.type) for one in table.schema().fields if hasattr(one.type, "type")}
    assert types["exact"] == "decimal(38,10)"
    assert types["never_a_time"] == "timestamp"
    assert types["never_a_date"] == "date"
    rows = table.to_pyarrow_table().to_pylist()
    assert len(rows) == 2000
    exact = 0
    for row in rows:
        parsed = json.loads(row["properties"], parse_float=Decimal)
        amount = parsed.get("amount")
        assert row["exact"] == (amount if isinstance(amount, int | Decimal) else None)
        exact += row["exact"] is not None
        assert row["width"] == parsed.get("$screen_width")
        assert row["browser"] == parsed.get("$browser")
        assert (row["cart"] and json.loads(row["cart"], parse_float=Decimal)) == parsed.get("cart")
        assert (row["never_a_time"], row["never_a_date"]) == (None, None)
    assert 0 < exact < len(rows)
    assert day.counts["promote_null.$os"] > 0
    assert day.counts["promote_null_text.plan"] > 0
