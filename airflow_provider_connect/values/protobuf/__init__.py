"""Protobuf descriptors, source text and wire format."""
