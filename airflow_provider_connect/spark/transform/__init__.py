"""The driver's part of ``transform=``: Spark SQL reads a polled day, and its result is staged like polled rows."""
