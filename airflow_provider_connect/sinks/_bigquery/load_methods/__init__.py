"""How a day's rows reach the staging table: write streams filled by executors, or one load job of the driver's."""
