"""Start-up time: imports of the core compared with those of its dependencies, and cold answers of `Local` and the
command line.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final

from benchmarks.report import Reach, Section, Table

ROUNDS: Final = 9
IMPORTS: Final = {
    "nothing": "pass",
    "numpy + scipy.special": "import numpy, scipy.special",
    "service.privacy, every module": (
        "import importlib, pkgutil, service.privacy as core\n"
        "for found in pkgutil.walk_packages(core.__path__, 'service.privacy.'): importlib.import_module(found.name)"
    ),
    "first epsilon of Local()": ("from privacy_bounds import Local\nLocal().epsilon((1.1, 0.004, 3000), delta=1e-5)"),
}
LARGEST_EXTRA_SECONDS: Final = 0.25
LARGEST_LOCAL_SECONDS: Final = 0.6
LARGEST_CLI_SECONDS: Final = 1.2
REQUEST: Final = {
    "mechanism": {"type": "dpsgd", "noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000},
    "questions": [{"type": "reconstruction", "baseline_success": 0.001}, {"type": "epsilon", "delta": 1e-5}],
}


def measure() -> Section:
    commands = {name: [sys.executable, "-c", code] for name, code in IMPORTS.items()}
    with TemporaryDirectory() as folder:
        request = Path(folder) / "request.json"
        request.write_text(json.dumps(REQUEST))
        program = str(Path(sys.executable).with_name("privacy-bounds"))
        commands["privacy-bounds bounds request.json (C1, two questions)"] = [program, "bounds", str(request)]
        for command in commands.values():
            cpu_seconds_of(command, Path(folder))  # Write the bytecode.
        found: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(ROUNDS):
            for name, command in commands.items():
                found[name].append(cpu_seconds_of(command, Path(folder)))
    middle = {name: median(values) for name, values in found.items()}
    _, base, core, local, cli = middle.values()
    section = Section("Starting")
    section.tables.append(
        Table("A new process (CPU s, median, interleaved)", ("what it does", "CPU s"), list(middle.items()))
    )
    section.reaches += [
        Reach(
            "import of all of service.privacy",
            f"<= numpy + scipy.special + {LARGEST_EXTRA_SECONDS} s",
            f"{core:.3f} s against {base:.3f} s: + {core - base:.3f} s",
            core - base <= LARGEST_EXTRA_SECONDS,
        ),
        Reach("first answer of `Local` from cold", "<= 0.6 s", f"{local:.3f} s", local <= LARGEST_LOCAL_SECONDS),
        Reach("CLI answer from cold", "<= 1.2 s", f"{cli:.3f} s", cli <= LARGEST_CLI_SECONDS),
    ]
    return section


def cpu_seconds_of(command: list[str], folder: Path) -> float:
    """Return the CPU seconds of a command with cached bytecode, as an installation has it.

    The environment variables of this process that prevent bytecode do not count.
    """
    bytecode = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(folder / "bytecode")}
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=os.environ | bytecode)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return usage.ru_utime + usage.ru_stime
