"""Maps as every language writes them: as their entries, no key twice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_connect.values.arrays import Refuse, refuse_by_element, without_dictionary
from airflow_provider_connect.values.arrow import lengths_and_elements

if TYPE_CHECKING:
    import pyarrow as pa


def keys_and_items(array: pa.MapArray, refuse: Refuse) -> tuple[Any, pa.Array, pa.Array, Refuse]:
    """Return how many entries each map has, all keys, all items, and what refuses maps by their entries.

    A map that holds a key twice is refused: a reader would see one of the two.
    """
    lengths, entries = lengths_and_elements(array)
    keys, items = entries.flatten()
    refuse_doubled_keys(keys, lengths, refuse)
    return lengths, keys, items, refuse_by_element(refuse, lengths)


def refuse_doubled_keys(keys: pa.Array, lengths: Any, refuse: Refuse) -> None:
    """Refuse maps that hold a key twice."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    rows = np.repeat(np.arange(len(lengths)), lengths)
    table = pa.table({"row": rows, "key": without_dictionary(keys)})
    counts = table.group_by(["row", "key"]).aggregate([([], "count_all")])
    twice = counts.filter(pc.greater(counts["count_all"], 1))["row"].to_numpy()
    if len(twice):
        mask = np.zeros(len(lengths), bool)
        mask[twice] = True
        refuse(mask, "a map with a key that comes twice")
