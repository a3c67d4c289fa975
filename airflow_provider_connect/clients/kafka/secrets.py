"""The secrets of a Kafka connection in every form they may be echoed in, and a log without them."""

from __future__ import annotations

import base64
import json
import logging
import re
from dataclasses import dataclass, field
from urllib.parse import quote, quote_plus

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.secrets import is_secret_name, without_tokens

_MIN_LINE = 8  # of a PEM text: shorter lines are its padding
_LOG = logging.getLogger("airflow_provider_connect.sinks.kafka")


def secrets(connection: Connection) -> frozenset[str]:
    """Return every text that must never be shown, also as it stands in a header, a URL or a line of a PEM text."""
    given = {str(value) for name, value in connection.extra.items() if value and is_secret_name(name)}
    if connection.password:
        given.add(connection.password.get_secret_value())
    user = connection.login.get_secret_value() if connection.login else ""
    users = {user, *(str(connection.extra.get(name, "")) for name in ("sasl.username", "sasl.oauthbearer.client.id"))}
    shown: set[str] = set()
    for secret in given:
        lines = {line.strip() for line in re.split(r"\\n|\n", secret) if len(line.strip()) >= _MIN_LINE}
        pairs = {base64.b64encode(f"{name}:{secret}".encode()).decode() for name in users}
        escaped = {quote(secret, safe=""), quote_plus(secret), json.dumps(secret)[1:-1]}
        shown |= {secret, base64.b64encode(secret.encode()).decode()} | lines | pairs | escaped
    return frozenset(text for text in shown if text)


@dataclass(frozen=True)
class SecretFreeLog:
    """What librdkafka gets as its logger: its lines without the connection's secrets, and never louder than a warning.

    What an error means is decided by whoever made the call, not by the library's log. A client that tries again for
    ever says the same for ever: a line that differs in numbers alone is written once.
    """

    hidden: frozenset[str] = field(repr=False)
    _said: set[str] = field(default_factory=set, repr=False)

    def redacted(self, text: str) -> str:
        """Return ``text`` with every secret, and whatever looks like a token, replaced."""
        for secret in sorted(self.hidden, key=len, reverse=True):
            text = text.replace(secret, "…")
        return without_tokens(text)

    def log(self, level: int, message: str, *arguments: object) -> None:
        """Write one line; librdkafka calls this with its facility, the client's name and the text."""
        line = self.redacted(message % arguments if arguments else message)
        if level > logging.DEBUG:
            gist = re.sub(r"\d+", "", line)
            if gist in self._said:
                return
            self._said.add(gist)
        _LOG.log(min(level, logging.WARNING), "%s", line)
