"""The stage of a day: immutable files, and the manifest that completes the day."""
