"""Methods to fill the staging table."""
