"""What the driver does with ``transform=``: a polled day is read by Spark SQL, and its result frozen like a poll's."""
