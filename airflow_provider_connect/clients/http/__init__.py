"""HTTP client with deadlines and strict reading of answers."""
