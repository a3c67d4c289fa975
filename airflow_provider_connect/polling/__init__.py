"""Helpers for writing pollers: paging, deduplication, counts and quotas."""
