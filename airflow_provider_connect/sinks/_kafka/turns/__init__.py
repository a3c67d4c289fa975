"""Days of one topic take turns."""
