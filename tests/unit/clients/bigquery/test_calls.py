"""Every call is over in time, to a dead end too, and is tried again while that may help."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from airflow_provider_connect.clients.bigquery import api as _bigquery_access
from airflow_provider_connect.clients.bigquery import errors as _bigquery_errors
from airflow_provider_connect.clients.bigquery.api import BigQueryApi
from airflow_provider_connect.clients.bigquery.errors import HiddenError, MissingError
from airflow_provider_connect.clients.bigquery.sql import TableRef
from airflow_provider_connect.errors import ConfigError, RetriableError
from tests.equipment.bigquery.server import ROWS, Server, api_at, job, refused


class TestDeadEnds:
    @pytest.mark.parametrize("kind", ["refused", "silent", "500"])
    def test_rest_calls_end_within_the_budget(self, kind: str, silent: int, closed: int, server: Server) -> None:
        server.answer = (500, {"error": {"code": 500, "message": "x", "errors": [{"reason": "internalError"}]}})
        ports = {"refused": closed, "silent": silent, "500": server.http.server_port}
        started = time.monotonic()
        with api_at(f"http://127.0.0.1:{ports[kind]}") as api:
            with pytest.raises(RetriableError, match="reading"):
                api.call("reading", api.client.get_dataset, "d")
            with pytest.raises(RetriableError, match="asking"):
                api.query("SELECT 1", action="asking", labels={})
        assert time.monotonic() - started < 4

    @pytest.mark.parametrize("kind", ["refused", "silent"])
    def test_grpc_calls_end_within_the_budget(self, kind: str, silent: int, closed: int) -> None:
        target = f"127.0.0.1:{silent if kind == 'silent' else closed}"
        started = time.monotonic()
        with api_at("http://127.0.0.1:1", target) as api, pytest.raises(RetriableError, match="sealing"):
            api.call("sealing", api.write_client.finalize_write_stream, name="projects/p/datasets/d/tables/t/streams/s")
        assert time.monotonic() - started < 3

    def test_a_final_error_is_not_retried(self, server: Server) -> None:
        server.answer = (403, {"error": {"code": 403, "message": "x", "errors": [{"reason": "accessDenied"}]}})
        with api_at(server.url) as api, pytest.raises(ConfigError):
            api.call("reading", api.client.get_dataset, "d")
        assert server.asked == 1

    def test_an_exhausted_long_term_quota_is_not_waited_for(self, server: Server) -> None:
        server.answer = (403, {"error": {"code": 403, "message": "x", "errors": [{"reason": "quotaExceeded"}]}})
        with api_at(server.url) as api, pytest.raises(RetriableError):
            api.call("reading", api.client.get_dataset, "d")
        assert server.asked == 1

    def test_not_found_is_retried_only_on_demand(self, server: Server) -> None:
        server.answer = (404, {"error": {"code": 404, "message": "x", "errors": [{"reason": "notFound"}]}})
        with api_at(server.url) as api:
            with pytest.raises(MissingError):
                api.call("reading", api.client.get_dataset, "d")
            assert server.asked == 1
            with pytest.raises(MissingError):
                api.call("reading", api.client.get_dataset, "d", retry_missing_seconds=1)
            assert server.asked > 2

    def test_a_hidden_resource_is_retried_like_a_missing_one(self, server: Server) -> None:
        server.answer = refused(403, "accessDenied", "Access Denied: User has no right (or it may not exist)")
        with api_at(server.url) as api:
            with pytest.raises(HiddenError):
                api.call("reading", api.client.get_table, "d.t")
            assert server.asked == 1
            with pytest.raises(HiddenError):
                api.call("reading", api.client.get_table, "d.t", retry_missing_seconds=1)
            assert server.asked > 2


class TestBudget:
    def test_a_nested_call_has_the_rest_of_the_outer_budget(self, silent: int) -> None:
        with api_at(f"http://127.0.0.1:{silent}", budget=1.0) as api:

            def outer(*, timeout: float, retry: None) -> Any:
                time.sleep(min(0.7, timeout))
                return api.call("reading", api.client.get_dataset, "d")

            api.timeout_seconds = 0.9
            started = time.monotonic()
            with pytest.raises(RetriableError):
                api.call("doing both", outer)
            assert time.monotonic() - started < 1.35

    def test_cleanup_calls_share_one_time_limit(self, silent: int) -> None:
        with api_at(f"http://127.0.0.1:{silent}", budget=60) as api:
            started = time.monotonic()
            with api.time_limit(0.6):
                for _ in range(3):
                    with pytest.raises(RetriableError):
                        api.call("dropping", api.client.get_dataset, "d")
            assert time.monotonic() - started < 1.5

    def test_a_time_limit_holds_for_its_thread_and_block_only(self, server: Server) -> None:
        with api_at(server.url) as api:
            with api.time_limit(0.0), api.time_limit(5.0) as seconds:
                assert seconds < 1
                found = []
                thread = threading.Thread(target=lambda: found.append(getattr(api._thread_limit, "deadline", None)))
                thread.start()
                thread.join()
                assert found == [None]
            with api.time_limit(5.0) as seconds:
                assert seconds > 4


class TestQuery:
    def query(self, api: BigQueryApi, sql: Any = "SELECT 1", **options: Any) -> Any:
        return api.query(sql, action="asking", labels={"day": "a"}, job_id="a_job", **options)

    @pytest.mark.parametrize("reason", ["backendError", "internalError", "jobRateLimitExceeded"])
    def test_a_job_that_fails_by_itself_is_followed_by_another(
        self, server: Server, reason: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(_bigquery_errors, "RATE_SECONDS", 0.1)
        server.first = [job(reason), job(reason), job(name="a_job_2")]
        server.answer = ROWS
        with api_at(server.url, budget=5) as api:
            _, done = self.query(api, lambda name: f"SELECT '{name}'")
        inserted = [body for body in server.bodies if body]
        assert [one["jobReference"]["jobId"] for one in inserted] == ["a_job", "a_job_1", "a_job_2"]
        assert inserted[2]["configuration"]["query"]["query"] == "SELECT 'a_job_2'"
        assert done.job_id == "a_job_2"

    def test_a_job_that_always_fails_ends_within_the_budget(self, server: Server) -> None:
        server.answer = job("backendError")
        started = time.monotonic()
        with api_at(server.url, budget=1) as api, pytest.raises(RetriableError, match=r"\(job a_job\)"):
            self.query(api)
        assert server.asked > 1
        assert time.monotonic() - started < 3

    @pytest.mark.parametrize("reason", ["stopped", "timeout", "quotaExceeded", "invalidQuery", "notFound"])
    def test_a_stopped_or_invalid_job_is_not_followed_by_another(self, server: Server, reason: str) -> None:
        server.answer = job(reason)
        with api_at(server.url) as api, pytest.raises((RetriableError, ConfigError)):
            self.query(api)
        assert server.asked == 1

    def test_a_query_carries_the_clients_labels(self, server: Server) -> None:
        server.first, server.answer = [job()], ROWS
        with api_at(server.url) as api:
            api.labels = {"team": "b", "day": "none"}
            self.query(api)
        assert server.bodies[0]["configuration"]["labels"] == {"team": "b", "day": "a"}

    @pytest.mark.parametrize(
        ("sql", "protected"),
        [
            ("SELECT 1", True),
            ("WITH a AS (SELECT 1) SELECT * FROM a", True),
            ("DECLARE a INT64; SELECT a", False),
            ("DELETE FROM t", False),
        ],
    )
    def test_only_a_select_may_have_a_key(self, server: Server, sql: str, protected: bool) -> None:
        server.first, server.answer = [job()], ROWS
        with api_at(server.url) as api:
            api.kms_key = "projects/p/locations/eu/keyRings/r/cryptoKeys/k"
            self.query(api, sql)
        found = server.bodies[0]["configuration"]["query"].get("destinationEncryptionConfiguration")
        assert found == ({"kmsKeyName": api.kms_key} if protected else None)


class TestLocate:
    MISSING = refused(404, "notFound", "Not found: Dataset p:d")

    def test_a_dataset_made_a_moment_ago_is_waited_for(self, server: Server) -> None:
        server.first = [self.MISSING, self.MISSING]
        server.answer = (200, {"datasetReference": {"projectId": "p", "datasetId": "d"}, "location": "EU"})
        with api_at(server.url, budget=5) as api:
            assert api.locate(TableRef("pppp", "d", "t")) == "EU"

    def test_a_mistyped_dataset_is_waited_for_once(self, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(_bigquery_access, "SETTLE_SECONDS", 0.5)
        server.answer = self.MISSING
        with api_at(server.url, budget=5) as api:
            for _ in range(2):
                with pytest.raises(MissingError):
                    api.locate(TableRef("pppp", "d", "t"))
                asked = server.asked
            with pytest.raises(MissingError):
                api.locate(TableRef("pppp", "d", "t"))
        assert 2 < asked < 8
        assert server.asked == asked + 1
