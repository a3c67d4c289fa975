"""Write mode ``merge``: its statements, and the tables that it may write."""
