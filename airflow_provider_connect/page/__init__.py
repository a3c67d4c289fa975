"""The page in Airflow's UI: every stream and its days, from the reports of tasks, with the viewer's rights."""
