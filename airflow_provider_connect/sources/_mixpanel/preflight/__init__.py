"""Checks of a Mixpanel connection before the first run."""
