"""The ids that ``airflow connect erase`` reads."""

from __future__ import annotations

from pathlib import Path

from airflow_provider_connect.cli.erase import read_ids


def test_each_line_is_an_id_and_only_newlines_end_it(tmp_path: Path) -> None:
    """U+2028 and its like end a line for Python alone: the parts of one id would be other persons' ids."""
    file = tmp_path / "ids"
    file.write_bytes("\ufeffa\u2028b\r\nc\x0bd\n\n  \ne\x85f\n g".encode())
    assert read_ids(str(file)) == ["a\u2028b", "c\x0bd", "e\x85f", " g"]
