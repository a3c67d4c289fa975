"""Days of one topic take turns; afterwards, whether readers see what was published in one."""
