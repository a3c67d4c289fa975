from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_connect.polling.dedupe import KeySet

# Few values, so that high halves collide while low halves differ.
half = st.sampled_from([0, 1, 2, 2**63, 2**64 - 1])
batches = st.lists(st.lists(st.tuples(half, half), max_size=12), max_size=12)


@given(batches, st.sampled_from([0, 100, 1 << 20]))
def test_is_the_set_of_python(keys, limit_bytes):
    seen = set()
    with KeySet(limit_bytes) as found:
        for batch in keys:
            expected = []
            for key in batch:
                expected.append(key not in seen)
                seen.add(key)
            hi, lo = (np.array([key[i] for key in batch], dtype=np.uint64) for i in (0, 1))
            assert found.add(hi, lo).tolist() == expected
        assert len(found) == len(seen)


@pytest.mark.parametrize("limit_bytes", [1 << 30, 1 << 14])
def test_many_random_keys_with_repeats(tmp_path, limit_bytes):
    random = np.random.default_rng(3)
    pool = random.integers(0, 2**64, size=(6000, 2), dtype=np.uint64)
    picks = random.integers(0, len(pool), size=20_000)
    first = np.zeros(len(picks), dtype=bool)
    first[np.unique(picks, return_index=True)[1]] = True
    with KeySet(limit_bytes, tmp_path) as keys:
        found = np.concatenate([keys.add(pool[part, 0], pool[part, 1]) for part in np.array_split(picks, 40)])
        mapped = [line for line in Path("/proc/self/maps").read_text().splitlines() if str(tmp_path) in line]
        assert bool(mapped) == (limit_bytes == 1 << 14)
        assert not any(tmp_path.iterdir()), "the files have no name: a kill leaves none behind"
    assert (found == first).all()
