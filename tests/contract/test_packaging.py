"""Declared dependencies are the used ones: dependencies, lock files, contents of the distribution."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Final

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
LOCK_FILES = sorted((ROOT / "requirements").glob("*.lock"))
PACKAGES = {"api_schemas", "privacy_bounds", "service"}
WEB = ROOT / "service" / "web"
PAGES = [path.relative_to(ROOT).as_posix() for name in ("explorer", "reference") for path in (WEB / name).rglob("*.*")]
NAMED_AND_NOT_IMPORTED = {"httptools", "mpmath", "packaging", "uvloop"}
"""uvicorn imports httptools and uvloop if they are installed; kombu imports packaging; mpmath is used by the proving
engines.
"""


EXTRAS: Final = ("cluster", "mcp")


def normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def declared(*extras: str) -> set[str]:
    more = [each for extra in extras for each in PROJECT["optional-dependencies"][extra]]
    return {normalised(re.split(r"[^\w.-]", requirement)[0]) for requirement in [*PROJECT["dependencies"], *more]}


def imported() -> set[str]:
    """Return the distributions that the packages import, by declared name.

    Dependencies of dependencies do not count.
    """
    modules: set[str] = set()
    for path in (path for package in PACKAGES for path in ROOT.glob(f"{package}/**/*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                modules |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                modules.add(node.module.split(".")[0])
    third_party = modules - sys.stdlib_module_names - PACKAGES
    providers = packages_distributions()
    return {normalised(providers[module][0]) for module in third_party}


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
        ("requirements/bench.lock", ("cluster",)),
    ],
)
def test_lock_file_lists_every_dependency(name: str, extras: tuple[str, ...]) -> None:
    assert declared(*extras) <= set(re.findall(r"(?m)^([\w.-]+)==", (ROOT / name).read_text("utf-8")))


def test_distribution_contains_the_contract(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    for package in PACKAGES:
        shutil.copytree(ROOT / package, source / package, ignore=shutil.ignore_patterns("__pycache__"))
    build = "from setuptools.build_meta import build_wheel; print(build_wheel('..'))"
    subprocess.run([sys.executable, "-c", build], cwd=source, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {
        "api_schemas/openapi.json",
        "api_schemas/response_examples.json",
        "api_schemas/py.typed",
        "privacy_bounds/py.typed",
        "service/py.typed",
        "service/command/main.py",
        *PAGES,
    } <= names
    assert {name.split("/")[0] for name in names if ".dist-info" not in name} == PACKAGES
    (metadata,) = (name for name in names if name.endswith("entry_points.txt"))
    assert b"privacy-bounds = service.command.main:main" in zipfile.ZipFile(wheel).read(metadata)
