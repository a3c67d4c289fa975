"""A digest of what a pickle says, whatever process wrote it.

The bytes differ from process to process: a set has another order in each, and whether two equal texts are one object,
so that the second is a mere reference, depends on whether their module was compiled or read from its cache. So the
pickle is read into plain values, in which whatever it would call stands as a name with its arguments; nothing of it is
run or imported.
"""

from __future__ import annotations

import hashlib
import io
import pickle
from typing import Any

_Unpickler: Any = pickle._Unpickler  # the one in Python, whose steps can be others


def digest(data: bytes) -> str:
    """Return the digest of a pickle: 64 hex digits."""
    value = _Reader(io.BytesIO(data)).load()
    return hashlib.sha256(_text(value, ()).encode("utf-8", "surrogatepass")).hexdigest()


class _Named:
    """What a pickle calls by its name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, *arguments: Any) -> _Made:
        made = _Made(self, arguments)
        if arguments and isinstance(arguments[0], _Made):
            # Cloudpickle fills functions and classes in by calls whose answer it throws away.
            arguments[0].states.append((self.name, arguments[1:]))
        return made


class _Made:
    """What a pickle makes by a call."""

    def __init__(self, by: Any, arguments: Any) -> None:
        self.by, self.arguments = by, arguments
        self.states: list[Any] = []

    def __call__(self, *arguments: Any) -> _Made:
        return _Made(self, arguments)

    def __setstate__(self, state: Any) -> None:
        self.states.append(state)

    def append(self, value: Any) -> None:
        """Take a value, where it is a list of a kind of its own."""
        self.states.append(value)

    def extend(self, values: Any) -> None:
        """Take values, in the same way."""
        self.states.extend(values)

    def __setitem__(self, key: Any, value: Any) -> None:
        self.states.append((key, value))


class _Reader(_Unpickler):  # type: ignore[misc]  # its type is Any
    dispatch: dict[int, Any] = dict(_Unpickler.dispatch)

    def find_class(self, module: str, name: str) -> _Named:
        return _Named(f"{module}:{name}")

    def _new(self) -> None:
        arguments, made = self.stack.pop(), self.stack.pop()
        self.append(_Made(made, arguments))

    def _new_with_names(self) -> None:
        named, arguments, made = self.stack.pop(), self.stack.pop(), self.stack.pop()
        self.append(_Made(made, (*arguments, named)))

    dispatch[pickle.NEWOBJ[0]] = _new
    dispatch[pickle.NEWOBJ_EX[0]] = _new_with_names


def _text(value: Any, inside: tuple[int, ...]) -> str:
    """Return a value as text, with what it refers to in full.

    :param inside: the values around it: one that holds itself is told by how far out it is.
    """
    if isinstance(value, _Named):
        return value.name
    if not isinstance(value, (_Made, tuple, list, dict, set, frozenset)):
        return f"{type(value).__name__} {value!r}"
    if id(value) in inside:
        return f"the {len(inside) - inside.index(id(value))}. around"
    inside = (*inside, id(value))
    if isinstance(value, _Made):
        return f"made {_text([value.by, value.arguments, value.states], inside)}"
    if isinstance(value, dict):
        return f"dict {[(_text(key, inside), _text(each, inside)) for key, each in value.items()]}"
    told = [_text(each, inside) for each in value]
    return f"{type(value).__name__} {sorted(told) if isinstance(value, (set, frozenset)) else told}"
