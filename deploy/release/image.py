"""Build and trial of the container image, where a container engine is there."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Final

from deploy.release.locked import ROOT
from deploy.release.packages import Commit
from deploy.release.trial import check_answers, free_port, served_answers

LARGEST_BYTES: Final = 450_000_000
TEMPORARY: Final = "/tmp"  # noqa: S108 - inside the container
PACKAGES: Final = r"${Package}\t${Version}\t${Architecture}\n"


def base_image(argument: str | None) -> str:
    """Return the name of the base image: the argument, or the tag in the Dockerfile."""
    found = re.search(r"(?m)^FROM (\S+) AS base$", (ROOT / "Dockerfile").read_text("utf-8"))
    if found is None:
        raise ValueError("The Dockerfile names no base image.")
    return argument or found[1]


def has_engine() -> bool:
    """Return whether a container engine answers on this machine."""
    try:
        return subprocess.run(["docker", "info"], capture_output=True, check=False, timeout=30).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def docker(*words: str) -> str:
    """Run a Docker command and return its output."""
    return subprocess.run(["docker", *words], check=True, capture_output=True, text=True).stdout


def build_image(source: Path, commit: Commit, version: str, base: str | None) -> str:
    """Build the container image from exported sources, and return its name."""
    name = f"privacy-bounds:{version}"
    arguments = ["--build-arg", f"BASE_IMAGE={base}"] if base else []
    arguments += ["--build-arg", f"SOURCE_DATE_EPOCH={commit.moment}", "--build-arg", "PIP_INDEX_URL"]
    labels = ["--label", f"org.opencontainers.image.version={version}"]
    labels += ["--label", f"org.opencontainers.image.revision={commit.digest}"]
    docker("build", "--tag", name, *arguments, *labels, str(source))
    return name


def size_of(name: str) -> int:
    """Return the size of a container image in bytes."""
    return int(docker("image", "inspect", "--format", "{{.Size}}", name))


def system_packages(name: str) -> list[tuple[str, str, str]]:
    """Return name, version and architecture of the packages of the Linux distribution in a container image."""
    listed = docker("run", "--rm", "--entrypoint", "dpkg-query", name, "--show", f"--showformat={PACKAGES}")
    rows = [line.split("\t") for line in listed.splitlines()]
    return [(package, version, architecture) for package, version, architecture in rows]


def try_image(name: str, version: str, expected: float) -> None:
    """Start the image on a loopback port and compare its answers. Raise TrialFailed where they differ."""
    port = free_port()
    options = ["--rm", "--detach", "--read-only", "--tmpfs", TEMPORARY, "--publish", f"127.0.0.1:{port}:8000"]
    options += ["--env", "PRIVACY_BOUNDS_REQUIRE_AUTHENTICATION=false"]
    container = docker("run", *options, name).strip()
    try:
        versions, answer = served_answers(f"http://127.0.0.1:{port}", lambda: False)
    finally:
        docker("stop", container)
    check_answers(versions, answer, version, expected)
