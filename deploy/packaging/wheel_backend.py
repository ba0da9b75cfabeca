"""Build backend (PEP 517) whose wheel keeps the implementation below `privacy_bounds/`.

`service` and `api_schemas` are names that a user's project may have too. setuptools builds the wheel; `relocate` then
moves these packages to `privacy_bounds/_implementation/` and adapts their imports. Everything else, editable
installations above all, is as setuptools builds it, so that a checkout imports `service` and `api_schemas` by their
names. `docs/decisions/0032-wheel-layout.md` has the reasons.

Wheel and sdist are reproducible: equal sources give equal bytes in every folder, with every umask, locale and date.
All files have the time of `SOURCE_DATE_EPOCH`, or 1980-01-01 without it.
"""

from __future__ import annotations

import ast
import base64
import csv
import gzip
import hashlib
import io
import os
import re
import shutil
import tarfile
import time
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from setuptools import build_meta
from setuptools.build_meta import (
    build_editable,
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
SOURCES: Final = ("LICENSE", "PKG-INFO", "README.md", "pyproject.toml", "api_schemas/", "privacy_bounds/", "service/")
"""Files and folders of the sdist, beside this backend."""
EARLIEST: Final = 315532800
"""1980-01-01 in seconds since 1970: the first day that a zip archive can hold."""
MODE: Final = 0o644
DOCSTRING: Final = '"""Implementation of the service and its contract. Names in it may change at any time."""\n'

_ROOT: Final = "|".join(MOVED)
_FROM: Final = re.compile(rf"(?m)^(\s*from )({_ROOT})(?=[. ])")
_NAME: Final = re.compile(rf"""(?:(?<=files\()(["'])({_ROOT})\1|(["'])((?:{_ROOT})(?:\.\w+)+)\3)""")
"""A quoted module with a dot in its name, or a quoted package as the argument of `files(...)`."""


def build_wheel(
    wheel_directory: str, config_settings: Mapping[str, Any] | None = None, metadata_directory: str | None = None
) -> str:
    """Build the wheel, and return its file name."""
    shutil.rmtree("build/lib", ignore_errors=True)  # setuptools would pack what an earlier build left there
    name = build_meta.build_wheel(wheel_directory, config_settings, metadata_directory)
    relocate(Path(wheel_directory) / name)
    return name


def build_sdist(sdist_directory: str, config_settings: Mapping[str, Any] | None = None) -> str:
    """Build the source archive, and return its file name. It holds this backend, too."""
    name = build_meta.build_sdist(sdist_directory, config_settings)
    archive = Path(sdist_directory) / name
    with tarfile.open(archive) as packed:
        files = {each.name: file.read() for each in packed.getmembers() if (file := packed.extractfile(each))}
    root = name.removesuffix(".tar.gz")
    kept = {path: content for path, content in files.items() if path.removeprefix(f"{root}/").startswith(SOURCES)}
    kept[f"{root}/deploy/packaging/wheel_backend.py"] = Path(__file__).read_bytes()
    archive.write_bytes(source_archive(kept))
    return name


def source_archive(files: Mapping[str, bytes]) -> bytes:
    """Return a compressed archive that depends on the names and the content of the files only."""
    text = io.BytesIO()
    with gzip.GzipFile("", "wb", fileobj=text, mtime=moment()) as stream, tarfile.open(fileobj=stream, mode="w") as to:
        for name in sorted(files):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode, entry.mtime = len(files[name]), MODE, moment()
            to.addfile(entry, io.BytesIO(files[name]))
    return text.getvalue()


def moment() -> int:
    """Return the time of all files in the wheel, in seconds since 1970."""
    return max(int(os.environ.get("SOURCE_DATE_EPOCH") or EARLIEST), EARLIEST)


def relocate(wheel: Path) -> None:
    """Rewrite a wheel so that the packages MOVED lie below the package PLACE.

    Names and content of the files determine its bytes.
    """
    with zipfile.ZipFile(wheel) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    modules = {module_of(name) for name in entries if name.endswith(".py")}
    record = next(name for name in entries if name.endswith(".dist-info/RECORD"))
    files = {f"{FOLDER}/__init__.py": DOCSTRING.encode()}
    for name in entries.keys() - {record}:
        files[f"{FOLDER}/{name}" if name.split("/")[0] in MOVED else name] = adapted(name, entries[name], modules)
    # Metadata stand at the end of a wheel, and the list of its files is the last one of them.
    files = {name: files[name] for name in sorted(files, key=lambda each: (".dist-info/" in each, each))}
    files[record] = record_of(files, record)
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, content in files.items():
            placed = zipfile.ZipInfo(name, time.gmtime(moment())[:6])
            placed.create_system, placed.external_attr = 3, (0o100000 | MODE) << 16
            placed.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(placed, content)


def module_of(path: str) -> str:
    """Return the name of the Python module in the file at `path`."""
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def adapted(name: str, content: bytes, modules: set[str]) -> bytes:
    """Return the content of a file of the wheel, in which names of moved modules have their new place."""
    if name.endswith(".dist-info/top_level.txt"):
        return b"privacy_bounds\n"
    if name.endswith(".dist-info/entry_points.txt"):
        return re.sub(rf"(?m)= ({_ROOT})\.", rf"= {PLACE}.\1.", content.decode()).encode()
    return adapted_source(content.decode(), modules).encode() if name.endswith(".py") else content


def adapted_source(text: str, modules: set[str]) -> str:
    """Return the text of a Python module that imports moved modules from their new place.

    Strings that _NAME matches are names of modules. Raise ValueError for imports that would still need the old place,
    such as `import service`.
    """

    def moved(found: re.Match[str]) -> str:
        mark, name = found[1] or found[3], found[2] or found[4]
        return f"{mark}{PLACE}.{name}{mark}" if name in modules else found[0]

    text = _NAME.sub(moved, _FROM.sub(rf"\1{PLACE}.\2", text))
    if left := {name for name in imported_names(text) if name.split(".")[0] in MOVED}:
        raise ValueError(f"{', '.join(sorted(left))}: use `from ... import` at the start of a line")
    return text


def imported_names(text: str) -> Iterator[str]:
    """Yield the names of all modules that the Python module with this text imports by statements."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module or ""


def record_of(files: Mapping[str, bytes], own: str) -> bytes:
    """Return the list of files of a wheel with their hashes and sizes (PEP 376).

    `own` is the name of the list itself.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for name, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        writer.writerow((name, f"sha256={digest}", len(content)))
    writer.writerow((own, "", ""))
    return text.getvalue().encode()
