"""Description of the machine and of the installed versions."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Final

PACKAGES: Final = (
    "privacy-bounds",
    "numpy",
    "scipy",
    "mpmath",
    "pydantic",
    "fastapi",
    "starlette",
    "uvicorn",
    "uvloop",
    "dp-accounting",
    "riskcal",
    "autodp",
    "prv-accountant",
)


def description() -> str:
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    return "\n".join(
        (
            f"- {datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {_processor()}, {os.cpu_count()} cores, load average {load}",
            f"- Python {platform.python_version()}, {platform.system()} {platform.machine()}",
            f"- {', '.join(f'{package} {version(package)}' for package in PACKAGES)}",
        )
    )


def _processor() -> str:
    information = Path("/proc/cpuinfo")
    lines = information.read_text().splitlines() if information.exists() else []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or "unknown processor")
