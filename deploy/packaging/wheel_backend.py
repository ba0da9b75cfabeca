"""Build backend (PEP 517) whose wheel keeps the implementation below `privacy_bounds/`.

`service` and `api_schemas` are names that a user's project may have too. setuptools builds the wheel; `relocate` then
moves these packages to `privacy_bounds/_implementation/` and adapts their imports. Everything else, editable
installations above all, is as setuptools builds it, so that a checkout imports `service` and `api_schemas` by their
names. `docs/decisions/0032-wheel-layout.md` has the reasons.
"""

from __future__ import annotations

import ast
import base64
import csv
import hashlib
import io
import re
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from setuptools import build_meta
from setuptools.build_meta import (
    build_editable,
    build_sdist,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

MOVED: Final = ("api_schemas", "service")
"""Packages that are moved."""
PLACE: Final = "privacy_bounds._implementation"
"""Package to which they are moved."""
FOLDER: Final = PLACE.replace(".", "/")
DOCSTRING: Final = '"""Implementation of the service and its contract. Names in it may change at any time."""\n'

_ROOT: Final = "|".join(MOVED)
_FROM: Final = re.compile(rf"(?m)^(\s*from )({_ROOT})(?=[. ])")
_NAME: Final = re.compile(rf"""(["'])((?:{_ROOT})(?:\.\w+)*)\1""")


def build_wheel(
    wheel_directory: str, config_settings: Mapping[str, Any] | None = None, metadata_directory: str | None = None
) -> str:
    """Build the wheel, and return its file name."""
    name = build_meta.build_wheel(wheel_directory, config_settings, metadata_directory)
    relocate(Path(wheel_directory) / name)
    return name


def relocate(wheel: Path) -> None:
    """Rewrite a wheel, so that MOVED lie below PLACE. Dates and order of the entries stay."""
    with zipfile.ZipFile(wheel) as archive:
        entries = [(info, archive.read(info)) for info in archive.infolist()]
    modules = {module_of(info.filename) for info, _ in entries if info.filename.endswith(".py")}
    files: dict[str, tuple[zipfile.ZipInfo, bytes]] = {}
    for info, content in entries:
        if info.filename.endswith(".dist-info/RECORD"):
            continue
        name = f"{FOLDER}/{info.filename}" if info.filename.split("/")[0] in MOVED else info.filename
        files[name] = info, adapted(info.filename, content, modules)
    first, _ = entries[0]
    files[f"{FOLDER}/__init__.py"] = first, DOCSTRING.encode()
    record, _ = next(entry for entry in entries if entry[0].filename.endswith(".dist-info/RECORD"))
    files[record.filename] = record, record_of({name: content for name, (_, content) in files.items()}, record.filename)
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, (info, content) in files.items():
            placed = zipfile.ZipInfo(name, info.date_time)
            placed.external_attr, placed.compress_type = info.external_attr, zipfile.ZIP_DEFLATED
            archive.writestr(placed, content)


def module_of(path: str) -> str:
    """Return the name of the module in a file."""
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def adapted(name: str, content: bytes, modules: set[str]) -> bytes:
    """Return a file with names of moved modules at their new place."""
    if name.endswith(".dist-info/top_level.txt"):
        return b"privacy_bounds\n"
    if name.endswith(".dist-info/entry_points.txt"):
        return re.sub(rf"(?m)= ({_ROOT})\.", rf"= {PLACE}.\1.", content.decode()).encode()
    return adapted_source(content.decode(), modules).encode() if name.endswith(".py") else content


def adapted_source(text: str, modules: set[str]) -> str:
    """Return a module that imports moved modules from their new place. Strings that name a module are names of it.

    Raise ValueError for imports that would still need the old place, such as `import service`.
    """
    text = _FROM.sub(rf"\1{PLACE}.\2", text)
    text = _NAME.sub(lambda name: f"{name[1]}{PLACE}.{name[2]}{name[1]}" if name[2] in modules else name[0], text)
    if left := {name for name in imported_names(text) if name.split(".")[0] in MOVED}:
        raise ValueError(f"{', '.join(sorted(left))}: use `from ... import` at the start of a line")
    return text


def imported_names(text: str) -> Iterator[str]:
    """Yield the names of all modules that a module imports by statements."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module or ""


def record_of(files: Mapping[str, bytes], own: str) -> bytes:
    """Return the list of files with their hashes and sizes (PEP 376)."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for name, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        writer.writerow((name, f"sha256={digest}", len(content)))
    writer.writerow((own, "", ""))
    return text.getvalue().encode()
