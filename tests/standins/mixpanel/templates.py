"""The stand-in's properties besides an event's key: a pool of pre-rendered texts.

Rendering JSON for half a million events would take longer than serving them, so the properties that do not
identify an event come from a pool, made once for a seed. Shapes and names follow Mixpanel's documented export
(https://developer.mixpanel.com/reference/raw-event-export, 2026-11); about one text in eight holds what real
exports hold and careless readers get wrong: escapes, U+2028, braces and field names inside strings, nested
``time`` and ``distinct_id``, numbers as strings, and the literal texts ``undefined`` and ``<null>``.
"""

from __future__ import annotations

import json
import random
from functools import lru_cache
from typing import Any, NamedTuple

MEAN_LINE_BYTES = 836
POOL_SIZE = 600
USERS = 4000
# What a line holds besides its template: event, time, distinct_id, $insert_id, processing time and brackets.
_FRAME_BYTES = 184

_BROWSERS = (
    ("Chrome", 141, "Windows"),
    ("Safari", 18, "Mac OS X"),
    ("Firefox", 139, "Linux"),
    ("Mobile Safari", 18, "iOS"),
    ("Android Mobile", 127, "Android"),
    ("Microsoft Edge", 140, "Windows"),
)
_CITIES = (
    ("São Paulo", "São Paulo", "BR"),
    ("Zürich", "Zurich", "CH"),
    ("東京", "Tokyo", "JP"),
    ("Ciudad de México", "Mexico City", "MX"),
    ("Kraków", "Lesser Poland", "PL"),
    ("San Francisco", "California", "US"),
    ("New York", "New York", "US"),
    ("London", "England", "GB"),
    ("Αθήνα", "Attica", "GR"),
    ("Mumbai", "Maharashtra", "IN"),
)
_TEXT = (
    "pricing checkout summer autumn winter sale offer report dashboard invoice export signup trial upgrade "
    "search result product detail category garden kitchen travel music phone camera laptop shoe jacket blue green "
    "large small review rating delivery return account profile setting team member invite project board"
)
_WORDS = _TEXT.split()
_REFERRERS = ("https://www.google.com/", "https://news.example.com/a/today", "$direct", "https://t.example/x")
_AMOUNTS: tuple[Any, ...] = (12.5, "12.5", 9, 0.1, None, -3.75, 9007199254740993, "undefined", 1e-7, "n/a")
_TRAPS: tuple[dict[str, Any], ...] = (
    {"note": 'He said "ok", then left'},
    {"path": "C:\\temp\\new\\", "userName": "A", "username": "b"},
    {"note": "line\u2028separator\u2029paragraph\u0085next"},
    {"Präferenz 🎯": "👩‍👩‍👧 ja", "page.title": "a.b", "with space": True, "": "empty name"},
    {"plan": "undefined", "coupon": "<null>"},
    {"first_touch": {"time": 5, "distinct_id": "nested", "$insert_id": "nested", "mp_processing_time_ms": 1}},
    {"note": '}},"event":"Fake","properties":{"time":1,"distinct_id":"x"}}'},
    {"note": "tab\tline\nbreak\r\x00\x1f\x7f", 'say "hi"': [1, [2.0, {"deep": "\\"}], None, False]},
)

# Weights keep names that need JSON escapes rare, as in reality.
EVENTS = tuple(
    json.dumps(name, ensure_ascii=False).encode()
    for name, weight in (
        ("Page View", 400),
        ("Button Clicked", 200),
        ("Session Start", 120),
        ("Product Viewed", 120),
        ("Added To Cart", 80),
        ("Order Completed", 40),
        ("$mp_web_page_view", 30),
        ("Página vista", 7),
        ('Cart "Quick" Add', 1),
        ("path\\open", 1),
        ("🛒", 1),
    )
    for _ in range(weight)
)

REUSED = b'"Reused Insert Id"'

EVENT_NAMES: tuple[str, ...] = tuple(json.loads(name) for name in dict.fromkeys((*EVENTS, REUSED)))
"""Every name that an event may have, the most frequent first."""


