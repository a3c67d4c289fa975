"""The demo's shop: a file of SQLite with made-up orders and customers."""
