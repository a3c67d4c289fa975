"""Rules for a Kafka connection's settings, checked without network access.

The rules cover settings that librdkafka accepts although they could lose a day, expose a secret or run foreign code.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from urllib.parse import urlsplit

ALIASES: dict[str, str] = {
    "metadata.broker.list": "bootstrap.servers",
    "sasl.mechanisms": "sasl.mechanism",
    "request.required.acks": "acks",
    "max.in.flight": "max.in.flight.requests.per.connection",
    "queue.buffering.max.ms": "linger.ms",
    "message.send.max.retries": "retries",
    "message.timeout.ms": "delivery.timeout.ms",
    "compression.codec": "compression.type",
    "auto.commit.enable": "enable.auto.commit",
    "sasl.oauthbearer.client.credentials.client.id": "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.credentials.client.secret": "sasl.oauthbearer.client.secret",
}
"""librdkafka's alternative setting names, with the names used here."""

CONSUMER_ONLY = frozenset({
    "auto.commit.interval.ms", "auto.offset.reset", "check.crcs", "enable.auto.commit", "enable.auto.offset.store",
    "enable.partition.eof", "fetch.error.backoff.ms", "fetch.max.bytes", "fetch.message.max.bytes", "fetch.min.bytes",
    "fetch.queue.backoff.ms", "fetch.wait.max.ms", "group.id", "group.instance.id", "group.protocol",
    "group.protocol.type", "group.remote.assignor", "heartbeat.interval.ms", "max.partition.fetch.bytes",
    "max.poll.interval.ms", "max.poll.records", "offset.store.method", "partition.assignment.strategy",
    "queued.max.messages.kbytes", "queued.min.messages", "session.timeout.ms",
})  # fmt: skip
"""Consumer settings, ignored here. Consumers may share the connection."""

_OTHER_NAMES = (
    "batch.num.messages", "broker.address.family", "broker.address.ttl", "client.dns.lookup", "client.id",
    "client.rack", "compression.level", "connections.max.idle.ms", "debug", "enable.metrics.push", "https.ca.pem",
    "log_level", "message.copy.max.bytes", "metadata.max.age.ms", "metadata.recovery.strategy", "partitioner",
    "receive.message.max.bytes", "reconnect.backoff.max.ms", "reconnect.backoff.ms", "request.timeout.ms",
    "retry.backoff.max.ms", "retry.backoff.ms", "sasl.kerberos.service.name",
    "sasl.oauthbearer.assertion.private.key.pem", "sasl.oauthbearer.config", "sasl.oauthbearer.extensions",
    "sasl.oauthbearer.grant.type", "sasl.oauthbearer.method", "sasl.oauthbearer.scope",
    "sasl.oauthbearer.token.endpoint.url", "sasl.password", "sasl.username", "security.protocol",
    "socket.connection.setup.timeout.ms", "socket.keepalive.enable", "socket.max.fails", "socket.nagle.disable",
    "socket.timeout.ms", "ssl.ca.pem", "ssl.certificate.pem", "ssl.cipher.suites",
    "ssl.endpoint.identification.algorithm", "ssl.key.password", "ssl.key.pem", "ssl.keystore.password",
    "topic.metadata.refresh.interval.ms",
)  # fmt: skip
# Other names that librdkafka knows, used only to correct misspelt ones.

