"""The page in Airflow's UI: every stream and its days, with the viewer's rights."""
