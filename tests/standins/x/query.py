"""A part of X's query language: words, ``lang:``, ``from:``, ``has:media``, ``-``, ``OR`` and parentheses."""

from __future__ import annotations

import re
from typing import Any

_TOKEN = re.compile(r'\(|\)|-\(|-?"[^"]*"|[^\s()]+')


class QueryError(ValueError):
    """The query cannot be read."""


def matches(query: str, document: dict[str, Any]) -> bool:
    """Tell whether a post matches.

    :raises QueryError: the query cannot be read.
    """
    tokens = _TOKEN.findall(query)
    is_match, tokens_left = _any(tokens, document)
    if tokens_left:
        raise QueryError("unbalanced parenthesis")
    return is_match


def _any(tokens: list[str], document: dict[str, Any]) -> tuple[bool, list[str]]:
    is_match, tokens = _all(tokens, document)
    while tokens and tokens[0] == "OR":
        more, tokens = _all(tokens[1:], document)
        is_match = is_match or more
    return is_match, tokens


def _all(tokens: list[str], document: dict[str, Any]) -> tuple[bool, list[str]]:
    if not tokens or tokens[0] in (")", "OR"):
        raise QueryError("an operand is missing")
    is_match = True
    while tokens and tokens[0] not in (")", "OR"):
        head, tokens = tokens[0], tokens[1:]
        if head in ("(", "-("):
            inner, tokens = _any(tokens, document)
            if not tokens or tokens[0] != ")":
                raise QueryError("a parenthesis is not closed")
            tokens = tokens[1:]
        else:
            inner = _holds(head.removeprefix("-"), document)
        is_match = is_match and inner != head.startswith("-")
    return is_match, tokens


def _holds(term: str, document: dict[str, Any]) -> bool:
    name, colon, value = term.partition(":")
    if colon and name == "lang":
        return bool(document["lang"] == value)
    if colon and name == "from":
        return value.lower() in (f"user_{int(document['author_id']) - 1000}", document["author_id"])
    if term == "has:media":
        return "attachments" in document
    if term in ("is:repost", "is:retweet"):
        return any(reference["type"] == "reposted" for reference in document.get("referenced_posts", []))
    return term.strip('"').lower() in document["text"].lower()
