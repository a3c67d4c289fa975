"""Finds and compares lines in bytes with numpy."""

from __future__ import annotations

from typing import Any, NamedTuple

_NEWLINE = 0x0A
_WHITE_SPACE = list(b" \t\r\n")
_FILLED = bytes(0 if byte in _WHITE_SPACE else 1 for byte in range(256))


class LineBounds(NamedTuple):
    """Byte offsets of lines: starts, and ends without newline."""

    starts: Any
    ends: Any


def find_line_bounds(data: bytes, *, min_mean_bytes: int = 0) -> LineBounds | None:
    """Return the bounds of all lines, or None for a mean length below ``min_mean_bytes``."""
    import numpy as np

    marks = np.frombuffer(data, np.uint8) == _NEWLINE
    if np.count_nonzero(marks) * min_mean_bytes > len(data):
        return None
    ends = np.flatnonzero(marks)
    if not data.endswith(b"\n"):
        ends = np.append(ends, len(data))
    return LineBounds(np.concatenate((np.zeros(1, np.int64), ends[:-1] + 1)), ends)


def find_blank_lines(data: bytes, bounds: LineBounds) -> Any:
    """Return a mask of lines that contain only white space."""
    import numpy as np

    starts, ends = bounds
    # For an empty line this is its newline.
    blank = np.isin(np.frombuffer(data, np.uint8)[starts], _WHITE_SPACE)
    if blank.any():
        filled = np.frombuffer(data.translate(_FILLED), np.uint8)
        filled_before = np.concatenate((np.zeros(1, np.int32), np.cumsum(filled, dtype=np.int32)))
        blank &= filled_before[ends] == filled_before[starts]
    return blank


def find_runs(mask: Any) -> list[tuple[int, int]]:
    """Return (begin, exclusive end) of each run of true values."""
    import numpy as np

    edges = np.flatnonzero(np.diff(mask, prepend=False, append=False))
    return list(zip(edges[0::2].tolist(), edges[1::2].tolist(), strict=True))


def matches_at(data: bytes, positions: Any, pattern: bytes) -> Any:
    """Return a mask of the positions where ``data`` contains ``pattern``."""
    import numpy as np

    windows = max(len(data) - len(pattern) + 1, 0)
    result = (positions >= 0) & (positions < windows)
    if windows:
        candidates = np.ndarray((windows,), f"V{len(pattern)}", data, strides=(1,))
        result[result] = candidates[positions[result]] == np.void(pattern)
    return result


def is_utf8(data: bytes) -> bool:
    import numpy as np
    import pyarrow as pa

    offsets = pa.py_buffer(np.array([0, len(data)], np.int32))
    try:
        pa.StringArray.from_buffers(1, offsets, pa.py_buffer(data)).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True
