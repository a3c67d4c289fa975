"""The life of a day, a file for each step: look, plan, poll, freeze, check, publish, sweep."""
