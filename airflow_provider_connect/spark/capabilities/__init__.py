"""What the driver does with what only some connectors can do: a file for each, which do not know each other."""
