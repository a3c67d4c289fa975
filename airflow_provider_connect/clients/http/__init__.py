"""HTTP client with deadlines. It refuses an answer that could have been cut unnoticed."""
