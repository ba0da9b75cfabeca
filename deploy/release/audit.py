"""Audit of locked packages against a database of known vulnerabilities, by pip-audit.

`python -m deploy.release.audit PIP_AUDIT [LOCK ...]` exits with 0 if the database has nothing against any package, with
1 for a finding, and with 3 if it could not be asked about every package. Markers are ignored, so that packages of other
platforms are audited too. An index without a database answers nothing, and pip-audit then reports no vulnerabilities. A
version with known vulnerabilities is therefore asked about as well. Without an answer for it no package counts as
audited.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from packaging.utils import canonicalize_name

from deploy.release.locked import ROOT, RUNTIME, read_lock

KNOWN: Final = "flask==0.5"
"""A version with published vulnerabilities, of a package that no lock file contains."""
CLEAN, FOUND, NOT_AUDITED = 0, 1, 3
ATTEMPT_SECONDS: Final = 300


@dataclass
class Audit:
    """Outcome of the search for known vulnerabilities in the packages of the lock files."""

    findings: list[str] = field(default_factory=list[str])
    skipped: list[str] = field(default_factory=list[str])
    audited: int = 0
    reached: bool = False

    @property
    def code(self) -> int:
        """Exit code of the command for this outcome."""
        if self.findings:
            return FOUND
        return CLEAN if self.reached and not self.skipped and self.audited else NOT_AUDITED

    def sentences(self) -> list[str]:
        """Return the outcome of the audit in sentences."""
        if not self.reached:
            unknown = (
                "Nothing else is known about any package." if self.findings else "Nothing is known about any package."
            )
            return [*self.findings, f"NOT AUDITED: the database of vulnerabilities could not be reached. {unknown}"]
        texts = [*self.findings, *(f"NOT AUDITED: {each}" for each in self.skipped)]
        return [
            *texts,
            f"{self.audited} packages audited, {len(self.findings)} findings, {len(self.skipped)} not audited.",
        ]


def read_report(report: dict[str, Any] | None, asked: Iterable[str]) -> Audit:
    """Return what a report of pip-audit says about the packages `asked`. None stands for no report."""
    outcome = Audit()
    missing = set(asked)
    known, _, _ = KNOWN.partition("==")
    for each in (report or {}).get("dependencies", []):
        vulnerabilities = each.get("vulns", [])
        missing.discard(canonicalize_name(each["name"]))
        if each["name"] == known:
            outcome.reached = bool(vulnerabilities)
        elif "skip_reason" in each:
            outcome.skipped.append(f"{each['name']}: {each['skip_reason']}")
        else:
            outcome.audited += 1
            for found in vulnerabilities:
                fixed = ", ".join(found["fix_versions"]) or "no version"
                outcome.findings.append(f"{each['name']} {each['version']}: {found['id']}, fixed in {fixed}")
    outcome.skipped += [f"{name}: the report does not name it" for name in sorted(missing)]
    return outcome


def ask(program: str, requirements: list[str]) -> dict[str, Any] | None:
    """Run pip-audit for the requirements, and return its report, or None if it wrote none that can be read."""
    with tempfile.TemporaryDirectory() as folder:
        listed, report = Path(folder, "requirements.txt"), Path(folder, "report.json")
        listed.write_text("\n".join([*requirements, KNOWN]), "utf-8")
        command = [program, "--requirement", str(listed), "--no-deps", "--disable-pip", "--format", "json"]
        command += ["--progress-spinner", "off", "--output", str(report)]
        try:
            subprocess.run(command, capture_output=True, check=False, timeout=ATTEMPT_SECONDS)
            return json.loads(report.read_text("utf-8"))
        except (OSError, ValueError, subprocess.TimeoutExpired):
            return None


def main(arguments: list[str]) -> int:
    """Print the outcome of the audit of the lock files, and return the exit code."""
    program, *files = arguments
    packages = [each for file in files or [str(RUNTIME)] for each in read_lock(ROOT / file)]
    report = ask(program, sorted({each.requirement for each in packages}))
    outcome = read_report(report, [each.name for each in packages])
    for sentence in outcome.sentences():
        print(sentence, file=sys.stderr if outcome.code else sys.stdout)
    return outcome.code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
