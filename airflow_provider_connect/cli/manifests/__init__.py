"""Translates declarations of other projects, in a user's files, to declarations of ``RestSource``.

The functions are pure: a file's tree comes in, and a :class:`.Translation` goes out.
"""
