"""Pollers of which the source says that they can do something."""

from typing import TypeVar

from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.source import Poller

C = TypeVar("C")


def require_capability(poller: Poller, kind: type[C], because: str) -> C:
    """Return a poller that has a capability.

    :param because: what makes it necessary.
    :raises ConfigError: it has not.
    """
    if not isinstance(poller, kind):
        raise ConfigError(f"{type(poller).__name__} must be a {kind.__name__}, because {because}: correct it")
    return poller
