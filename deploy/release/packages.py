"""Build of wheel and sdist from a commit, without anything else that lies in the folder."""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from deploy.release.locked import ROOT

# setuptools changes sys.argv.
BUILD: Final = "import wheel_backend as b, sys; to = sys.argv[1]; b.build_sdist(to); b.build_wheel(to)"


@dataclass(frozen=True)
class Commit:
    """Commit of the sources: its digest, the digest of its tree, and its time in seconds since 1970."""

    digest: str
    tree: str
    moment: int
    """Time of the commit in seconds since 1970."""


def git(*arguments: str) -> bytes:
    """Run a Git command in the checkout and return its output."""
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True).stdout


def read_commit() -> Commit:
    """Return the last commit of the checkout. Raise FileNotFoundError outside of a Git checkout."""
    try:
        digest, tree, moment = git("show", "--no-patch", "--format=%H %T %ct").decode().split()
    except (OSError, subprocess.CalledProcessError) as error:
        raise FileNotFoundError("A release is built from a commit. Run the command in a Git checkout.") from error
    return Commit(digest, tree, int(moment))


def has_changes() -> bool:
    """Return whether files of the last commit are changed in the folder of the checkout."""
    return bool(git("status", "--porcelain", "--untracked-files=no").strip())


def export(commit: Commit, folder: Path) -> None:
    """Write the files of a commit into an empty folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with tarfile.open(fileobj=io.BytesIO(git("archive", "--format=tar", commit.digest))) as archive:
        archive.extractall(folder, filter="data")


def version_of(source: Path) -> str:
    """Return the version in `pyproject.toml` of the exported sources."""
    return str(tomllib.loads((source / "pyproject.toml").read_text("utf-8"))["project"]["version"])


def earlier_engine(changelog: str) -> list[str]:
    """Return the engine version of the release before, from the text of `CHANGELOG.md`; nothing for a first release."""
    sections = re.split(r"(?m)^## ", changelog)[1:]
    engines = [found[1] for each in sections if (found := re.search(r"[Ee]ngine version (\d[\w.]*\w)", each))]
    return engines[1:2]


def build(source: Path, commit: Commit, target: Path) -> list[Path]:
    """Build the guide, the sdist and the wheel from exported sources, and return the files in `target`."""
    target.mkdir(parents=True, exist_ok=True)
    environment = os.environ | {"SOURCE_DATE_EPOCH": str(commit.moment)}
    guide = [sys.executable, "-m", "properdocs", "build", "--quiet", "--strict", "--config-file", "docs/guide.yml"]
    subprocess.run(guide, cwd=source, env=environment, check=True)
    # An own PYTHONPATH: the backend must see no module of the checkout.
    environment["PYTHONPATH"] = str(source / "deploy/packaging")
    packing = [sys.executable, "-W", "ignore", "-c", BUILD, str(target.resolve())]
    subprocess.run(packing, cwd=source, env=environment, check=True, capture_output=True)
    version = version_of(source)
    return [target / f"privacy_bounds-{version}-py3-none-any.whl", target / f"privacy_bounds-{version}.tar.gz"]
