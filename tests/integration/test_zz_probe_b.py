import pytest, datetime as dt
from google.cloud import bigquery
def test_x(google_connection, dataset):
    from airflow_provider_connect.sinks._bigquery_access import Api
    with Api.open(google_connection, timeout_seconds=20, retry_budget_seconds=5) as api:
        c=api.client
        t=bigquery.Table(f"{api.project}.{dataset}.t",schema=[bigquery.SchemaField("a","INTEGER"),bigquery.SchemaField("n","NUMERIC","REPEATED")])
        t.expires=dt.datetime.now(dt.UTC)+dt.timedelta(days=1)
        t.time_partitioning=None
        m=c.create_table(t,timeout=20,retry=None)
        print("exp",m.expires)
        m.expires=None
        m=c.update_table(m,["expires"],timeout=20,retry=None); print("after",m.expires, c.get_table(t.reference).expires)
        m.labels={"connect_ledger":"x"}
        m=c.update_table(m,["labels"],timeout=20,retry=None); print("labels",m.labels)
        p=bigquery.Table(f"{api.project}.{dataset}.p",schema=[bigquery.SchemaField("day","DATE")])
        p.time_partitioning=bigquery.TimePartitioning(field="day",expiration_ms=86400000)
        m=c.create_table(p,timeout=20,retry=None)
        m.time_partitioning.expiration_ms=None
        m=c.update_table(m,["time_partitioning"],timeout=20,retry=None); print("part",m.time_partitioning.expiration_ms, m.time_partitioning)
        for dry in (True,False):
          for sql in (f"SELECT nope FROM {dataset}.t", f"SELECT a FROM {dataset}.nope"):
            try:
                j=c.query(sql,job_config=bigquery.QueryJobConfig(dry_run=dry),job_retry=None,retry=None,timeout=20)
                if not dry: print(list(j.result(job_retry=None,timeout=20)))
                else: print("DRY fine")
            except Exception as e: print("ERR",dry,type(e),repr(str(e))[:300], getattr(e,'errors',None))
        print(list(c.query(f"INSERT INTO {dataset}.t (a,n) SELECT 1, ARRAY(SELECT CAST(e0 AS NUMERIC) FROM UNNEST([3,1,2]) AS e0 WITH OFFSET AS o0 ORDER BY o0)",job_retry=None,retry=None,timeout=20).result(job_retry=None,timeout=20)))
        print([dict(r) for r in c.query(f"SELECT * FROM {dataset}.t",job_retry=None,retry=None,timeout=20).result(job_retry=None,timeout=20)])
        d=c.get_dataset(dataset); print(d.default_table_expiration_ms)
        d.default_table_expiration_ms=3600000*24
        d=c.update_dataset(d,["default_table_expiration_ms"],timeout=20,retry=None); print(d.default_table_expiration_ms)
        m=c.create_table(bigquery.Table(f"{api.project}.{dataset}.q",schema=[bigquery.SchemaField("day","DATE")]),timeout=20,retry=None); print("inh",m.expires)
