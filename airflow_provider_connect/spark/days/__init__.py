"""The steps of a day, one file each: lookup, plan, poll, stage, check, publish, sweep."""
