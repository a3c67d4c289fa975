"""The page in Airflow's UI: every stream, and its days. It reads what tasks have reported, with the viewer's rights."""
