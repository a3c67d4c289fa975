"""The driver's support for optional connector capabilities, one independent file each."""
