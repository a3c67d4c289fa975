"""The command line ``airflow connect …``, with which a person inspects, checks and repairs streams.

Each call of ``airflow`` imports :mod:`.definition`, which declares every command and imports nothing of this package. A
command's own module is imported when the command is called. Only ``run`` and ``rejects replay`` start Spark.
"""
