"""``airflow connect …``: a person looks, checks and mends, without writing Python.

:mod:`.definition` declares every command. Each call of ``airflow`` imports it, so it imports nothing of this package. A
command's own module is imported when the command is called. Only ``run`` and ``rejects replay`` start Spark.
"""
