"""A private Airflow whose users have to sign in, each with one of Airflow's roles."""

from __future__ import annotations

import json
from typing import Any

import requests

from tests.demo.local_airflow import LocalAirflow

ROLES = ("viewer", "user", "op", "admin")
"""Roles of Airflow's simple auth manager; there is a user of each, of the same name and password."""

NOBODY = "nobody"
"""A user without any role."""


class AirflowWithRoles(LocalAirflow):
    """Its API is called as the admin."""

    def environment(self) -> dict[str, str]:
        passwords = self.home / "passwords.json"
        if not passwords.exists():
            self.home.mkdir(parents=True, exist_ok=True)
            passwords.write_text(json.dumps({name: name for name in (*ROLES, NOBODY)}))
        users = {
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "False",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join([*(f"{role}:{role}" for role in ROLES), f"{NOBODY}:"]),
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(passwords),
        }
        return super().environment() | users

    def token(self, role: str = "admin") -> str:
        body = {"username": role, "password": role}
        answer = requests.post(f"{self.url}/auth/token", json=body, timeout=30)
        answer.raise_for_status()
        return str(answer.json()["access_token"])

    def page(self, path: str, role: str | None = "admin", method: str = "GET", **options: Any) -> requests.Response:
        """Ask the page as a browser does, by the cookie of a user; signed out without a role."""
        cookies = {} if role is None else {"_token": self.token(role)}
        return requests.request(method, f"{self.url}/connect/{path}", cookies=cookies, timeout=60, **options)
