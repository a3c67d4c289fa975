"""HTTP client with deadlines. Refuses an answer that could be cut unnoticed."""
