"""Protobuf: descriptors, their numbers and source text, and the wire format of columns."""
