"""Optional abilities of connectors, one class each. Tested by ``isinstance``, or by ``capability`` on options."""
