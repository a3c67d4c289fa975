"""Reads the Jinja expressions of a manifest. Parses them, and never evaluates one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

from jinja2 import Environment, TemplateSyntaxError, nodes

from airflow_provider_connect.cli.manifests.settings import Setting

_ENVIRONMENT = Environment(autoescape=True)  # parses only
_MAX_CHARACTERS = 10_000
_ROOTS = {
    "config": "config",
    "stream_partition": "partition",
    "stream_slice": "partition",
    "stream_interval": "partition",
    "response": "response",
    "decoded_response": "response",
    "headers": "headers",
    "last_record": "last_record",
    "record": "record",
    "parameters": "parameters",
    "next_page_token": "next_page_token",
}
_UNKNOWN: Any = object()
_EDGES: dict[str, Literal["start", "end"]] = {"start_time": "start", "end_time": "end"}


class Text(NamedTuple):
    """A literal value: a text, or a number, boolean or list."""

    value: Any


class Reference(NamedTuple):
    """A value by its path.

    :param root: config, partition, response, headers, last_record, record, parameters or next_page_token.
    :param default: value without one there.
    """

    root: str
    steps: tuple[str, ...]
    default: Any = None


class Edge(NamedTuple):
    """Start or end of the requested time range, with its format if the expression names one."""

    name: Literal["start", "end"]
    format: str | None = None


class NextNumber(NamedTuple):
    """A number after the one at a path."""

    reference: Reference


class Joined(NamedTuple):
    """Parts in a row."""

    parts: tuple[Text | Reference | Edge, ...]


class Unreadable(NamedTuple):
    """An expression of another form."""

    source: str


Part = Text | Reference | Edge | NextNumber | Joined | Unreadable
LookUp = Callable[[tuple[str, ...]], Setting]
"""Returns a value of the config by its path."""


def read_parts(text: str, parameters: Mapping[str, Any] | None = None, look_up: LookUp | None = None) -> list[Part]:
    """Return the literal and computed parts of a text in order.

    :param parameters: values of ``parameters``, which become literals.
    :param look_up: decides conditions about the config. Without it these are unreadable.
    """
    if "{{" not in text and "{%" not in text:
        return [Text(text)]
    if len(text) > _MAX_CHARACTERS:
        return [Unreadable(text)]
    try:
        body = _ENVIRONMENT.parse(text).body
    except (TemplateSyntaxError, RecursionError):
        return [Unreadable(text)]
    reading = _Reading(text, parameters or {}, look_up)
    try:
        return [part for node in body for part in reading.read_statement(node)]
    except RecursionError:
        return [Unreadable(text)]


def read_whole(text: str) -> Part | None:
    """Return the only part of a text, or None if it has several."""
    parts = read_parts(text.strip())
    return parts[0] if len(parts) == 1 else None


def read_condition(text: str) -> tuple[Reference, Any] | None:
    """Return a path of the answer and the value that it has if the condition is true. None for another form.

    ``{{ not response.next }}`` gives the value False, which stands for a missing or empty one, too.
    """
    try:
        body = _ENVIRONMENT.parse(text.strip()).body if len(text) <= _MAX_CHARACTERS else []
    except (TemplateSyntaxError, RecursionError):
        return None
    if len(body) != 1 or not isinstance(body[0], nodes.Output) or len(body[0].nodes) != 1:
        return None
    return _Reading(text, {}, None).read_test(body[0].nodes[0])


class _Reading:
    def __init__(self, text: str, parameters: Mapping[str, Any], look_up: LookUp | None) -> None:
        self._text = text
        self._parameters = parameters
        self._look_up = look_up
        self._variables: dict[str, Part] = {}

    def read_statement(self, node: nodes.Node) -> list[Part]:
        """Return the parts that a statement prints. A variable that it sets is kept."""
        if isinstance(node, nodes.Output):
            return [part for item in node.nodes for part in _flat(self.read(item))]
        if isinstance(node, nodes.Assign) and isinstance(node.target, nodes.Name):
            self._variables[node.target.name] = self.read(node.node)
            return []
        return [self._unreadable]

    def read(self, node: nodes.Node) -> Part:
        readers: dict[type[nodes.Node], Callable[[Any], Part]] = {
            nodes.TemplateData: lambda item: Text(item.data),
            nodes.Const: lambda item: Text(item.value),
            nodes.List: self._list,
            nodes.Dict: self._dict,
            nodes.Name: self._name,
            nodes.Getattr: lambda item: self._member(item.node, item.attr),
            nodes.Getitem: self._item,
            nodes.Call: self._call,
            nodes.Filter: self._filter,
            nodes.CondExpr: self._condition,
            nodes.Or: self._or,
            nodes.Add: self._add,
            nodes.Concat: lambda item: self._join([self.read(inner) for inner in item.nodes]),
        }
        reader = readers.get(type(node))
        return self._unreadable if reader is None else reader(node)

    @property
    def _unreadable(self) -> Unreadable:
        return Unreadable(self._text)

    def _list(self, node: nodes.List) -> Part:
        items = [self.read(item) for item in node.items]
        if all(isinstance(item, Text) for item in items):
            return Text([item.value for item in items if isinstance(item, Text)])
        return self._unreadable

    def _dict(self, node: nodes.Dict) -> Part:
        items = {}
        for pair in node.items:
            key, value = self.read(pair.key), self.read(pair.value)
            if not isinstance(key, Text) or not isinstance(value, Text):
                return self._unreadable
            items[str(key.value)] = value.value
        return Text(items)

    def _join(self, parts: list[Part]) -> Part:
        flat = [inner for part in parts for inner in _flat(part)]
        if all(isinstance(part, Text) for part in flat):
            return Text("".join(str(part.value) for part in flat if isinstance(part, Text)))
        known = tuple(part for part in flat if isinstance(part, Text | Reference | Edge))
        return Joined(known) if len(known) == len(flat) else self._unreadable

    def _name(self, node: nodes.Name) -> Part:
        if node.name in self._variables:
            return self._variables[node.name]
        root = _ROOTS.get(node.name)
        return self._unreadable if root is None else self._settled(Reference(root, ()), None)

    def _settled(self, reference: Reference, default: Part | None) -> Part:
        """Return a reference in its final form: a parameter as its value, a bound of the range as an edge."""
        if reference.root == "parameters":
            value: Any = self._parameters
            for step in reference.steps:
                value = value.get(step) if isinstance(value, Mapping) else None
            if value is not None and reference.steps:
                return Text(value)
            return default if isinstance(default, Text) and self._parameters else reference
        if reference.root == "partition" and len(reference.steps) == 1 and reference.steps[0] in _EDGES:
            return Edge(_EDGES[reference.steps[0]])
        return reference

    def _member(self, node: nodes.Node, name: str, default: Part | None = None) -> Part:
        owner = self.read(node)
        if isinstance(owner, Reference):
            value = default.value if isinstance(default, Text) else None
            return self._settled(Reference(owner.root, (*owner.steps, name), value), default)
        if isinstance(owner, Text) and isinstance(owner.value, Mapping) and name in owner.value:
            return Text(owner.value[name])
        return self._unreadable

    def _item(self, node: nodes.Getitem) -> Part:
        name = node.arg.value if isinstance(node.arg, nodes.Const) else None
        if name is None:
            chosen = self._value(self.read(node.arg))
            name = chosen if isinstance(chosen, str) and isinstance(self.read(node.node), Text) else None
        is_step = isinstance(name, str) or (isinstance(name, int) and name >= 0)
        return self._member(node.node, str(name)) if is_step else self._unreadable

    def _call(self, node: nodes.Call) -> Part:
        if isinstance(node.node, nodes.Getattr) and node.node.attr == "get" and node.args:
            name = node.args[0].value if isinstance(node.args[0], nodes.Const) else None
            if isinstance(name, str):
                default = self.read(node.args[1]) if len(node.args) > 1 else None
                return self._member(node.node.node, name, default)
        if isinstance(node.node, nodes.Getattr) and node.node.attr == "format":
            return self._format(node.node.node, node.args)
        if isinstance(node.node, nodes.Name) and node.node.name == "format_datetime" and len(node.args) >= 2:
            bound, form = self.read(node.args[0]), self.read(node.args[1])
            if isinstance(bound, Edge) and isinstance(form, Text):
                return Edge(bound.name, str(form.value))
        return self._unreadable

    def _format(self, template: nodes.Node, values: list[nodes.Expr]) -> Part:
        text = template.value if isinstance(template, nodes.Const) else None
        if not isinstance(text, str) or text.count("{}") != len(values):
            return self._unreadable
        first, *rest = text.split("{}")
        parts: list[Part] = [Text(first)]
        for value, literal in zip(values, rest, strict=True):
            parts += [self.read(value), Text(literal)]
        return self._join(parts)

    def _filter(self, node: nodes.Filter) -> Part:
        value = self._unreadable if node.node is None else self.read(node.node)
        is_harmless = node.name in ("string", "int", "trim") and not (
            isinstance(value, Text) and isinstance(value.value, list | Mapping)
        )
        return value if is_harmless else self._unreadable

    def _condition(self, node: nodes.CondExpr) -> Part:
        is_true = self._is_true(node.test)
        if is_true is None:
            return self._unreadable
        branch = node.expr1 if is_true else node.expr2
        return Text("") if branch is None else self.read(branch)

    def _or(self, node: nodes.Or) -> Part:
        return self.read(node.right if self._is_true(node.left) is False else node.left)

    def _is_true(self, node: nodes.Node) -> bool | None:
        """Return the truth of a condition about the config. None if it is about others."""
        if isinstance(node, nodes.Not):
            inner = self._is_true(node.node)
            return None if inner is None else not inner
        if isinstance(node, nodes.Test) and node.name in ("defined", "none"):
            if isinstance(node.node, nodes.Name) and _ROOTS.get(node.node.name) == "partition":
                return node.name == "defined"
            inner = self._is_true(node.node)
            return inner if node.name == "defined" or inner is None else not inner
        if isinstance(node, nodes.Compare) and len(node.ops) == 1 and node.ops[0].op in ("eq", "ne"):
            left, right = self._value(self.read(node.expr)), self._value(self.read(node.ops[0].expr))
            return None if _UNKNOWN in (left, right) else (left == right) == (node.ops[0].op == "eq")
        value = self._value(self.read(node))
        return None if value is _UNKNOWN else bool(value)

    def _value(self, part: Part) -> Any:
        """Return a literal, or a value of the config. A secret, and a value to replace, count as set."""
        if isinstance(part, Text):
            return part.value
        if not isinstance(part, Reference) or part.root != "config" or self._look_up is None:
            return _UNKNOWN
        setting = self._look_up(part.steps)
        if setting.is_secret or setting.origin == "missing":
            return setting.placeholder
        return part.default if setting.value is None else setting.value

    def _add(self, node: nodes.Add) -> Part:
        left, right = self.read(node.left), self.read(node.right)
        if isinstance(left, Reference) and left.root == "response" and right == Text(1):
            return NextNumber(left)
        if any(isinstance(part, Text) and not isinstance(part.value, str) for part in (left, right)):
            return self._unreadable
        return self._join([left, right])

    def read_test(self, node: nodes.Node) -> tuple[Reference, Any] | None:
        if isinstance(node, nodes.Not):
            tested = self.read_test(node.node)
            return None if tested is None or tested[1] is not True else (tested[0], False)
        if isinstance(node, nodes.Test) and node.name in ("none", "undefined"):
            value = self.read(node.node)
            return (value, None) if isinstance(value, Reference) else None
        if isinstance(node, nodes.Compare) and len(node.ops) == 1:
            return self._comparison(self.read(node.expr), node.ops[0].op, self.read(node.ops[0].expr))
        value = self.read(node)
        return (value, True) if isinstance(value, Reference) else None

    def _comparison(self, left: Part, operator: str, right: Part) -> tuple[Reference, Any] | None:
        if operator == "in" and isinstance(left, Text) and isinstance(right, Reference):
            return Reference(right.root, (*right.steps, str(left.value))), True
        if not isinstance(left, Reference) or not isinstance(right, Text):
            return None
        if operator == "eq":
            return left, right.value
        return (left, True) if operator == "ne" and right.value in (0, "", None) else None


def _flat(part: Part) -> tuple[Part, ...]:
    return part.parts if isinstance(part, Joined) else (part,)
