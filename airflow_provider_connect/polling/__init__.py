"""Building blocks of pollers."""
