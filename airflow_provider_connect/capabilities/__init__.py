"""Optional abilities of connectors, one class each, tested by ``isinstance`` or ``capability``."""