_FORBIDDEN = {
    "transactional.id": "the sink makes its own, one for each day: leave it out",
    "transaction.timeout.ms": "use the sink's option transaction_timeout_seconds",
    "delivery.timeout.ms": "the sink sets it by its own timeouts: leave it out",
    "queue.buffering.max.messages": "the sink bounds its memory itself: leave it out",
    "queue.buffering.max.kbytes": "the sink bounds its memory itself: leave it out",
    "message.max.bytes": "the sink sets it by what the topics take: leave it out",
    "batch.size": "the sink sets it by what the topics take: leave it out",
    "statistics.interval.ms": "the statistics are not read: leave it out",
    **dict.fromkeys(
        ("plugin.library.paths", "ssl.engine.location", "ssl.engine.id"),
        "it loads foreign code into the task: leave it out",
    ),
    "sasl.kerberos.kinit.cmd": "the task would run it as a command: renew the ticket outside the task",
    "internal.termination.signal": "it may end the task's own process: leave it out",
    "interceptor.classes": "it belongs to Java clients: leave it out",
    "logger": "the log is the task's own: leave it out",
    "default.topic.config": "write its settings directly into the extra",
    "enable.gapless.guarantee": "the sink counts every record itself: leave it out",
    "dr_cb": "a connection cannot contain functions: leave it out",
}
_ALLOWED_VALUES = {
    "enable.idempotence": ({"true"}, "without it a repeated request doubles records: leave it out"),
    "acks": ({"all", "-1"}, "a record acknowledged by fewer replicas can be lost: leave it out"),
    "isolation.level": ({"read_committed"}, "uncommitted ledger records would be read: leave it out"),
    "enable.ssl.certificate.verification": ({"true"}, "any server could pose as the cluster: set its CA in ssl.ca.pem"),
}
_OPENSSL_PROVIDERS = frozenset({"default", "legacy", "fips", "base"})
"""OpenSSL's own providers. Other names load a library from a file."""
_COMMAND_SETTINGS = ("sasl.kerberos.principal", "sasl.kerberos.keytab")
"""Settings that librdkafka copies into a shell command."""
_SHELL_SAFE = re.compile(r"[\w.@/:+=,-]*", re.ASCII)
_LOOPBACK = ("127.0.0.1", "localhost", "::1", "[::1]")
_SASL = ("sasl_ssl", "sasl_plaintext")
_TLS = ("sasl_ssl", "ssl")
_FILE_SETTINGS = (
    "ssl.ca.location", "ssl.certificate.location", "ssl.key.location", "ssl.keystore.location", "ssl.crl.location",
    "https.ca.location", "sasl.oauthbearer.assertion.private.key.file",
    "sasl.oauthbearer.assertion.jwt.template.file", "sasl.oauthbearer.assertion.file", "sasl.kerberos.keytab",
)  # fmt: skip
_LOCATION_ALTERNATIVES = {"ssl.ca": "pem", "ssl.certificate": "pem", "ssl.key": "pem"}


def suggest_name(name: str) -> str:
    """Return a hint about an unknown setting."""
    setting_names = (
        _OTHER_NAMES,
        CONSUMER_ONLY,
        _FORBIDDEN,
        ALIASES,
        ALIASES.values(),
        _ALLOWED_VALUES,
        _FILE_SETTINGS,
        _COMMAND_SETTINGS,
    )
    similar_names = difflib.get_close_matches(name, set(chain.from_iterable(setting_names)), n=1, cutoff=0.6)
    return f"did you mean {similar_names[0]!r}?" if similar_names else "see librdkafka's CONFIGURATION.md for the names"


def word_setting(conf: Mapping[str, str], name: str, default: str) -> str:
    """Return a keyword setting as librdkafka reads it: stripped and in lower case."""
    return conf.get(name, default).strip().lower()


def is_local(servers: str) -> bool:
    """Return True if all servers of ``host:port,…`` are on this machine."""
    hosts = [re.sub(r":\d+$", "", server.strip().rpartition("//")[2]) for server in servers.split(",")]
    return all(host in _LOOPBACK for host in hosts)


def forbidden_settings(conf: Mapping[str, str]) -> dict[str, str]:
    """Return the forbidden settings, with reasons.

    :param conf: settings under their current names (:data:`ALIASES`).
    """
    forbidden = {name: reason for name, reason in _FORBIDDEN.items() if name in conf}
    forbidden |= {
        name: "a connection cannot contain functions: leave it out"
        for name in conf
        if name.endswith("_cb") or name in ("on_commit", "on_delivery")
    }
    for name, (allowed, reason) in _ALLOWED_VALUES.items():
        if name in conf and conf[name].lower() not in allowed:
            forbidden[name] = f"must be {' or '.join(sorted(allowed))}: {reason}"
    return forbidden | dict(_code_loading_settings(conf))


