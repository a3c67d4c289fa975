"""The demo: a whole pipeline on one laptop."""
