"""Declared dependencies are the used ones: dependencies, lock files, contents of the distribution."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Final

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
LOCK_FILES = sorted((ROOT / "requirements").glob("*.lock"))
PACKAGES = {"api_schemas", "privacy_bounds", "service"}
NAMED_AND_NOT_IMPORTED = {"httptools", "mpmath", "packaging", "uvloop"}
"""uvicorn imports httptools and uvloop if they are installed; kombu imports packaging; mpmath is used by the proving
engines.
"""
PARTS: Final = {
    "opentelemetry.exporter": "opentelemetry-exporter-otlp-proto-http",
    "opentelemetry.sdk": "opentelemetry-sdk",
    "opentelemetry.trace": "opentelemetry-api",
}
"""Distributions of parts of a package that several distributions share."""


EXTRAS: Final = tuple(PROJECT["optional-dependencies"])


def normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def declared(*extras: str) -> set[str]:
    more = [each for extra in extras for each in PROJECT["optional-dependencies"][extra]]
    named = {normalised(re.split(r"[^\w.-]", requirement)[0]) for requirement in [*PROJECT["dependencies"], *more]}
    return named - {"privacy-bounds"}


def imported() -> set[str]:
    """Return the distributions that the packages import, by declared name.

    Dependencies of dependencies do not count.
    """
    modules: set[str] = set()
    for path in (path for package in PACKAGES for path in ROOT.glob(f"{package}/**/*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                modules |= {name_of(alias.name) for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                modules.add(name_of(node.module))
    third_party = modules - sys.stdlib_module_names - PACKAGES
    providers = packages_distributions()
    return {normalised(PARTS.get(module) or providers[module][0]) for module in third_party}


def name_of(module: str) -> str:
    """Return the first part of a module's name, or both parts in a package that several distributions share."""
    first, _, rest = module.partition(".")
    return (
        f"{first}.{rest.partition('.')[0] or 'trace'}" if first in {part.partition(".")[0] for part in PARTS} else first
    )


def test_every_import_is_declared() -> None:
    # FastAPI, pydantic and Celery pin Starlette, pydantic-core, kombu and billiard, on which they are built.
    assert imported() - {"starlette", "pydantic-core", "kombu", "billiard"} <= declared(*EXTRAS)


def test_every_dependency_is_used() -> None:
    assert declared(*EXTRAS) - NAMED_AND_NOT_IMPORTED <= imported()


@pytest.mark.parametrize("lock", LOCK_FILES, ids=lambda path: path.name)
def test_lock_files_have_hashes_and_no_index_url(lock: Path) -> None:
    text = lock.read_text("utf-8")
    requirements = re.split(r"(?m)^(?=\S)", text.strip())[1:]
    assert requirements
    for requirement in requirements:
        assert re.match(r"[\w.-]+==\S+ (;[^\\\n]+ )?\\\n( +--hash=sha256:[0-9a-f]{64}( \\)?\n?)+$", requirement)


@pytest.mark.parametrize(
    ("name", "extras"),
    [
        ("requirements/runtime.lock", EXTRAS),
        ("requirements/development.lock", EXTRAS),
        ("requirements/bench.lock", ("local", "server", "cluster")),
    ],
)
def test_lock_file_lists_every_dependency(name: str, extras: tuple[str, ...]) -> None:
    assert declared(*extras) <= set(re.findall(r"(?m)^([\w.-]+)==", (ROOT / name).read_text("utf-8")))
