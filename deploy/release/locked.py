"""Reader of the lock files in `requirements/`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from packaging.markers import Marker
from packaging.utils import canonicalize_name

ROOT: Final = Path(__file__).parents[2]
RUNTIME: Final = ROOT / "requirements/runtime.lock"
BUILD_TOOLS: Final = frozenset({"pip", "setuptools"})
"""Packages of `runtime.lock` that only install the others. The image does not keep them."""
PLATFORMS: Final = [
    {"sys_platform": platform, "platform_system": system, "os_name": "posix", "python_full_version": version}
    | {"python_version": version.rpartition(".")[0], "implementation_name": "cpython"}
    | {"platform_python_implementation": "CPython"}
    for platform, system in (("linux", "Linux"), ("darwin", "Darwin"))
    for version in ("3.11.0", "3.11.9", "3.12.0", "3.13.0")
]
"""Environments in which a release is supported."""


@dataclass(frozen=True)
class Locked:
    """Package of a lock file, with the SHA-256 hashes of all its files."""

    name: str
    version: str
    marker: str
    hashes: tuple[str, ...]

    @property
    def is_supported(self) -> bool:
        """Whether any supported environment installs the package (by its marker)."""
        return not self.marker or any(Marker(self.marker).evaluate(each) for each in PLATFORMS)

    @property
    def requirement(self) -> str:
        """Requirement of the package without hashes and without its marker: it holds on every platform."""
        return f"{self.name}=={self.version}"


def read_lock(path: Path = RUNTIME) -> list[Locked]:
    """Return the packages of a lock file, in the order of the file."""
    entries = re.split(r"(?m)^(?=\w)", path.read_text("utf-8"))
    found = [(re.match(r"([\w.-]+)==(\S+)(?: ; ([^\\]+?))? \\", entry), entry) for entry in entries]
    return [
        Locked(canonicalize_name(head[1]), head[2], head[3] or "", tuple(re.findall(r"sha256:([0-9a-f]{64})", entry)))
        for head, entry in found
        if head
    ]
