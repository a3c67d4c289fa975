"""Methods to fill the staging table: write streams of the executors, or load jobs of the driver."""
