"""Clients of BigQuery's services. Calls raise the errors of :func:`~.errors.classify`."""
