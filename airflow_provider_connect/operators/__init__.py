"""The Airflow operator, its reservation of quota, and its report."""
