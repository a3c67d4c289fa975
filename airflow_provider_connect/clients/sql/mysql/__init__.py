"""MySQL and MariaDB: rows as lines of CSV that the server itself puts together."""
