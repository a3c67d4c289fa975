"""Avro: schemas, and the binary encoding of columns."""
