"""Judges requests by what vendors specify: paths, methods, parameters, their types and limits.

The files beside this one hold facts, condensed from the vendors' OpenAPI files: ``mixpanel.json`` and ``x.json`` name
the sources, their versions and dates.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.equipment.specifications.requests import SentRequest

_FOLDER = Path(__file__).parent
_SECONDS = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_NEEDS_ACCOUNT = "with a service account"

Facts = Mapping[str, Any]
"""What is known of one parameter."""


def mixpanel_requests() -> Mapping[str, Facts]:
    """Return what Mixpanel specifies, by method and path."""
    return _read("mixpanel")


def x_requests(dialect: str) -> Mapping[str, Facts]:
    """Return what X specifies, by method and path, in one dialect of its field names."""
    found: Mapping[str, Facts] = _read("x")[dialect]
    return found


def _read(vendor: str) -> Any:
    return json.loads((_FOLDER / f"{vendor}.json").read_text(encoding="utf-8"))["requests"]


def name_of(sent: SentRequest, specified: Mapping[str, Facts]) -> str:
    """Return method and path of the specified request that was sent; "" if none is specified."""
    for name in specified:
        method, _, template = name.partition(" ")
        pattern = re.sub(r"\\{\w+\\}", "[0-9]+", re.escape(template))
        if sent.method == method and re.fullmatch(pattern, sent.path):
            return name
    return ""


def problems(sent: SentRequest, specified: Mapping[str, Facts]) -> list[str]:
    """Return what the vendor would not expect of a request; [] if nothing is."""
    name = name_of(sent, specified)
    if not name:
        return [f"{sent.method} {sent.path} is not specified"]
    facts = specified[name]
    found = [*_problems_of(sent.query, facts["query"], sent), *_problems_of(sent.form, facts.get("form", {}), sent)]
    if sent.method == "GET" and sent.body:
        found.append("a GET has a body")
    names = {parameter for parameter, _ in (*sent.query, *sent.form)}
    found += [
        f"{one} and {other} exclude each other" for one, other in facts.get("excludes", ()) if {one, other} <= names
    ]
    for parameter, needed in facts.get("needs", {}).items():
        if parameter in names and not names >= set(needed):
            found.append(f"{parameter} needs {', '.join(needed)}")
    return [f"{name}: {problem}" for problem in found]


def _problems_of(sent: list[tuple[str, str]], known: Mapping[str, Facts], request: SentRequest) -> Iterator[str]:
    values = dict(sent)
    if len(values) < len(sent):
        yield f"a parameter comes twice: {[name for name, _ in sent]}"
    for name, facts in known.items():
        is_required = facts.get("required")
        if is_required == _NEEDS_ACCOUNT:
            is_required = _is_of_account(request)
        if is_required and name not in values:
            yield f"{name} is required"
    for name, value in values.items():
        if name not in known:
            yield f"{name} is not known"
        else:
            yield from (f"{name}={value!r} {problem}" for problem in _value_problems(value, known[name]))


def _is_of_account(request: SentRequest) -> bool:
    """Whether a user name and a secret were sent, and not a project secret alone."""
    _, _, encoded = request.headers.get("authorization", "").partition(" ")
    return not base64.b64decode(encoded).endswith(b":")


def _value_problems(value: str, facts: Facts) -> Iterator[str]:
    kind = facts["type"]
    if kind == "integer":
        yield from _integer_problems(value, facts)
    elif kind == "boolean":
        if value not in ("true", "false"):
            yield "is no boolean"
    elif kind == "array":
        yield from _array_problems(value.split(","), facts)
    else:
        yield from _text_problems(value, facts)


def _integer_problems(value: str, facts: Facts) -> Iterator[str]:
    if not re.fullmatch(r"-?[0-9]+", value):
        yield "is no integer"
    elif not facts.get("minimum", int(value)) <= int(value) <= facts.get("maximum", int(value)):
        yield f"is not from {facts.get('minimum')} to {facts.get('maximum')}"


def _array_problems(items: list[str], facts: Facts) -> Iterator[str]:
    if len(set(items)) < len(items):
        yield "has an item twice"
    if isinstance(facts["items"], list) and (unknown := [item for item in items if item not in facts["items"]]):
        yield f"has items that are not specified: {', '.join(unknown)}"


def _text_problems(value: str, facts: Facts) -> Iterator[str]:
    if "enum" in facts and value not in facts["enum"]:
        yield f"is not one of {facts['enum']}"
    if not facts.get("minLength", 0) <= len(value) <= facts.get("maxLength", len(value)):
        yield f"has {len(value)} characters"
    if "pattern" in facts and not re.search(facts["pattern"], value):
        yield f"does not match {facts['pattern']}"
    if "json" in facts and not _is_json(value, facts["json"]):
        yield f"is no JSON of {facts['json']}"
    if (facts.get("format") == "date" and not _is_date(value)) or (
        facts.get("format") == "seconds" and not _SECONDS.fullmatch(value)
    ):
        yield f"is no {facts['format']}"


def _is_date(value: str) -> bool:
    try:
        return dt.date.fromisoformat(value).isoformat() == value
    except ValueError:
        return False


def _is_json(value: str, kind: str) -> bool:
    try:
        parsed = json.loads(value)
    except ValueError:
        return False
    if kind == "cohort":
        return isinstance(parsed, dict) and parsed.keys() == {"id"} and isinstance(parsed["id"], int)
    return isinstance(parsed, list) and bool(parsed) and all(isinstance(item, str) for item in parsed)
