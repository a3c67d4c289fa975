"""Load methods for the staging table: write streams of the executors, or one load job of the driver."""
