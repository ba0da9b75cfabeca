"""Provenance of a release: an in-toto statement with the predicate of SLSA about commit, inputs and tools.

The statement depends on the commit and the built files only. It names no machine, user, folder or time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from deploy.release.locked import ROOT, read_lock

BUILD_TYPE: Final = "urn:privacy-bounds:build:1"
BUILDER: Final = "urn:privacy-bounds:builder:make-release:1"
INPUTS: Final = (
    "requirements/runtime.lock",
    "requirements/guide.lock",
    "Dockerfile",
    "deploy/packaging/wheel_backend.py",
)
"""Files of the commit that determine which tools and packages a build uses."""
TOOLS: Final = (("requirements/runtime.lock", "setuptools"), ("requirements/guide.lock", "properdocs"))


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal digits."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def statement(files: Sequence[Path], commit: str, tree: str, moment: int, version: str, base: str) -> dict[str, Any]:
    """Return the provenance of the built files: an in-toto statement about their sources and their build.

    Parameters
    ----------
    files
        Built files.
    commit, tree
        Git commit of the sources, and the hash of its tree.
    moment
        Time of the commit in seconds since 1970, which all built files have.
    version
        Version of the package.
    base
        Base image of the container, with its tag.
    """
    source = {
        "name": "source",
        "uri": f"git+urn:privacy-bounds@{commit}",
        "digest": {"gitCommit": commit, "gitTree": tree},
    }
    inputs = [{"name": name, "digest": {"sha256": sha256_of(ROOT / name)}} for name in INPUTS]
    locked = {(file, each.name): each for file, _ in TOOLS for each in read_lock(ROOT / file)}
    tools = [{"name": name, "uri": f"pkg:pypi/{name}@{locked[file, name].version}"} for file, name in TOOLS]
    image = {"name": "base image", "uri": f"pkg:docker/{base.replace(':', '@', 1)}"}
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [
            {"name": path.name, "digest": {"sha256": sha256_of(path)}} for path in sorted(files, key=lambda p: p.name)
        ],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": {"commit": commit, "version": version},
                "internalParameters": {"SOURCE_DATE_EPOCH": str(moment)},
                "resolvedDependencies": [source, *inputs, *tools, image],
            },
            "runDetails": {"builder": {"id": BUILDER}},
        },
    }
