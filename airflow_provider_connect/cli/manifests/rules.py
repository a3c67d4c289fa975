"""Translates a manifest's error handlers and call budgets to rules for answers and rate limits."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from airflow_provider_connect.cli.manifests.columns import pointer
from airflow_provider_connect.cli.manifests.expressions import read_condition
from airflow_provider_connect.cli.manifests.remarks import Remarks, one_line

_ACTIONS = {"RETRY": "retry", "RATE_LIMITED": "retry", "FAIL": "refuse", "SUCCESS": "rows", "IGNORE": "ignore"}
_DURATION = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?")
_PAUSES = {"WaitTimeFromHeader": "seconds", "WaitUntilTimeFromHeader": "epoch_s"}


def translate_errors(handler: Any, remarks: Remarks, *, has_parent: bool) -> list[dict[str, Any]]:
    """Return the rules that differ from the defaults of ``RestSource``."""
    rules: list[dict[str, Any]] = []
    for part in _handlers(handler, remarks):
        for response_filter in part.get("response_filters") or ():
            if isinstance(response_filter, Mapping):
                rules += _rule(response_filter, remarks, has_parent=has_parent)
        rules += _pauses(part.get("backoff_strategies"), remarks)
    return [rule for number, rule in enumerate(rules) if rule not in rules[:number]]


def _handlers(handler: Any, remarks: Remarks) -> Iterator[Mapping[str, Any]]:
    if not isinstance(handler, Mapping) or not handler:
        return
    kind = handler.get("type", "DefaultErrorHandler")
    if kind == "CompositeErrorHandler":
        for part in handler.get("error_handlers") or ():
            yield from _handlers(part, remarks)
    elif kind == "DefaultErrorHandler":
        yield handler
    else:
        remarks.gap("errors", f"errors are handled by {handler.get('class_name') or kind!r}")


def _rule(response_filter: Mapping[str, Any], remarks: Remarks, *, has_parent: bool) -> Iterator[dict[str, Any]]:
    action = _ACTIONS.get(str(response_filter.get("action") or "FAIL").upper())
    condition = _condition(response_filter, remarks)
    if condition is None or action is None:
        return
    if action == "ignore" and not has_parent:
        remarks.check("errors", f"the manifest ignores {_describe(response_filter)}. Such a day fails instead")
        return
    codes = condition.get("status", [])
    if (
        action in ("retry", "refuse")
        and set(condition) == {"status"}
        and all(_is_default(code, action) for code in codes)
    ):
        return  # the defaults do the same
    message = response_filter.get("error_message")
    why = {"why": one_line(message)} if action == "refuse" and message and "{" not in str(message) else {}
    yield condition | {"then": action} | why


def _is_default(code: int, action: str) -> bool:
    is_retried = code in (408, 425, 429) or code >= 500
    return is_retried if action == "retry" else 400 <= code < 500 and not is_retried


def _describe(response_filter: Mapping[str, Any]) -> str:
    codes = response_filter.get("http_codes")
    return f"status {', '.join(map(str, codes))}" if isinstance(codes, list) and codes else "some errors"


def _condition(response_filter: Mapping[str, Any], remarks: Remarks) -> dict[str, Any] | None:
    condition: dict[str, Any] = {}
    codes = response_filter.get("http_codes")
    if isinstance(codes, list) and codes:
        condition["status"] = sorted({int(code) for code in codes if str(code).isdecimal()})
    if text := response_filter.get("error_message_contains"):
        condition["text"] = str(text)
    if predicate := response_filter.get("predicate"):
        tested = read_condition(str(predicate))
        if tested is None or tested[0].root != "response" or not tested[0].steps or tested[1] in (None, False):
            remarks.gap("errors", f"the condition {predicate}")
            return None
        reference, value = tested
        condition["at"] = pointer(reference.steps)
        if value is not True:
            condition["values"] = [value]
    return condition or None


def _pauses(strategies: Any, remarks: Remarks) -> Iterator[dict[str, Any]]:
    for strategy in strategies if isinstance(strategies, list) else ():
        kind = str(strategy.get("type")) if isinstance(strategy, Mapping) else ""
        header = str(strategy.get("header") or "") if kind in _PAUSES else ""
        if header and "{" not in header and header.lower() != "retry-after":
            yield {"status": [429], "then": "wait", "until": {"header": header, "format": _PAUSES[kind]}}
        elif kind.startswith("Custom"):
            remarks.gap("errors", f"pauses are computed by {strategy.get('class_name')!r}")


def translate_budget(budget: Any, remarks: Remarks) -> dict[str, Any]:
    """Return the rate limits. A limit of some requests counts for all, because it is the stricter form."""
    if not isinstance(budget, Mapping):
        return {}
    limits: dict[str, Any] = {}
    for policy in budget.get("policies") or ():
        rates = policy.get("rates") or [{"limit": policy.get("call_limit"), "interval": policy.get("period")}]
        for rate in rates:
            name, number = _limit(rate)
            if name:
                limits[name] = min(number, limits.get(name, number))
        if policy.get("matchers"):
            remarks.check("limits", "the manifest limits some requests only. Here the limit counts for all")
    header = budget.get("ratelimit_reset_header")
    if isinstance(header, str) and isinstance(budget.get("ratelimit_remaining_header"), str):
        limits |= {"remaining": budget["ratelimit_remaining_header"], "reset": {"header": header}}
    return limits


def _limit(rate: Mapping[str, Any]) -> tuple[str, Any]:
    match = _DURATION.fullmatch(str(rate.get("interval") or ""))
    limit = str(rate.get("limit") or "")
    if match is None or not limit.isdecimal():
        return "", 0
    days, hours, minutes, seconds = (float(text or 0) for text in match.groups())
    total = days * 86_400 + hours * 3_600 + minutes * 60 + seconds
    if not total:
        return "", 0
    for name, length in (("per_hour", 3_600), ("per_minute", 60)):
        if total >= length:
            return name, max(1, int(int(limit) * length / total))
    return "per_second", round(int(limit) / total, 3)
