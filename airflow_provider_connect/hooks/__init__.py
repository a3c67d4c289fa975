"""Airflow's connections and Variables: a hook for each connection type, and what reads them in a task."""
