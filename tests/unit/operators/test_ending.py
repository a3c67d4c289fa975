"""What a task says of a Spark that was killed or ended badly."""

from __future__ import annotations

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from airflow_provider_connect.operators.job_outcome import explain_exit
from airflow_provider_connect.operators.retry import TryAgainError
from tests.unit.operators.conftest import DONE, SparkSubmit, Task

COMMAND = "Cannot execute: spark-submit --master k8s://https://h --conf a=b job.py."


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (f"{COMMAND} Error code is: 0. Kubernetes spark exit code is: 137", r"killed \(SIGKILL\)"),
        (f"{COMMAND} Error code is: 1. Kubernetes spark exit code is: None", "ended with code 1 "),
        (f"{COMMAND} Error code is: 0. Kubernetes spark exit code is: 3", "ended with code 3 "),
        (f"{COMMAND} Error code is: -6.", r"crashed \(SIGABRT\)"),
        (f"{COMMAND} Error code is: -64.", r"stopped from outside \(SIGRTMAX\)"),
        (f"{COMMAND} Error code is: -40.", r"stopped from outside \(signal 40\)"),
        (f"{COMMAND} Error code is: 255.", "ended with code 255 "),
    ],
)
def test_the_exit_code_of_a_signal_is_explained(text: str, says: str) -> None:
    error = explain_exit(AirflowException(text))
    assert error is not None
    assert error.args[0]
    with pytest.raises(type(error), match=says):
        raise error
    assert "--conf" not in str(error)


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        ("Error occurred during initialization of VM\nToo small maximum heap", "Too small maximum heap"),
        (
            "Unrecognized VM option 'UseZebra'\nError: Could not create the Java Virtual Machine.\nError: A fatal",
            "Unrecognized VM option 'UseZebra'",
        ),
    ],
)
def test_a_jvm_that_refuses_its_settings_is_final_and_shows_its_own_line(
    task: Task, spark_submit: SparkSubmit, output: str, reason: str
) -> None:
    spark_submit.does(f"print({output!r}); sys.exit(1)")
    with pytest.raises(AirflowFailException, match="Spark's JVM does not start: ") as failed:
        task.run()
    assert f"{reason}. Correct driver_memory= or the Java options in conf=" in str(failed.value)


@pytest.mark.parametrize("text", ["No driver id is known", "SparkSubmitHook env_vars is not supported", ""])
def test_a_failure_without_an_exit_code_is_unchanged(text: str) -> None:
    assert explain_exit(AirflowException(text)) is None


@pytest.mark.parametrize(
    ("output", "says"),
    [
        ("no such jar", "code 1 before its job could report: no such jar (more in its output above)"),
        (
            'Warning: x\nException in thread "main" org.apache.spark.SparkException: No main\n\tat org.apache.A',
            'code 1 before its job could report: Exception in thread "main" org.apache.spark.SparkException: No main (',
        ),
        ("", "code 1 before its job could report. See its output above"),
    ],
)
def test_a_job_without_a_report_is_retried_with_a_cause_of_one_line(
    task: Task, spark_submit: SparkSubmit, output: str, says: str
) -> None:
    spark_submit.does(f"print({output!r}); sys.exit(1)")
    with pytest.raises(TryAgainError) as caught:
        task.run()
    assert says in str(caught.value)
    for told_already in ("--conf", "at org", "Warning: x"):
        assert told_already not in str(caught.value)


@pytest.mark.parametrize(
    ("end", "says"),
    [
        ("os.kill(os.getpid(), 9)", r"killed \(SIGKILL\).*ran out of memory.*limit concurrent tasks"),
        ("sys.exit(137)", r"killed \(SIGKILL\).*ran out of memory"),
        ("os.kill(os.getpid(), 15)", r"stopped from outside \(SIGTERM\)"),
        ("sys.exit(134)", r"crashed \(SIGABRT\).*hs_err_pid"),
        ("sys.exit(52)", r"ran out of its heap.*driver_memory="),
    ],
)
def test_a_killed_jvm_is_reported_with_a_remedy(task: Task, spark_submit: SparkSubmit, end: str, says: str) -> None:
    spark_submit.does(f'print("a line of the log", flush=True); {end}')
    with pytest.raises(TryAgainError, match=says) as caught:
        task.run()
    assert "spark-submit" not in str(caught.value), "it ends as a command line"
    assert "a line of the log" not in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "end", "says"),
    [
        (
            "RetriableError",
            "os.kill(os.getpid(), 9)",
            r"killed \(SIGKILL\) while .*out of memory.*reported: Spark lost a task",
        ),
        ("ConnectError", "sys.exit(137)", r"killed \(SIGKILL\) while .*reported: Spark lost a task"),
        ("RetriableError", "sys.exit(52)", r"ran out of its heap while .*driver_memory=.*reported: Spark lost a task"),
        ("RetriableError", "sys.exit(75)", r"^RetriableError: Spark lost a task: gone$"),
        ("RetriableError", "sys.exit(1)", r"^RetriableError: Spark lost a task: gone$"),
    ],
)
def test_a_killed_jvm_is_named_though_its_driver_could_still_report(
    task: Task, spark_submit: SparkSubmit, kind: str, end: str, says: str
) -> None:
    failure = f'dict(type="{kind}", message="Spark lost a task: gone", retry_after_seconds=7.0)'
    spark_submit.does(f"report(failure={failure}); {end}")
    with pytest.raises(TryAgainError, match=says) as caught:
        task.run()
    assert "before its job could report" not in str(caught.value)
    assert caught.value.retry_after_seconds == (7 if kind == "RetriableError" else None)


@pytest.mark.parametrize("kind", ["ConfigError", "DataError"])
def test_a_killed_jvm_hides_no_error_that_a_person_must_correct(
    task: Task, spark_submit: SparkSubmit, kind: str
) -> None:
    spark_submit.does(f'report(failure=dict(type="{kind}", message="mend it")); os.kill(os.getpid(), 9)')
    with pytest.raises(AirflowFailException, match=rf"^{kind}: mend it$"):
        task.run()


def test_a_report_is_believed_whatever_happened_to_the_jvm_afterwards(task: Task, spark_submit: SparkSubmit) -> None:
    spark_submit.does(f"{DONE}; os.kill(os.getpid(), 9)")
    assert task.run()["days"][0]["status"] == "published"
