"""### Issues of a GitHub repository, and comments on them, into Delta tables, a day at a time

`issues` has the issues whose latest change was on the day. GitHub includes pull requests. An issue has one
`updated_at`, so a reloaded day has fewer issues: the others have changed since. `comments` has the comments written on
the day, polled issue by issue. A reload has them in their present state, without deleted ones.

GitHub accepts the start of a range but no end. An old day reads everything that has changed since, so start catchup
with few days.

Needs the connections `github` (type HTTP, host `https://api.github.com`, a personal access token as its password, extra
`{"auth": "bearer"}`) and `spark_default`.

GitHub's documentation, read in November 2026: https://docs.github.com/rest/issues/issues#list-repository-issues,
https://docs.github.com/rest/issues/comments,
https://docs.github.com/rest/using-the-rest-api/rate-limits-for-the-rest-api"""

import datetime as dt
import os

from airflow.sdk import DAG

from airflow_provider_connect.operators.connect import ConnectOperator
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.sources.rest import (
    Bounds,
    ErrorRule,
    LinkHeader,
    Moment,
    RateLimits,
    Records,
    Request,
    RestSource,
)
from airflow_provider_connect.timetables import daily

REPOSITORY = "/repos/apache/airflow"
TABLES = os.environ.get("CONNECT_DEMO_TABLE", "/tmp/github")  # noqa: S108  # a path or a URL of your own
FIRST_DAY = dt.date.fromisoformat(os.environ.get("CONNECT_DEMO_FIRST_DAY", "2026-11-01"))

HEADERS = {"X-GitHub-Api-Version": "2022-11-28"}
# GitHub's filter is "last updated after the given time", to the second. One second earlier loses nothing.
SINCE = Bounds(start="exclusive", granularity="second")
PAGES = LinkHeader(ends="no_token")
# Sorted by creation, an issue that changes between two pages stays in place. Sorted by change, it would move, and the
# next issue would slip onto a page that was already read.
OLDEST_FIRST = {"since": "{day.start}", "state": "all", "sort": "created", "direction": "asc", "per_page": 100}

# The hourly limit is a 403 with no requests left. The limit on bursts is only named in the text.
LIMITS = RateLimits(
    remaining="x-ratelimit-remaining", reset=Moment(header="x-ratelimit-reset", format="epoch_s"), at_once=4
)
BURSTS = ErrorRule(status=("403", "429"), text="secondary rate limit", then="wait")

ISSUES = RestSource(
    conn_id="github",
    stream="airflow.issues",
    request=Request(path=f"{REPOSITORY}/issues", params=OLDEST_FIRST, headers=HEADERS),
    bounds=SINCE,
    paging=PAGES,
    records=Records(
        key=("id",),
        columns={
            "id": "bigint",
            "number": "bigint",
            "title": "string",
            "state": "string",
            "author": {"type": "string", "at": "/user/login"},
            "pull_request_url": {"type": "string", "at": "/pull_request/html_url"},
            "created_at": "timestamp",
            "updated_at": "timestamp",
        },
        day="updated_at",
        outside="drop",
    ),
    errors=(BURSTS,),
    limits=LIMITS,
)

# A comment changes its issue. So the parents are all issues changed since the day began, also on later days. Without
# those, their comments of this day would be missing.
CHANGED_SINCE = RestSource(
    conn_id="github",
    stream="airflow.changed_issues",
    request=ISSUES.request,
    bounds=SINCE,
    paging=PAGES,
    records=Records(key=("id",), columns={"id": "bigint", "number": "bigint"}, undeclared="drop"),
    errors=(BURSTS,),
)

COMMENTS = RestSource(
    conn_id="github",
    stream="airflow.comments",
    parent=CHANGED_SINCE,
    parent_columns={"issue_number": "number"},
    request=Request(
        path=REPOSITORY + "/issues/{parent.number}/comments",
        params={"since": "{day.start}", "per_page": 100},
        headers=HEADERS,
    ),
    bounds=SINCE,
    paging=PAGES,
    records=Records(
        key=("id",),
        columns={
            "id": "bigint",
            "author": {"type": "string", "at": "/user/login"},
            "body": "string",
            "created_at": "timestamp",
            "updated_at": "timestamp",
        },
        day="created_at",
        outside="drop",
    ),
    errors=(BURSTS, ErrorRule(status=("404", "410"), then="ignore")),  # the issue was deleted since its page was read
    limits=LIMITS,
)

with DAG(
    "github_issues_daily",
    schedule=daily("UTC"),
    start_date=dt.datetime.combine(FIRST_DAY, dt.time(), tzinfo=dt.UTC),
    catchup=True,
    max_active_runs=1,
    doc_md=__doc__,
    tags=["connect", "rest", "delta"],
):
    ConnectOperator(task_id="issues", source=ISSUES, sink=DeltaSink(path=f"{TABLES}/issues"))
    ConnectOperator(task_id="comments", source=COMMENTS, sink=DeltaSink(path=f"{TABLES}/comments"))
