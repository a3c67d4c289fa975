"""The demo and its stand-ins: the whole job on one laptop."""
