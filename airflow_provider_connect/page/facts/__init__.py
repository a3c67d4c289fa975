"""Computes a stream's days, state and expected rows from Airflow's answers, without queries."""
