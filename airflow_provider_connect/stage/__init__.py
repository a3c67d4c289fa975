"""The stage of a day: files that never change, and the manifest that marks the day as complete."""
