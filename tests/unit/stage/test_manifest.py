import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from airflow_provider_connect.stage.manifest import Manifest, PollResult, StagedFile, attempt_folder, data_file
from airflow_provider_connect.window import Day

DAY = Day(date=dt.date(2026, 3, 1), zone="US/Pacific")
INSTANTS = st.datetimes(max_value=dt.datetime.fromisoformat("9000-01-01"), timezones=st.just(dt.UTC))
COUNT = st.integers(0, 10**12)


@st.composite
def polled(draw):
    earliest = draw(st.none() | INSTANTS)
    return PollResult(
        files=[StagedFile(path=f"f{draw(COUNT)}", rows=1, size_bytes=2, stats={"numRecords": 1})],
        rows_read=draw(COUNT),
        rows_written=draw(COUNT),
        counts=draw(st.dictionaries(st.sampled_from(["duplicates", "rejected", "other"]), COUNT)),
        wire_bytes=draw(COUNT),
        raw_bytes=draw(COUNT),
        retries=draw(st.integers(0, 9)),
        seconds=draw(st.floats(0, 1e5)),
        earliest=earliest,
        latest=earliest and earliest + dt.timedelta(hours=1),
        digest=f"{draw(st.integers(0, 2**128 - 1)):032x}",
    )


@given(st.lists(polled(), max_size=5))
def test_a_day_is_the_sum_of_its_partitions_in_any_order(parts):
    total, backwards = PollResult.total(parts), PollResult.total(parts[::-1])
    assert total.rows_read == sum(part.rows_read for part in parts)
    assert total.rows_written == sum(part.rows_written for part in parts)
    assert sum(total.counts.values()) == sum(sum(part.counts.values()) for part in parts)
    assert int(total.digest, 16) == sum(int(part.digest, 16) for part in parts) % 2**128
    assert len(total.digest) == 32
    assert [file.path for file in total.files] == [part.files[0].path for part in parts]
    seen = [part.earliest for part in parts if part.earliest]
    assert (total.earliest is None) == (not seen)
    assert all(total.earliest <= instant < total.latest for instant in seen)
    assert total.model_dump(exclude={"files"}) == backwards.model_dump(exclude={"files"})


def test_digests_add_up_without_growing():
    largest = PollResult(digest="f" * 32)
    assert PollResult.total([largest, largest]).digest == "f" * 31 + "e"
    assert PollResult.total([largest, PollResult(digest=f"{1:032x}")]).digest == "0" * 32


@given(polled())
def test_a_manifest_survives_json(part):
    manifest = Manifest(day=DAY, attempt="a-1", fingerprint="f" * 64, polled=part)
    assert Manifest.model_validate_json(manifest.model_dump_json()) == manifest


def test_a_manifest_of_another_form_is_refused():
    text = Manifest(day=DAY, attempt="a", fingerprint="f", polled=PollResult()).model_dump_json()
    with pytest.raises(ValidationError):
        Manifest.model_validate_json(text.replace('"attempt"', '"try"'))
    with pytest.raises(ValidationError):
        Manifest.model_validate_json(text[:-5])


def test_every_try_of_every_partition_has_a_name_of_its_own_in_its_days_partition():
    names = {data_file(DAY, attempt, part, copy) for attempt in "ab" for part in range(3) for copy in "xyz"}
    assert len(names) == 18
    assert {name.partition("/")[0] for name in names} == {"day=2026-03-01"}
    assert data_file(DAY, "a-1", 2, "3f") == "day=2026-03-01/a-1-00002-3f.parquet"
    assert attempt_folder("a-1") == "_connect/attempts/a-1"
