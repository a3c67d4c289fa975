"""MySQL and MariaDB: the server itself writes rows as CSV lines."""
