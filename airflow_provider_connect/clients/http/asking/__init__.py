"""Calls to a JSON API: requests, error rules, pauses and rate limits."""
