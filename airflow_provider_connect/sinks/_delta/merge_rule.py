"""The rule of a merge: key, order and deletes. Each publish compares its options with the ledger's rule.

The application transaction ``…/merge/<rule as JSON>`` has version 1.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.sinks._delta.app_transactions import app_prefix
from airflow_provider_connect.values.arrow import type_group

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_connect.sinks._delta.ledger import LedgerView
    from airflow_provider_connect.sinks._delta.options import DeltaOptions

_KEY_TYPES = ("boolean", "integer", "decimal", "text", "binary", "date", "timestamp")
_ORDER_TYPES = (*_KEY_TYPES, "float")
_RULE = "merge/"


@dataclass(frozen=True)
class MergeRule:
    """Columns that identify a row and decide which of two rows wins.

    :param newest_by: its highest value wins. Without it the later day wins, then the later staged row.
    :param delete_where: boolean column. True deletes the key.
    """

    key: tuple[str, ...]
    newest_by: str | None = None
    delete_where: str | None = None

    @property
    def compared_columns(self) -> tuple[str, ...]:
        """Key and ``newest_by``: the columns that a merge reads of published rows, and that tombstones keep."""
        return tuple(dict.fromkeys((*self.key, *((self.newest_by,) if self.newest_by else ()))))

    def problems(self, schema: pa.Schema) -> list[str]:
        """Return why the source's columns do not fit the rule, or []."""
        options: list[tuple[str, str, tuple[str, ...]]] = [("key", name, _KEY_TYPES) for name in self.key]
        options += [("newest_by", self.newest_by, _ORDER_TYPES)] if self.newest_by else []
        options += [("delete_where", self.delete_where, ("boolean",))] if self.delete_where else []
        names = [name for name in schema.names if name != "day"]
        problems = []
        for option, name, groups in options:
            if name not in names:
                problems.append(f"{option} names {name!r}, which the source lacks. It has {', '.join(sorted(names))}")
            elif type_group(kind := schema.field(name).type) not in groups:
                wanted = "a boolean column" if option == "delete_where" else "a column that can be compared"
                problems.append(f"{option} names {name!r}, which is {kind}. Name {wanted}")
        return problems


def rule_of(options: DeltaOptions) -> MergeRule | None:
    """Return the rule of the options, or None without ``write_mode="merge"``."""
    if options.write_mode != "merge":
        return None
    return MergeRule(options.key, options.newest_by, options.delete_where)


def rule_transactions(view: LedgerView, rule: MergeRule) -> dict[str, int]:
    """Return the transaction that records a rule. {} if it is recorded."""
    app = f"{app_prefix(view.key)}{_RULE}{json.dumps(asdict(rule), sort_keys=True, separators=(',', ':'))}"
    return {} if view.app_transactions.get(app) == 1 else {app: 1}


def recorded_rule(app_transactions: Mapping[str, int], prefix: str) -> MergeRule | None:
    """Return the rule that a table is merged by, or None."""
    rule_prefix = prefix + _RULE
    for app, version in app_transactions.items():
        if version == 1 and app.startswith(rule_prefix):
            values = json.loads(app.removeprefix(rule_prefix))
            return MergeRule(tuple(values["key"]), values["newest_by"], values["delete_where"])
    return None


def require_write_mode(view: LedgerView, rule: MergeRule | None) -> None:
    """Check that a table was written by this rule, or by none for ``write_mode="replace"``.

    :raises ConfigError: rows were not merged, or by another rule.
    """
    recorded = recorded_rule(view.app_transactions, app_prefix(view.key))
    if recorded == rule:
        return
    path = view.folder.url
    if rule is None:
        assert recorded is not None
        raise ConfigError(
            f"table {path} is merged by key={recorded.key!r}, and write_mode='replace' would delete rows that a reload "
            "of their day does not bring back. Set write_mode='merge', or choose another path"
        )
    if recorded is not None:
        changes = [
            f"{name} was {old!r} and is {new!r}"
            for name, new in asdict(rule).items()
            if (old := getattr(recorded, name)) != new
        ]
        raise ConfigError(
            f"table {path} is merged by another rule: {', '.join(changes)}. Set the options as before, or choose "
            "another path and load its days again"
        )
    if view.files:
        raise ConfigError(
            f"table {path} has rows that were not merged, so a key may have several rows. Choose another path and load "
            "its days again, or keep the newest row of each key with 'airflow connect rewrite DAG_ID TASK_ID'"
        )
