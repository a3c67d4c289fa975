"""What only some connectors can do, a small class each: asked by ``isinstance``, or of options by ``capability``."""
