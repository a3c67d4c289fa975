"""Sources: one file each, named like the connector."""
