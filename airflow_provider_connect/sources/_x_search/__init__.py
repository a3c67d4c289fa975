"""Internal modules of :mod:`airflow_provider_connect.sources.x_search`."""
