"""The reference page of the Python client, from its docstrings: python docs/python_reference.py writes it."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Final

import privacy_bounds
from privacy_bounds import api, runs, values
from privacy_bounds.api import Asking

PAGE: Final = Path(__file__).parent / "guide" / "python-reference.md"
CLIENTS: Final = ("Client", "Local", "AsyncClient")
ANSWERS: Final = (
    "Number",
    "Power",
    "Bounds",
    "Curves",
    "Sweep",
    "Assessment",
    "RunComparison",
    "Calibration",
    "CheckedClaims",
    "Picture",
)
JOBS: Final = ("Job", "AsyncJob")
ERRORS: Final = ("PrivacyBoundsError", "Refused", "Unreachable", "InvalidAnswer", "InvalidArgument", "NotInstalled")
ALIASES: Final = {"Run": runs, "Object": api, "Columns": values}
UNLISTED: Final = ("origin", "read", "fetch", "stream", "retry_seconds", "blocking", "ask")
"""Members that programs do not need. `read` is a method of clients only."""
INTRODUCTION: Final = """\
# Python reference

This page lists the names of the package `privacy_bounds`. `docs/python_reference.py` writes the page from docstrings.
[Clients](clients.md) has examples.
"""


def reference() -> str:
    """Return the text of the page with the reference of the Python client."""
    parts = [
        INTRODUCTION,
        "## Clients\n",
        *map(_section, CLIENTS),
        "## Methods of every client\n",
        f"`Asking`: {_text(Asking)} The methods of `AsyncClient` are coroutines.\n",
        _members(Asking, ("ask",)),
        "## Answers\n",
        "Notebooks display answers as tables. `print` and `repr` give a short text.\n",
        *map(_section, ANSWERS),
        "## Jobs\n",
        *map(_section, JOBS),
        "## Errors\n",
        *map(_section, ERRORS),
        "## Types and functions\n",
        "\n".join([*map(_alias, ALIASES), _options(), _entry("table", privacy_bounds.table)]) + "\n",
    ]
    return "\n".join(parts)


def _section(name: str) -> str:
    found = getattr(privacy_bounds, name)
    members = _members(found, UNLISTED)
    shown = f"`{name}{_signature(found)}`\n\n" if name in CLIENTS else ""
    return f"### {name}\n\n{shown}{_text(found)}\n" + (f"\n{members}" if members else "")


def _members(kind: type[Any], unlisted: tuple[str, ...]) -> str:
    entries = [*_fields(kind)]
    shared = {name for name in vars(Asking) if not name.startswith("_")}
    for name, member in vars(kind).items():
        known = kind is not Asking and name in shared
        if name.startswith(("_", "model_")) or name in unlisted or known:
            continue
        if isinstance(member, property):
            entries.append(f"- `{name}`: {_text(member)}")
        elif inspect.isfunction(member):
            entries.append(_entry(name, member))
    return "\n".join(entries) + "\n" if entries else ""


def _fields(kind: type[Any]) -> Iterator[str]:
    if is_dataclass(kind):
        for each in fields(kind):
            if each.name not in UNLISTED:
                yield f"- `{each.name}: {each.type}`"


def _entry(name: str, function: Any) -> str:
    return f"- `{name}{_signature(function)}`: {_text(function)}"


def _signature(called: Any) -> str:
    found = inspect.signature(called.__init__ if isinstance(called, type) else called)
    parameters = [each for each in found.parameters.values() if each.name != "self"]
    returned = inspect.Signature.empty if isinstance(called, type) else found.return_annotation
    text = str(found.replace(parameters=parameters, return_annotation=returned))
    return re.sub(r"'([^']*)'", lambda quoted: quoted[1] if _is_annotation(quoted[1], found) else quoted[0], text)


def _is_annotation(text: str, signature: inspect.Signature) -> bool:
    annotations = [each.annotation for each in signature.parameters.values()]
    return text in annotations or text == signature.return_annotation


def _text(documented: Any) -> str:
    return " ".join((inspect.getdoc(documented) or "").split())


def _alias(name: str) -> str:
    """Return the description of a type alias, which stands below the alias in the source."""
    body = ast.parse(inspect.getsource(ALIASES[name])).body
    place = next(
        index
        for index, node in enumerate(body)
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == name
    )
    described = body[place + 1]
    if not isinstance(described, ast.Expr) or not isinstance(described.value, ast.Constant):
        raise TypeError(f"{name} has no description")
    return f"- `{name}`: {' '.join(str(described.value.value).split())}"


def _options() -> str:
    members = ", ".join(f"`{name}`" for name in privacy_bounds.Options.__annotations__)
    return f"- `Options`: {_text(privacy_bounds.Options)} The members are {members}."


if __name__ == "__main__":
    PAGE.write_text(reference(), encoding="utf-8")
