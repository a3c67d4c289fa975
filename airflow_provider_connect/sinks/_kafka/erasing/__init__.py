"""Takes people out of what a stream has published into a compacted topic."""
