"""The command line ``airflow connect …``, with which a person inspects, checks and repairs streams.

:mod:`.definition` declares every command. Each call of ``airflow`` imports it, so it imports nothing of this package. A
    command's own module is imported when the command is called. Only ``run`` and ``rejects replay`` start Spark.
"""
