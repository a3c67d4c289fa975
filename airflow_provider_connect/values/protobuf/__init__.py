"""Protobuf: descriptors, their field numbers and source text, and the wire format of columns."""
