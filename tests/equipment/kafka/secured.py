"""A real Kafka that requires sign-in: PLAIN, SCRAM, OAUTHBEARER and certificates, with access lists."""

from __future__ import annotations

import base64
import datetime as dt
import http.server
import ipaddress
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import NameOID

from airflow_provider_connect.connection import Connection
from tests.equipment.waiting import wait_until
from tests.standins.kafka_broker import KafkaBroker, Listener

PASSWORD = "canary-p4ssw0rd/+=x"
CLIENT_SECRET = "canary-0auth-secret"
USERS = ("plain", "scram256", "scram512", "reader")
_MODULES = "org.apache.kafka.common.security"


@dataclass(frozen=True)
class Certificate:
    """A certificate with its key, as PEM texts."""

    pem: str
    key_pem: str
    key: rsa.RSAPrivateKey = field(repr=False)
    name: x509.Name = field(repr=False)

    def encrypted(self, password: str) -> str:
        """Return the key as PEM text under a password."""
        under = serialization.BestAvailableEncryption(password.encode())
        return self.key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, under).decode()

    def keystore(self, password: str) -> bytes:
        """Return certificate and key as a PKCS#12 store."""
        under = serialization.BestAvailableEncryption(password.encode())
        own = x509.load_pem_x509_certificate(self.pem.encode())
        return pkcs12.serialize_key_and_certificates(b"client", self.key, own, None, under)


def certificate(common_name: str, issuer: Certificate | None = None) -> Certificate:
    """Make a certificate for this machine; its own authority without an issuer."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    now = dt.datetime.now(dt.UTC)
    built = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer.name if issuer else name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .sign(issuer.key if issuer else key, hashes.SHA256())
    )
    key_pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return Certificate(built.public_bytes(serialization.Encoding.PEM).decode(), key_pem.decode(), key, name)


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


@dataclass
class TokenServer:
    """Gives out signed tokens for one client id and secret, over plain HTTP on this machine."""

    key: rsa.RSAPrivateKey = field(default_factory=lambda: rsa.generate_private_key(65537, 2048))
    issued: list[str] = field(default_factory=list)
    _server: http.server.ThreadingHTTPServer | None = None

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.server_address[1]}/token"

    def jwks(self) -> str:
        numbers = self.key.public_key().public_numbers()
        n, e = (_base64url(each.to_bytes((each.bit_length() + 7) // 8, "big")) for each in (numbers.n, numbers.e))
        return json.dumps({"keys": [{"kty": "RSA", "alg": "RS256", "use": "sig", "kid": "one", "n": n, "e": e}]})

    def token(self) -> str:
        now = int(time.time())
        parts = ({"alg": "RS256", "kid": "one", "typ": "JWT"}, {"sub": "oauth", "iat": now - 5, "exp": now + 3600})
        signed = ".".join(_base64url(json.dumps(part).encode()) for part in parts)
        token = f"{signed}.{_base64url(self.key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256()))}"
        self.issued.append(token)
        return token

    @contextmanager
    def running(self) -> Iterator[TokenServer]:
        tokens = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
                asked = base64.b64decode(self.headers.get("Authorization", "").removeprefix("Basic ")).decode()
                right = asked == f"client:{CLIENT_SECRET}" and form["grant_type"] == ["client_credentials"]
                # Like servers that say what was wrong: librdkafka writes the whole answer into its log.
                wrong = {"error": "invalid_client", "error_description": f"not known: {asked}"}
                answer = {"access_token": tokens.token()} if right else wrong
                body = json.dumps(answer).encode()
                self.send_response(200 if right else 401)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_request(self, *_: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()


@dataclass(frozen=True)
class Secured:
    """The broker, and all that a client needs to sign in."""

    broker: KafkaBroker
    ca: Certificate
    client: Certificate
    tokens: TokenServer

    def at(self, listener: str) -> str:
        return f"127.0.0.1:{self.broker.listeners[listener].port}"

    def connection(
        self, listener: str, login: str | None = None, password: str | None = None, **extra: Any
    ) -> Connection:
        """Return a connection to a listener (``SASL``, ``MTLS``, ``OAUTH``); extra's ``__`` stand for dots."""
        host, port = self.at(listener).split(":")
        settings = {name.replace("__", "."): value for name, value in extra.items()}
        if self.broker.listeners[listener].protocol != "SASL_PLAINTEXT":
            settings.setdefault("ssl.ca.pem", self.ca.pem)
        settings.setdefault("security.protocol", self.broker.listeners[listener].protocol)
        settings = {name: value for name, value in settings.items() if value is not None}
        return Connection(
            conn_id="secured",
            conn_type="kafka",
            host=host,
            port=int(port),
            login=login,
            password=password,
            extra=settings,
        )

    def sasl(
        self, login: str = "plain", mechanism: str = "PLAIN", password: str = PASSWORD, **extra: Any
    ) -> Connection:
        return self.connection("SASL", login, password, **{"sasl.mechanism": mechanism} | extra)

    def mtls(self, **extra: Any) -> Connection:
        return self.connection(
            "MTLS", **{"ssl.certificate.pem": self.client.pem, "ssl.key.pem": self.client.key_pem} | extra
        )

    def oauth(self, secret: str = CLIENT_SECRET, **extra: Any) -> Connection:
        settings = {
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.token.endpoint.url": self.tokens.url,
        }
        return self.connection("OAUTH", "client", secret, **settings | extra)


