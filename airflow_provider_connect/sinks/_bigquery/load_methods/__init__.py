"""Methods to fill the staging table: write streams from the executors, or one load job from the driver."""
