import threading
import time

import pytest

from airflow_provider_connect.polling.prefetch import prefetch


def threads():
    return [thread for thread in threading.enumerate() if thread.name == "prefetch"]


def test_yields_all_in_order_and_ends_its_thread():
    assert list(prefetch(iter(range(100)), 2)) == list(range(100))
    assert threads() == []


def test_error_comes_after_the_items_before_it():
    def failing():
        yield 1
        yield 2
        raise KeyError("three")

    ahead = prefetch(failing(), 1)
    assert [next(ahead), next(ahead)] == [1, 2]
    with pytest.raises(KeyError, match="three"):
        next(ahead)
    assert threads() == []


def test_runs_no_further_ahead_than_its_depth():
    made = []

    def counting():
        for i in range(100):
            made.append(i)
            yield i

    ahead = prefetch(counting(), 3)
    next(ahead)
    time.sleep(0.1)
    assert len(made) <= 5  # one taken, three queued, one in hand
    ahead.close()


def test_stopping_early_closes_the_iterator_in_its_thread():
    closed_in = []

    def endless():
        try:
            while True:
                yield 0
        finally:
            closed_in.append(threading.current_thread().name)

    ahead = prefetch(endless(), 2)
    next(ahead)
    ahead.close()
    assert closed_in == ["prefetch"]
    assert threads() == []


def test_nested_prefetches_stop_together():
    ahead = prefetch(prefetch(iter(range(1000)), 2), 2)
    next(ahead)
    ahead.close()
    assert threads() == []


def test_with_a_depth_of_0_an_item_is_begun_when_the_one_before_it_is_asked_for():
    begun = []

    def counting():
        for i in range(5):
            begun.append(i)
            yield i

    ahead = prefetch(counting(), 0)
    for taken in range(4):
        assert next(ahead) == taken
        time.sleep(0.05)
        assert begun == list(range(taken + 2))
    assert list(ahead) == [4]
    assert threads() == []


def test_with_a_depth_of_0_nothing_more_is_begun_after_the_end():
    begun = []
    ahead = prefetch((begun.append(i) for i in range(100)), 0)
    next(ahead)
    time.sleep(0.05)
    ahead.close()
    assert len(begun) == 2
    assert threads() == []
