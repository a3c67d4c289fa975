"""BigQuery's services: sign-in, calls, write streams, and what errors mean."""
