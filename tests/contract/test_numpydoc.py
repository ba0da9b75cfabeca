"""Public functions of the numeric core that return numbers are documented in numpydoc form."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple, TypeGuard

import pytest
from numpydoc.validate import validate

ROOT: Final = Path(__file__).parents[2]
CORE: Final = "service.privacy"
CHECKED: Final = {
    "GL03": "two blank lines",
    "GL06": "unknown section",
    "GL07": "order of sections",
    "GL08": "no docstring",
    "SS03": "summary without a full stop",
    "PR01": "parameter without a description",
    "PR02": "description of an unknown parameter",
    "PR03": "order of parameters",
    "PR04": "parameter without a type",
    "PR07": "empty description of a parameter",
    "PR10": "no space before the colon of a parameter",
    "RT01": "no section Returns",
    "RT03": "empty description of the return value",
    "YD01": "no section Yields",
}
NUMERIC: Final = re.compile(
    r"\b(float|complex|Fraction|FloatArray|ComplexArray|IntArray|NDArray|Enclosure|EnclosureArray|Decimal|arb"
    r"|CurvePoints|Reading|GdpReading|Witness|UnlearningGuarantee)\b"
)
"""Return types of functions that compute numbers."""


class Function(NamedTuple):
    """Function of a module, or method of one of its classes. `name` is that of the function, or of the class."""

    module: str
    name: str
    method: str = ""

    @property
    def package(self) -> str:
        return self.module.rpartition(".")[0]

    @property
    def owner(self) -> str:
        return f"{self.module}.{self.name}"

    @property
    def path(self) -> str:
        return f"{self.owner}.{self.method}" if self.method else self.owner


@cache
def trees() -> dict[str, ast.Module]:
    """Return the modules of the service by their dotted names."""
    files = sorted((ROOT / "service").rglob("*.py"))
    return {dotted(path): ast.parse(path.read_text("utf-8")) for path in files}


def dotted(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def core_functions() -> Iterator[Function]:
    """Yield the functions and methods of the core without a leading underscore that return numbers."""
    for module, tree in trees().items():
        if module.startswith(CORE):
            for node in tree.body:
                if returns_numbers(node):
                    yield Function(module, node.name)
                elif isinstance(node, ast.ClassDef):
                    yield from (Function(module, node.name, each.name) for each in node.body if returns_numbers(each))


def returns_numbers(node: ast.stmt) -> TypeGuard[ast.FunctionDef]:
    """Return whether a statement defines a function of its own documentation, no property, that returns numbers."""
    if not isinstance(node, ast.FunctionDef) or node.name.startswith("_") or node.returns is None:
        return False
    marks = " ".join(map(ast.unparse, node.decorator_list))
    return NUMERIC.search(ast.unparse(node.returns)) is not None and not re.search("property|override", marks)


def uses() -> Iterator[tuple[str, str]]:
    """Yield (package, dotted name) for each name of the core that a module of the package uses."""
    for module, tree in trees().items():
        package, known = module.rpartition(".")[0], dict[str, str]()
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(CORE):
                known |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
        yield from ((package, name) for name in known.values())
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in known:
                yield package, f"{known[node.value.id]}.{node.attr}"


def public_functions() -> list[str]:
    """Return the functions of the core that another package uses."""
    users: dict[str, set[str]] = {}
    for package, name in uses():
        users.setdefault(name, set()).add(package)
    return [each.path for each in core_functions() if users.get(each.owner, set()) - {each.package}]


PUBLIC: Final = public_functions()


def test_public_functions_are_found() -> None:
    assert len(PUBLIC) > 100
    assert "service.privacy.questions.profile.epsilon" in PUBLIC
    assert "service.privacy.numerics.roots.bisected" in PUBLIC


@pytest.mark.parametrize("path", PUBLIC)
def test_public_functions_have_numpydoc_sections(path: str) -> None:
    assert [error for error in validate(path)["errors"] if error[0] in CHECKED] == []


def test_sections_are_not_joined_to_their_text() -> None:
    joined = re.compile(r"^ *(Notes|Returns|Parameters|Raises|References|Attributes|Yields) -{3,}", re.MULTILINE)
    files = sorted((ROOT / "service").rglob("*.py"))
    assert [str(file.relative_to(ROOT)) for file in files if joined.search(file.read_text("utf-8"))] == []
