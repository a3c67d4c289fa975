"""Real databases for tests: PostgreSQL and MariaDB."""
