"""What is read in one go is what is read step by step: the quick ways mean nothing else than the slow ones."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_connect.errors import ConnectError
from airflow_provider_connect.sources._rest.building.record_decoder import DecodedRecords, RecordDecoder
from airflow_provider_connect.sources._rest.pages.page_parser import PageParser, PageParts
from airflow_provider_connect.sources._rest.records import Records
from airflow_provider_connect.values.json.slices import JsonSlicer

LEAVES = [
    b"null", b"1", b"-0.50", b"true", b'"a"', b'"\\u00e4"', "\"ä\"".encode(), b"[]", b"{}", b'"\xff"', b'"\\ud800"',
    b"NaN", b"1e999", b"01", b"9223372036854775808", b'"\\q"', b"[1, 2]", b'{"\xff":1}', b"[" * 3000 + b"]" * 3000,
]  # fmt: skip
SPACES = [b"", b" ", b"\n\t"]
COLUMNS: dict[str, Any] = {
    "id": "bigint",
    "name": "string",
    "user_id": {"type": "bigint", "at": "/user/id"},
    "user_name": {"type": "string", "at": "/user/name"},
    "price": {"type": "decimal(10,2)", "at": "/cost/price"},
    "currency": {"type": "string", "at": "/cost/currency"},
    "first": {"type": "string", "at": "/list/0"},
    "deep": {"type": "string", "at": "/far/away/from"},
    "whole": "json",
}


def an_object(names: list[str], values: st.SearchStrategy[bytes], most: int = 4) -> st.SearchStrategy[bytes]:
    """Objects as texts, whose names may come twice."""

    def written(pairs: list[tuple[str, bytes]], space: bytes) -> bytes:
        return b"{" + (b"," + space).join(b'"%b":%b%b' % (name.encode(), space, value) for name, value in pairs) + b"}"

    pairs = st.lists(st.tuples(st.sampled_from(names), values), max_size=most)
    return st.builds(written, pairs, st.sampled_from(SPACES))


def a_list(values: st.SearchStrategy[bytes], least: int = 0) -> st.SearchStrategy[bytes]:
    return st.builds(
        lambda found, space: b"[" + space + (b"," + space).join(found) + b"]",
        st.lists(values, min_size=least, max_size=4),
        st.sampled_from(SPACES),
    )


leaves = st.sampled_from(LEAVES)
small = an_object(["id", "n", "next", "a.b"], leaves)
PAGES = an_object(
    ["data", "m", "next", "a.b", "x"],
    leaves | small | a_list(small | leaves) | an_object(["data", "n", "a.b"], leaves | a_list(small)),
)


@given(
    PAGES | a_list(small),
    st.sampled_from(["data", "/m/data", "/m", "", "a.b", "/data/0"]),
    st.lists(st.sampled_from(["next", "/m/n", "a.b", "/m/a.b", "/data/0/id", "m", "/x/n/id", "data"]), max_size=3),
)
def test_a_page_is_cut_as_level_by_level(body: bytes, at: str, places: list[str]) -> None:
    records = Records(at=at, key=("id",), columns={"id": "bigint"})  # type: ignore[arg-type]
    found = []
    for is_framed in (True, False):
        cutter = PageParser(records, places)
        if not is_framed:
            cutter._fast_decoder = None
        try:
            cut = cutter.parse(body, "page")
            found.append((list(map(bytes, cut.records)), cut.records_json, repr(cut.page_values)))
        except ConnectError as error:
            found.append((type(error).__name__, str(error)))  # type: ignore[arg-type]
    assert found[0] == found[1]


def test_a_page_of_the_declared_form_needs_no_second_look(monkeypatch: pytest.MonkeyPatch) -> None:
    cutter = PageParser(
        Records(at="/of/data", key=("id",), columns={"id": "bigint"}),  # type: ignore[arg-type]
        ["/of/next", "more", "gone", "/lost/too"],
    )
    monkeypatch.setattr(JsonSlicer, "members", None)
    cut = cutter.parse(b' {"x":[{}],"of":{"next":"n","data":[ {"id": 1.0} ,2]},"more":false}\n', "page")
    assert list(map(bytes, cut.records)) == [b'{"id": 1.0}', b"2"]
    assert json.loads(cut.records_json) == [{"id": 1.0}, 2]
    assert (cut.page_values["/of/next"], cut.page_values["more"]) == ("n", False)
    assert repr([cut.page_values["gone"], cut.page_values["/lost/too"]]) == "[MISSING, MISSING]"


@pytest.mark.parametrize("undeclared", ["json", "drop", "fail"])
@given(
    st.lists(
        a_list(
            an_object(
                ["id", "name", "user", "cost", "list", "far", "whole", "more", 'od\\"d'],
                leaves
                | an_object(["id", "name", "price", "currency", "other"], leaves)
                | an_object(["away"], an_object(["from"], leaves)),
                most=6,
            )
            | leaves,
            least=1,
        ),
        min_size=1,
        max_size=3,
    )
)
def test_records_are_decoded_as_one_by_one(undeclared: Any, pages: list[bytes]) -> None:
    """Page after page: what the first ones have more than is declared is known when the next come."""
    declared = Records(key=("id",), columns=COLUMNS, undeclared=undeclared)
    cutter = PageParser(declared, [])
    quick, slow = RecordDecoder(declared, cutter.slices), RecordDecoder(declared, cutter.slices)
    for page in pages:
        with suppress(ConnectError):  # what is no page is no decoder's matter
            cut = cutter.parse(page, "page")
            slow._fast_decoder._decoder = None
            assert _shown(quick.decode(cut)) == _shown(slow.decode(cut))


def _shown(decoded: DecodedRecords) -> tuple[Any, ...]:
    return repr(decoded.values), decoded.unreadable, decoded.lone_surrogates, decoded.undeclared


def test_other_fields_are_known_after_the_page_that_brought_them(monkeypatch: pytest.MonkeyPatch) -> None:
    declared = Records(key=("id",), columns={"id": "bigint"}, undeclared="drop")  # type: ignore[arg-type]
    decoder = RecordDecoder(declared, JsonSlicer())
    records = [b'{"id":1,"x":[1]}', b'{"id":2}', b'{"y":0,"id":3,"x":""}']
    cut = PageParts(records, b"[" + b",".join(records) + b"]", {})
    first = decoder.decode(cut).undeclared
    monkeypatch.setattr(JsonSlicer, "members", None)
    assert decoder.decode(cut).undeclared == first == (2, ["x", "y"])


def test_records_that_never_have_the_same_fields_are_not_learned_for_ever() -> None:
    declared = Records(key=("id",), columns={"id": "bigint"}, undeclared="drop")  # type: ignore[arg-type]
    decoder = RecordDecoder(declared, JsonSlicer())
    for number in range(0, 300, 3):
        records = [b'{"id":1,"n%d":1}' % (number + more) for more in range(3)]
        assert decoder.decode(PageParts(records, b"[" + b",".join(records) + b"]", {})).undeclared.records == 3
    assert decoder._fast_decoder._decoder is None
