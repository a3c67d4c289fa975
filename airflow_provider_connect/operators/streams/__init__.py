"""A task of many streams in one Spark application."""
