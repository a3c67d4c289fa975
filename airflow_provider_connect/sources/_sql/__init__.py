"""Parts of the SQL source."""
