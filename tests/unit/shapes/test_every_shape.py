"""What every chain promises, for any schema: what comes out has the schema that was said, and nothing is made up."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_connect import shapes
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.shapes import Chain
from airflow_provider_connect.shapes.chain import SHAPES
from airflow_provider_connect.values.arrow import is_text
from airflow_provider_connect.values.ddl import PLAIN_TYPES

from .rows import batches, shaped

TYPE_NAMES = st.sampled_from([*PLAIN_TYPES, "DECIMAL(10,2)"])
FORMATS = st.sampled_from(["iso", "epoch_s", "epoch_ms", "epoch_us"])


def options_for(schema: pa.Schema) -> dict[str, st.SearchStrategy[dict[str, Any]]]:
    """Return options of each shape, most of which fit a schema."""
    names = st.sampled_from(schema.names)
    texts = st.sampled_from([field.name for field in schema if is_text(field.type)] or schema.names)
    new = st.sampled_from(["new", "newer", "Newest", *schema.names[:1]])
    some = st.lists(names, min_size=1, max_size=3, unique=True)
    when = st.builds(
        lambda column, negate: {"column": column, "operator": "is_null", "negate": negate}, names, st.booleans()
    )
    sometimes = {"when": when}
    fixed = st.fixed_dictionaries
    return {
        "select": fixed({"columns": some}),
        "drop": fixed({"columns": some}),
        "rename": fixed({"columns": st.dictionaries(names, new, min_size=1, max_size=2)}),
        "cast": fixed(
            {
                "columns": st.dictionaries(names, TYPE_NAMES, min_size=1, max_size=2),
                "on_error": st.just("null"),
                "format": FORMATS,
            }
        ),
        "mask": st.one_of(
            fixed({"columns": some, "conn_id": st.just("key")}, optional=sometimes),
            fixed({"columns": some, "mode": st.just("redact")}, optional=sometimes),
            fixed(
                {"columns": texts.map(lambda name: [name]), "mode": st.just("truncate"), "keep_characters": st.just(1)},
                optional=sometimes,
            ),
        ),
        "filter": fixed({"where": when}),
        "flatten": fixed({}, optional={"separator": st.sampled_from(["_", "."])}),
        "extract": fixed(
            {"column": texts, "into": st.dictionaries(new, TYPE_NAMES, min_size=1, max_size=2)}, optional=sometimes
        ),
        "constant": fixed({"column": new, "value": st.just("x")}, optional=sometimes),
        "route": fixed(
            {"column": new, "default": names.map(lambda name: f"to_{{{name}}}") | st.just("all")},
            optional={"cases": st.lists(fixed({"to": st.just("there"), "when": when}), max_size=2)},
        ),
    }


NAMES = sorted(options_for(pa.schema([("a", pa.string())])))


@given(data=st.data(), batch=batches(), wanted=st.lists(st.sampled_from(NAMES), min_size=1, max_size=8))
def test_a_chain_that_fits_returns_batches_of_its_schema(
    data: st.DataObject, batch: pa.RecordBatch, wanted: list[str]
) -> None:
    fitting: list[dict[str, Any]] = []
    schema = batch.schema
    for name in wanted:
        one = {name: data.draw(options_for(schema)[name])}
        try:
            schema = Chain.of([*fitting, one]).result_schema(batch.schema)
        except ConfigError:
            continue
        else:
            fitting.append(one)
    made, counts = shaped(fitting, batch)
    assert all(count >= 0 for count in counts.values())
    assert made.num_rows == batch.num_rows - counts["shape_filtered"]


@given(data=st.data(), name=st.sampled_from(NAMES))
def test_each_shape_alone_refuses_a_schema_or_changes_the_batch(data: st.DataObject, name: str) -> None:
    batch = data.draw(batches())
    one = {name: data.draw(options_for(batch.schema)[name])}
    try:
        Chain.of([one]).result_schema(batch.schema)
    except ConfigError:
        with pytest.raises(ConfigError):
            Chain.of([one]).bind(batch.schema, {})
    else:
        shaped([one], batch)


def test_every_shape_is_known_by_its_name() -> None:
    assert set(NAMES) == set(SHAPES)
    for name, shape in SHAPES.items():
        assert shape.__name__.lower() == name
        assert shape.__name__ in shapes.__all__


@pytest.mark.parametrize("name", sorted(SHAPES))
def test_an_unknown_option_is_told_with_the_nearest_name(name: str) -> None:
    known = next(iter(SHAPES[name].model_fields))
    with pytest.raises(ConfigError, match=f"{known}x: unknown option; did you mean '{known}'"):
        Chain.of([{name: {f"{known}x": 1}}])


@pytest.mark.parametrize("name", sorted(set(SHAPES) - {"filter", "flatten", "extract", "constant", "route"}))
def test_an_unknown_column_is_told_with_the_nearest_name(name: str) -> None:
    columns: Any = {"drop": ["emial"], "select": ["emial"], "mask": ["emial"]}.get(name, {"emial": "STRING"})
    options = {"columns": columns} | ({"mode": "redact"} if name == "mask" else {})
    with pytest.raises(ConfigError, match=rf"shape\[0\] \({name}\): no column 'emial'; did you mean 'email'\?"):
        Chain.of([{name: options}]).result_schema(pa.schema([("id", pa.int64()), ("email", pa.string())]))
