"""The base of hooks of a source's own connection type."""

from __future__ import annotations

from airflow_provider_connect.hooks.source import SourceHook


class ErpHook(SourceHook):
    """A hook of a source that inspects no connection."""

    conn_name_attr = "erp_conn_id"
    source_name = "sql"


def test_the_test_button_says_which_source_inspects_no_connection() -> None:
    is_fine, message = ErpHook("erp").test_connection()
    assert not is_fine
    assert message.startswith("source 'sql' cannot test a connection")
