"""Licences of all locked packages of the service: writes `requirements/LICENCES.md`.

`python -m deploy.release.licences` writes the file. With `--check` it compares the file. It exits with 1 if the file is
old, or if a licence is neither permissive nor listed with a reason.
"""

from __future__ import annotations

import json
import re
import sys
from importlib.metadata import PackageNotFoundError, metadata
from typing import Final

from deploy.release.locked import BUILD_TOOLS, ROOT, read_lock

FILE: Final = ROOT / "requirements/LICENCES.md"
HEAD: Final = """\
`make licences` writes this file from the metadata of the packages in `runtime.lock`. Packages that only build the
service are left out. privacy-bounds itself has the licence Apache-2.0."""
PERMISSIVE: Final = frozenset(
    {
        "0BSD",
        "3-Clause BSD License",
        "Apache-2.0",
        "Apache Software License",
        "BSD License",
        "BSD-2-Clause",
        "BSD-3-Clause",
        "CC0-1.0",
        "ISC",
    }
    | {"MIT", "MIT License", "MIT-0", "PSF-2.0", "Zlib"}
)
LISTED: Final = {
    "certifi": "Weak copyleft for its own files: certificates. Tracing imports the unmodified package.",
    "pebble": "Weak copyleft. The service imports the unmodified package, and anybody may replace it.",
    "python-flint": "Weak copyleft. The wheel contains FLINT, GMP and MPFR as shared libraries that can be replaced.",
    "shtab": "Weak copyleft for its own files. The service imports the unmodified package.",
}
"""Packages whose licence is not permissive, each with the reason why a release may contain it."""
BUNDLED: Final = {
    "numpy": "The wheel contains OpenBLAS (BSD-3-Clause) and libgfortran (GPL-3.0 with the GCC runtime exception).",
    "scipy": "The wheel contains OpenBLAS (BSD-3-Clause) and libgfortran (GPL-3.0 with the GCC runtime exception).",
}
"""Remarks on libraries inside wheels that the declared licence leaves out."""
ELSEWHERE: Final = {"async-timeout": "Apache-2.0"}
"""Declared licences of packages that only some supported environments install."""


def declared_licence(name: str) -> str:
    """Return the licence that the metadata of an installed package declare.

    Raise PackageNotFoundError for a package that is not installed.
    """
    found = metadata(name).json
    if expression := found.get("license_expression"):
        return str(expression)
    classifiers = [each.rpartition(" :: ")[2] for each in found.get("classifier", []) if "License ::" in each]
    return "; ".join(classifiers) or str(found.get("license", "none"))


def is_permissive(licence: str) -> bool:
    """Return whether every part of an expression or list of licences is permissive."""
    return set(re.split(r"; | AND | OR ", licence.replace("(", "").replace(")", ""))) <= PERMISSIVE


def script_licences() -> dict[str, str]:
    """Return the licences of scripts in the package that are no Python packages, by name and version."""
    manifests = sorted((ROOT / "service/web").glob("*/vendor/manifest.json"))
    rows = [row for each in manifests for row in json.loads(each.read_text("utf-8"))]
    # The builder of the guide adds its search to the pages.
    return {f"{row['package']} {row['version']}": str(row["licence"]) for row in rows} | {"lunr 2.3.9": "MIT"}


def package_licences() -> dict[str, str]:
    """Return the declared licence of every locked package that a supported environment installs."""
    names = {each.name for each in read_lock() if each.is_supported} - BUILD_TOOLS
    licences: dict[str, str] = {}
    for name in sorted(names):
        try:
            licences[name] = declared_licence(name)
        except PackageNotFoundError:
            licences[name] = ELSEWHERE[name]
    return licences


def defects(licences: dict[str, str]) -> list[str]:
    """Return a sentence for each licence that is not permissive and not listed, and for each needless listing."""
    unlisted = {name for name, licence in licences.items() if not is_permissive(licence)}
    return [
        f"{name}: {licences[name]} is not permissive. Give a reason in LISTED." for name in unlisted - {*LISTED}
    ] + [f"{name}: remove the entry of LISTED." for name in sorted({*LISTED} - unlisted)]


def document(licences: dict[str, str]) -> str:
    """Return the text of the file that lists the licences of all packages."""
    rows = [f"| {name} | {text} | {LISTED.get(name, BUNDLED.get(name, ''))} |" for name, text in licences.items()]
    scripts = [f"| {name} | {licence} |" for name, licence in sorted(script_licences().items())]
    return "\n".join(
        [
            "# Licences",
            "",
            HEAD,
            "",
            "| package | declared licence | remark |",
            "|---|---|---|",
            *rows,
            "",
            "Scripts of the pages, inside the package:",
            "",
            "| script | licence |",
            "|---|---|",
            *scripts,
            "",
        ]
    )


def main(arguments: list[str]) -> int:
    """Write or check the file that lists the licences, and return the exit code."""
    licences = package_licences()
    text, sentences = document(licences), defects(licences)
    if arguments == ["--check"]:
        old = not FILE.exists() or FILE.read_text("utf-8") != text
        sentences += ["requirements/LICENCES.md is old: run `make licences`."] if old else []
    else:
        FILE.write_text(text, "utf-8")
    for sentence in sentences:
        print(sentence, file=sys.stderr)
    return 1 if sentences else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
