"""A stand-in for X's post search and counts (API v2), on this machine only. It is not X."""
