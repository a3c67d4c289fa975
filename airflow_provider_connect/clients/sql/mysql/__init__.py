"""MySQL and MariaDB. The server itself writes each row as a CSV line."""
