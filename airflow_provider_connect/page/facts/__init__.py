"""What follows from Airflow's answers, without asking: a stream's days, its state, what to expect of it."""
