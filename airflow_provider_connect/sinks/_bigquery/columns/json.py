r"""Prepares JSON documents for BigQuery's ``PARSE_JSON``.

It may refuse a lone surrogate (``\ud800`` without its other half), a number beyond float64 or a great depth.
https://cloud.google.com/bigquery/docs/json-data (2026-11) does not name all limits.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

_HIGH, _LOW, _HEX_END = r"\\u[dD][89abAB]", r"\\u[dD][c-fC-F]", "[0-9a-fA-F]{2}"
_ESCAPE = re.compile(rf"{_HIGH}{_HEX_END}{_LOW}{_HEX_END}|(\\u[dD][89a-fA-F]{_HEX_END})|\\.", re.DOTALL)


def parse_json_sql(text: str) -> str:
    """Return SQL that parses ``text`` as JSON. Unparsable text becomes a JSON string."""
    parsed = f"SAFE.PARSE_JSON({text}, wide_number_mode=>'round')"
    return f"IF({text} IS NULL, NULL, IFNULL({parsed}, TO_JSON({text})))"


def repair_surrogates(array: pa.Array) -> pa.Array:
    r"""Replace every lone surrogate by ``\ufffd``. Returns the same array if there is none."""
    import pyarrow as pa
    import pyarrow.compute as pc

    rows = pc.indices_nonzero(pc.fill_null(pc.match_substring_regex(array, f"{_HIGH}|{_LOW}"), False))  # noqa: FBT003
    rows = rows.filter(_maybe_lone(array.take(rows)))
    if not len(rows):
        return array
    texts = array.take(rows).to_pylist()
    repaired = [_ESCAPE.sub(lambda match: r"\ufffd" if match[1] else match[0], text) for text in texts]
    if texts == repaired:
        return array
    mask = pc.is_in(pa.array(range(len(array)), rows.type), rows)
    return pc.replace_with_mask(array, mask, pa.array(repaired, array.type))


def _maybe_lone(texts: pa.Array) -> pa.Array:
    import pyarrow.compute as pc

    pairs, highs, lows = (
        pc.count_substring_regex(texts, pattern) for pattern in (f"{_HIGH}{_HEX_END}{_LOW}", _HIGH, _LOW)
    )
    paired = pc.and_(pc.equal(pairs, highs), pc.equal(pairs, lows))
    return pc.or_(pc.invert(paired), pc.match_substring_regex(texts, r"\\\\u[dD]"))


def find_unparsable(array: pa.Array) -> list[int]:
    """Return the indexes of texts that are not JSON documents, without NULL."""
    import msgspec

    decoder = msgspec.json.Decoder(strict=False)
    unparsable = []
    for row, text in enumerate(array.to_pylist()):
        if text is None:
            continue
        try:
            decoder.decode(text)
        except (msgspec.ValidationError, RecursionError):  # beyond the decoder's numbers or depth, but perhaps JSON
            if not is_json(text):
                unparsable.append(row)
        except msgspec.DecodeError:
            unparsable.append(row)
    return unparsable


_TOKEN = re.compile(
    r"""
    [ \t\n\r]*+(?:
      (?P<string>"[^"\\\x00-\x1f]*+(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*+)*+")
    | (?P<other>-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?|true|false|null)
    | (?P<mark>[\[\]{},:])
    | (?P<end>\Z) )
    """,
    re.VERBOSE,
)


def is_json(text: str) -> bool:
    """Return True if a text follows JSON's grammar, whatever its numbers and depth."""
    closers: list[str] = []
    expected, at = "value", 0
    while token := _TOKEN.match(text, at):
        at, mark = token.end(), token["mark"]
        if token["end"] is not None:
            return expected == "end"
        if mark in ("]", "}"):
            if not closers or closers.pop() != mark or expected not in ("next", f"value or {mark}"):
                return False
            expected = "next" if closers else "end"
        elif mark in ("[", "{") and expected in ("value", "value or ]"):
            closers.append("]" if mark == "[" else "}")
            expected = f"value or {closers[-1]}"
        elif mark is None and expected in ("value", "value or ]"):
            expected = "next" if closers else "end"
        elif token["string"] is not None and expected in ("key", "value or }"):
            expected = "colon"
        elif mark == ":" and expected == "colon":
            expected = "value"
        elif mark == "," and expected == "next":
            expected = "value" if closers[-1] == "]" else "key"
        else:
            return False
    return False
