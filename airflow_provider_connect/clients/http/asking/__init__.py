"""Calls to a JSON API: error rules, retries, rate limits and allowed hosts."""
