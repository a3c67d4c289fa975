"""The task decorator ``@task.connect``."""