class Template(NamedTuple):
    """Three property texts of one event, to be put around its key: ``a`` ends with a comma, ``c`` starts with one."""

    a: bytes
    b: bytes
    c: bytes


def rng(*parts: object) -> random.Random:
    """Return a random generator that depends on ``parts`` only, on any machine and in any process."""
    return random.Random("/".join(map(str, parts)))  # test data, repeatable on purpose


def render(value: object) -> bytes:
    """Return compact JSON in UTF-8, as the vendor writes it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


@lru_cache(maxsize=4)
def templates(seed: int) -> tuple[Template, ...]:
    """Return the pool for ``seed``; lines made with it average :data:`MEAN_LINE_BYTES`."""
    random_source = rng("templates", seed)
    pool = [_template(random_source, index) for index in range(POOL_SIZE)]
    excess = sum(len(text) for template in pool for text in template) / POOL_SIZE + _FRAME_BYTES - MEAN_LINE_BYTES
    # Pads of different length make lines of different length; then all are adjusted to the mean.
    return tuple(template._replace(c=_shorten(template.c, round(excess))) for template in pool)


@lru_cache(maxsize=4)
def users(seed: int) -> tuple[bytes, ...]:
    """Return the ``distinct_id`` members of ``seed``'s users, each ending with a comma."""
    random_source = rng("users", seed)
    ids = []
    for index in range(USERS):
        digits = f"{random_source.getrandbits(128):032x}"
        uuid = f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
        forms = (uuid, "$device:" + uuid, f"müller+{digits[:8]}@example.com")
        ids.append(forms[(index % 3 == 0) + (index % 50 == 0)])
    return tuple(b'"distinct_id":' + render(user) + b"," for user in ids)


def _template(random_source: random.Random, index: int) -> Template:
    browser, version, system = random_source.choice(_BROWSERS)
    city, region, country = random_source.choice(_CITIES)
    words = [random_source.choice(_WORDS) for _ in range(6)]
    first = {
        "$browser": browser,
        "$browser_version": version,
        "$city": city,
        "$current_url": f"https://shop.example.com/{words[0]}/{words[1]}-{random_source.randrange(10_000)}",
        "$device_id": f"{random_source.getrandbits(64):016x}",
    }
    second: dict[str, Any] = {
        "$lib_version": f"2.{random_source.randrange(40, 60)}.{random_source.randrange(4)}",
        "$mp_api_endpoint": "api-js.mixpanel.com",
        "$os": system,
        "$referrer": random_source.choice(_REFERRERS),
        "$region": region,
        "$screen_height": random_source.choice((844, 900, 1080, 1440)),
        "$screen_width": random_source.choice((390, 1440, 1920, 2560)),
        "plan": random_source.choice(("free", "growth", "enterprise")),
        "cart": {"items": random_source.randrange(9), "skus": words[2:4], "total": random_source.randrange(9999) / 100},
    }
    if random_source.random() < 0.8:
        second["amount"] = random_source.choice(_AMOUNTS)
    if index % 8 == 0:
        second |= _TRAPS[index // 8 % len(_TRAPS)]
    third = {
        "mp_country_code": country,
        "mp_lib": "web",
        "utm_campaign": "-".join(words[4:]),
        "trail": _pad(random_source, 150 + random_source.randrange(160)),
    }
    return Template(_members(first) + b",", _members(second), b"," + _members(third))


def _members(values: dict[str, Any]) -> bytes:
    return render(values)[1:-1]


def _pad(random_source: random.Random, length: int) -> str:
    text = ""
    while len(text) < length:
        text += f"{random_source.choice(_WORDS)}={random_source.randrange(30)}/"
    return text[:length]


def _shorten(text: bytes, byte_count: int) -> bytes:
    """Take ``by`` bytes from the ASCII pad that ends ``text``; add as many when it is negative."""
    body = text[:-1]
    return (body[:-byte_count] if byte_count > 0 else body + b"x" * -byte_count) + b'"'
