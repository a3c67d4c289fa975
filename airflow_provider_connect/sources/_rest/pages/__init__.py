"""Paging: requests of pages, their parts and their end."""
