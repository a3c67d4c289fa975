"""Takes people's rows out of a table, and keeps them out."""
