"""Facts derived from Airflow's answers without queries: a stream's days, state and expected rows."""
