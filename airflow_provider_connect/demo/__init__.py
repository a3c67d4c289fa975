"""Stand-ins and the demo: the main job on a bare laptop."""
