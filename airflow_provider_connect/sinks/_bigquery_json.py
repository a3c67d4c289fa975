r"""JSON documents on their way through ``PARSE_JSON``.

A parser may take less than JSON's grammar allows: no lone surrogate (``\ud800`` without its other half), no number
beyond float64, no more than so many levels; https://cloud.google.com/bigquery/docs/json-data (2026-11) does not name
all of its limits. One such document would fail the whole publish, with its text in the message; here none can.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

_SURROGATE = r"\\u[dD][89a-fA-F]"
_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)


def expression(text: str) -> str:
    """Return SQL for the JSON value of ``text``; what BigQuery cannot parse becomes a JSON string of the same text."""
    parsed = f"SAFE.PARSE_JSON({text}, wide_number_mode=>'round')"
    return f"IF({text} IS NULL, NULL, IFNULL({parsed}, TO_JSON({text})))"


def repaired(array: pa.Array) -> pa.Array:
    r"""Return documents in which every lone surrogate is ``\ufffd``; the array itself when there is none."""
    import pyarrow as pa
    import pyarrow.compute as pc

    mask = pc.fill_null(pc.match_substring_regex(array, _SURROGATE), False)  # noqa: FBT003
    if not pc.any(mask).as_py():
        return array
    texts = array.filter(mask).to_pylist()
    mended = [_ESCAPE.sub(lambda found: r"\ufffd" if found[1] else found[0], text) for text in texts]
    return array if texts == mended else pc.replace_with_mask(array, mask, pa.array(mended, array.type))


def unparsable(array: pa.Array) -> list[int]:
    """Return the rows whose text is no JSON document; NULL is none to look at."""
    import msgspec

    decoder = msgspec.json.Decoder(strict=False)
    bad = []
    for row, text in enumerate(array.to_pylist()):
        try:
            if text is not None:
                decoder.decode(text)
        except (msgspec.MsgspecError, RecursionError):
            bad.append(row)
    return bad
