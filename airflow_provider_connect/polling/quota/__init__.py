"""A vendor's quota, shared by all tasks that name it: its limits, what of them is in use, how a task gets its part."""
