"""Decides whether to read on after a listing has reached its announced total."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from airflow_provider_connect.errors import SetupError


@dataclass
class BeyondTotal:
    """State of a listing with as many records or pages as the API announced.

    Reading goes on if records came twice, because others are then missing, or if the last page names a next one.

    :param label: the listing, for messages.
    :param names_next: the API names the next page, so the token is not computed here.
    """

    label: str
    of: Literal["records", "pages"]
    total: int
    token: str | None
    names_next: bool
    _different_before: int | None = field(default=None, init=False)

    def next_token(self, different_records: int) -> str | None:
        """Return the token of the next page to read, or None at the end.

        :param different_records: records with different keys so far.
        :raises SetupError: the API sends more, or fewer different records, than it announced.
        """
        before, self._different_before = self._different_before, different_records
        is_whole = self.of == "pages" or different_records >= self.total
        if self.of == "records" and different_records > self.total:
            raise self._exceeded_error()
        if before is not None:
            brings_new = different_records > before
            was_whole = self.of == "pages" or before >= self.total
            if was_whole and brings_new:
                raise self._exceeded_error()
            if not brings_new:
                self._require_whole(different_records, is_whole=is_whole)
                return None
        if is_whole and not self.names_next:
            return None
        if self.token is None:
            self._require_whole(different_records, is_whole=is_whole)
        return self.token

    def _exceeded_error(self) -> SetupError:
        return SetupError(
            f"{self.label}: the API announced {self.total:,} {self.of} and sends more. Correct the place of the total, "
            "or use another end rule, such as 'no_token'"
        )

    def _require_whole(self, different_records: int, *, is_whole: bool) -> None:
        if not is_whole:
            raise SetupError(
                f"{self.label}: the API announced {self.total:,} records and sent {different_records:,} different "
                "ones. Others came twice. The next try starts at the first page. If it fails again, check that pages "
                "do not overlap, and that records.key identifies a record"
            )
