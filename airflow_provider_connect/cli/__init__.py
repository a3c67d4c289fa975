"""The command line ``airflow connect …``.

Each call of ``airflow`` imports :mod:`.definition`, which imports nothing of this package.
"""
