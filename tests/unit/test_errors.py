import json

import pytest

from airflow_provider_connect import errors
from airflow_provider_connect.errors import (
    ConfigError,
    ConnectError,
    DataError,
    DeadlineError,
    Failure,
    OvertakenError,
    QuotaError,
    RetriableError,
    RowsLostError,
    SetupError,
    SupersededError,
    worst_failure,
)

TREE = [
    ConnectError,
    ConfigError,
    RetriableError,
    DeadlineError,
    OvertakenError,
    QuotaError,
    DataError,
    SupersededError,
]


@pytest.mark.parametrize("cls", TREE)
def test_every_error_crosses_a_process_boundary_with_its_type(cls):
    failure = Failure.model_validate(json.loads(Failure.from_error(cls("what, where, what to do")).model_dump_json()))
    assert type(failure.error()) is cls
    assert str(failure.error()) == "what, where, what to do"


def test_the_time_to_wait_crosses_too():
    again = Failure.from_error(RetriableError("later", retry_after_seconds=61)).error()
    assert isinstance(again, RetriableError)
    assert again.retry_after_seconds == 61


def test_that_the_budget_of_requests_is_spent_crosses_too():
    for spent in (True, False):
        error = Failure.from_error(RetriableError("500", request_budget_spent=spent)).error()
        assert isinstance(error, RetriableError)
        assert error.request_budget_spent is spent


def test_who_overtook_and_whether_to_poll_again_cross_too():
    for may_poll_again in (True, False):
        error = Failure.from_error(OvertakenError("late", by="token", may_poll_again=may_poll_again)).error()
        assert isinstance(error, OvertakenError)
        assert (error.by, error.may_poll_again, error.exit_code) == ("token", may_poll_again, 75)


def test_an_unexpected_error_is_named_by_type_and_place_never_by_its_text():
    try:
        {}["https://user:hunter2@host"]
    except KeyError as error:
        failure = Failure.from_error(error)
    assert failure.type == "ConnectError"
    assert "unexpected KeyError at test_errors.py" in failure.message
    assert "hunter2" not in failure.message


def test_the_docstring_draws_every_error_there_is():
    drawn = errors.__doc__ or ""
    for cls in (*TREE, RowsLostError, SetupError):
        assert cls.__name__ in drawn
    ours = {v for v in vars(errors).values() if isinstance(v, type) and issubclass(v, ConnectError)}
    assert ours == {*TREE, RowsLostError, SetupError}


def test_an_error_of_the_setup_is_retriable_and_repeats_only_itself():
    error = SetupError("no list at 'items'")
    assert Failure.from_error(error).type == "RetriableError"
    assert error.repeats(SetupError("no list at 'items'"))
    assert not any(error.repeats(previous) for previous in (None, SetupError("x"), RetriableError(str(error))))
    assert Failure.from_error(error.as_final()).type == "ConfigError"


def test_lost_rows_are_for_a_person_once_they_left_the_driver():
    failure = Failure.from_error(RowsLostError("the table began anew"))
    assert failure.type == "ConfigError"
    assert failure.forbids_more
    assert type(failure.error()) is ConfigError


def test_exit_codes_tell_the_recovery():
    assert [cls.exit_code for cls in (ConfigError, RetriableError, DataError)] == [78, 75, 65]


def test_the_worst_failure_decides():
    config, retry, data = (Failure.from_error(cls("x")) for cls in (ConfigError, RetriableError, DataError))
    assert worst_failure([data, retry, config]) == config
    assert worst_failure([data, retry]) == retry
    assert worst_failure([data]) == data
    assert worst_failure([]) is None


def test_of_several_waits_the_longest_counts():
    short, long = (Failure.from_error(RetriableError("x", retry_after_seconds=s)) for s in (3, 900))
    cut = Failure.from_error(RetriableError("cut"))
    assert worst_failure([cut, short, long]) == long


def test_a_spent_budget_is_not_hidden_by_another_partition_of_the_day():
    cut, spent = (Failure.from_error(RetriableError("x", request_budget_spent=is_spent)) for is_spent in (False, True))
    wait = Failure.from_error(RetriableError("x", retry_after_seconds=3))
    assert worst_failure([cut, spent]) == worst_failure([spent, cut]) == spent
    assert worst_failure([cut, spent, wait]) == wait, "which stops the job too, and says how long it must wait"


class NarrowError(DataError):
    """As a module beside this one may define for its own use."""


def test_a_narrower_class_crosses_as_the_one_it_is():
    failure = Failure.from_error(NarrowError("line 7"))
    assert failure.type == "DataError"
    assert type(failure.error()) is DataError
    assert worst_failure([failure, Failure.from_error(ConfigError("c"))]).type == "ConfigError"