def _settings(folder: Path, ca: Certificate, server: Certificate, jwks: Path) -> dict[str, str]:
    (folder / "ca.pem").write_text(ca.pem)
    (folder / "server.pem").write_text(server.key_pem + server.pem)
    users = " ".join(f'user_{name}="{PASSWORD}"' for name in ("plain", "reader"))
    sasl, oauth = "listener.name.sasl", "listener.name.oauth"
    return {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "server.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder / "ca.pem"),
        "listener.name.mtls.ssl.client.auth": "required",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        f"{sasl}.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        f"{sasl}.plain.sasl.jaas.config": f"{_MODULES}.plain.PlainLoginModule required {users};",
        f"{sasl}.scram-sha-256.sasl.jaas.config": f"{_MODULES}.scram.ScramLoginModule required;",
        f"{sasl}.scram-sha-512.sasl.jaas.config": f"{_MODULES}.scram.ScramLoginModule required;",
        f"{oauth}.sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{oauth}.oauthbearer.sasl.jaas.config": f"{_MODULES}.oauthbearer.OAuthBearerLoginModule required;",
        f"{oauth}.oauthbearer.sasl.server.callback.handler.class": (
            f"{_MODULES}.oauthbearer.OAuthBearerValidatorCallbackHandler"
        ),
        f"{oauth}.oauthbearer.sasl.oauthbearer.jwks.endpoint.url": jwks.as_uri(),
    }


@contextmanager
def secured(folder: Path) -> Iterator[Secured]:
    """Run the broker; users have no rights at first."""
    ca = certificate("an authority of its own")
    server, client = certificate("broker", ca), certificate("client", ca)
    with TokenServer().running() as tokens:
        jwks = folder / "jwks.json"
        jwks.write_text(tokens.jwks())
        broker = KafkaBroker(
            folder / "broker",
            settings=_settings(folder, ca, server, jwks),
            env={"JAVA_TOOL_OPTIONS": f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={jwks.as_uri()}"},
            listeners={"SASL": Listener("SASL_SSL"), "MTLS": Listener("SSL"), "OAUTH": Listener("SASL_PLAINTEXT")},
        )
        broker.start()
        try:
            _make_scram_users(broker)
            yield Secured(broker, ca, client, tokens)
        finally:
            broker.stop()


def _make_scram_users(broker: KafkaBroker) -> None:
    client = AdminClient({"bootstrap.servers": broker.bootstrap})
    for user, kind in (("scram256", ScramMechanism.SCRAM_SHA_256), ("scram512", ScramMechanism.SCRAM_SHA_512)):
        wanted = UserScramCredentialUpsertion(user, ScramCredentialInfo(kind, 4096), PASSWORD.encode(), b"salt")
        for future in client.alter_user_scram_credentials([wanted]).values():
            future.result(timeout=20)


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with secured(tmp_path_factory.mktemp("secured")) as running:
        yield running


Right = tuple[str, str, str]
"""Kind of resource, its name or the beginning of it, operation."""


def allow(cluster: Secured, user: str, *rights: Right, pattern: str = "PREFIXED") -> None:
    """Give a user rights, and wait until the broker knows them: the controller hands them over later."""
    bindings = [
        AclBinding(
            ResourceType[kind],
            name,
            ResourcePatternType["LITERAL" if kind == "BROKER" else pattern],
            f"User:{user}",
            "*",
            AclOperation[operation],
            AclPermissionType.ALLOW,
        )
        for kind, name, operation in rights
    ]
    client = AdminClient({"bootstrap.servers": cluster.broker.bootstrap, "log_level": 0})
    for future in client.create_acls(bindings).values():
        future.result(timeout=20)
    wait_until(lambda: set(bindings) <= set(_rights_of(client, user)), "the broker knows the rights", seconds=20)


def forbid(cluster: Secured, user: str) -> None:
    """Take all rights of a user away, and wait until the broker knows."""
    client = AdminClient({"bootstrap.servers": cluster.broker.bootstrap, "log_level": 0})
    [future] = client.delete_acls([_every_right(user)]).values()
    future.result(timeout=20)
    wait_until(lambda: not _rights_of(client, user), "the broker has forgotten the rights", seconds=20)


def _rights_of(client: AdminClient, user: str) -> list[AclBinding]:
    rights: list[AclBinding] = client.describe_acls(_every_right(user)).result(timeout=20)
    return rights


def _every_right(user: str) -> AclBindingFilter:
    return AclBindingFilter(
        ResourceType.ANY, None, ResourcePatternType.ANY, f"User:{user}", None, AclOperation.ANY, AclPermissionType.ANY
    )
