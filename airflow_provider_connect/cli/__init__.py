"""``airflow connect …``: a person looks, checks and mends, without writing Python.

:mod:`.definition` declares every command, and is read with each call of ``airflow``: it imports nothing of ours. A
command's own module is imported when it is called. Only ``run`` starts Spark.
"""