def _code_loading_settings(conf: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    providers = {name.strip() for name in conf.get("ssl.providers", "").split(",")} - {""}
    if providers - _OPENSSL_PROVIDERS:
        yield "ssl.providers", f"must be {', '.join(sorted(_OPENSSL_PROVIDERS))}: others load foreign code"
    for name in _COMMAND_SETTINGS:
        if not _SHELL_SAFE.fullmatch(conf.get(name, "")):
            yield (
                name,
                "must contain only letters, digits and . _ @ / : + = , - because it becomes part of a shell command",
            )


def security_problems(conf: Mapping[str, str]) -> list[str]:
    """Validate the security settings together. Returns the problems found."""
    protocol = word_setting(conf, "security.protocol", "plaintext")
    complaints = [*_server_problems(conf), *_file_problems(conf)]
    if protocol in _SASL:
        complaints += _sasl_problems(conf, protocol)
    elif unused := sorted(name for name in conf if name.startswith("sasl.")):
        complaints.append(
            f"{', '.join(unused)}: not used with security.protocol {protocol.upper()}. Set it to SASL_SSL"
        )
    if protocol in _TLS:
        complaints += _tls_problems(conf)
    elif unused := sorted(name for name in conf if name.startswith("ssl.")):
        complaints.append(
            f"{', '.join(unused)}: not used with security.protocol {protocol.upper()}. Set it to SSL or SASL_SSL"
        )
    return complaints


def _server_problems(conf: Mapping[str, str]) -> Iterator[str]:
    servers = conf.get("bootstrap.servers", "")
    if not servers:
        yield "bootstrap.servers is missing. Set it in the extra, or set the host"
    elif any(not re.search(r"[^\s:/]", server) for server in servers.split(",")):
        yield "bootstrap.servers has an empty entry: write host:port,host:port"


def _file_problems(conf: Mapping[str, str]) -> Iterator[str]:
    for name in _FILE_SETTINGS:
        path = conf.get(name, "")
        if path and path != "probe" and not Path(path).exists():
            yield f"{name}: this machine has no such file. Every machine that runs the task needs it"
    for name, alternative in _LOCATION_ALTERNATIVES.items():
        if f"{name}.location" in conf and f"{name}.{alternative}" in conf:
            yield f"set only one of {name}.location and {name}.{alternative}"


def _tls_problems(conf: Mapping[str, str]) -> Iterator[str]:
    names = {kind for kind in ("certificate", "key") if {f"ssl.{kind}.pem", f"ssl.{kind}.location"} & conf.keys()}
    if len(names) == 1:
        yield "a client's certificate needs both ssl.certificate.pem and ssl.key.pem, or their .location"
    own_ca = {"ssl.ca.pem", "ssl.ca.location"} & conf.keys()
    if word_setting(conf, "ssl.endpoint.identification.algorithm", "https") == "none" and not own_ca:
        yield (
            "ssl.endpoint.identification.algorithm=none: any server with a public certificate could pose as the "
            "cluster. Use certificates that name their host, or set the only trusted CA in ssl.ca.pem"
        )


def _sasl_problems(conf: Mapping[str, str], protocol: str) -> Iterator[str]:
    mechanism = conf.get("sasl.mechanism", "").upper()
    if not mechanism:
        yield f"security.protocol {protocol.upper()} needs sasl.mechanism: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, …"
    if mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
        names_by_field = {"login (sasl.username)": "sasl.username", "password (sasl.password)": "sasl.password"}
        if missing := [field for field, name in names_by_field.items() if name not in conf]:
            yield f"sasl.mechanism {mechanism} needs {' and '.join(missing)}"
    if mechanism == "OAUTHBEARER":
        yield from _oauth_problems(conf)
    in_clear = mechanism in ("PLAIN", "OAUTHBEARER") and protocol == "sasl_plaintext"
    if in_clear and not is_local(conf.get("bootstrap.servers", "")):
        yield f"sasl.mechanism {mechanism} without TLS exposes the credentials on the network. Use SASL_SSL"


def _oauth_problems(conf: Mapping[str, str]) -> Iterator[str]:
    if word_setting(conf, "sasl.oauthbearer.method", "default") != "oidc":
        if word_setting(conf, "enable.sasl.oauthbearer.unsecure.jwt", "false") not in ("true", "t", "1"):
            yield "OAUTHBEARER needs sasl.oauthbearer.method=oidc and sasl.oauthbearer.token.endpoint.url"
        elif not is_local(conf.get("bootstrap.servers", "")):
            yield "enable.sasl.oauthbearer.unsecure.jwt: such tokens prove nothing. Use sasl.oauthbearer.method=oidc"
        return
    url = urlsplit(conf.get("sasl.oauthbearer.token.endpoint.url", ""))
    if url.username or url.password:
        yield "sasl.oauthbearer.token.endpoint.url must not contain credentials. Use sasl.oauthbearer.client.secret"
    if url.scheme == "http" and url.hostname not in _LOOPBACK:
        yield "sasl.oauthbearer.token.endpoint.url must begin with https://, because it receives the client's secret"
    if "sasl.oauthbearer.metadata.authentication.type" not in conf and not url.scheme:
        yield "sasl.oauthbearer.method=oidc needs sasl.oauthbearer.token.endpoint.url"
    grant = word_setting(conf, "sasl.oauthbearer.grant.type", "client_credentials")
    if url.scheme and grant == "client_credentials":
        names = ("sasl.oauthbearer.client.id", "sasl.oauthbearer.client.secret")
        if missing := [name for name in names if name not in conf]:
            yield f"sasl.oauthbearer.method=oidc needs {' and '.join(missing)} (or login and password)"
