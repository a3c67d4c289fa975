"""Internals of the REST source: declaration, paging, and the conversion of pages to rows."""
