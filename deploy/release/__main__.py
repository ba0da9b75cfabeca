"""Run steps of a release in order, and write its files to `dist/`.

`python -m deploy.release [--base-image IMAGE] [--tools FOLDER] STEP...` with the steps `packages`, `trial`, `sbom`,
`drift`, `image`, `provenance` and `checksums`. Without `trial`, `sbom` describes the environment of this interpreter.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from deploy.release import bill_of_materials, image, packages, provenance, trial
from deploy.release.locked import ROOT

OUTPUT: Final = ROOT / "dist"
WORK: Final = ROOT / "build/release"
CHECKSUMS: Final = "SHA256SUMS"


@dataclass
class Release:
    """Release of a commit: its inputs, and the files that its steps have built so far."""

    commit: packages.Commit
    tools: Path
    base: str | None
    interpreter: Path = Path(sys.executable)
    expected: float | None = None
    bill: dict[str, Any] = field(default_factory=dict[str, Any])
    files: list[Path] = field(default_factory=list[Path])

    @property
    def version(self) -> str:
        """The version of the exported sources."""
        return packages.version_of(WORK / "source")

    def packages(self) -> None:
        """Build the wheel and the sdist (source archive)."""
        shutil.rmtree(OUTPUT, ignore_errors=True)
        self.files = packages.build(WORK / "source", self.commit, OUTPUT)

    def trial(self) -> None:
        """Install the wheel by hashes into a new environment, and try it."""
        self.interpreter = trial.install(self.files[0], WORK / "environment")
        self.expected = trial.try_wheel(self.interpreter, self.version)
        print(f"The installed wheel answers: epsilon(1e-5) <= {self.expected}.")

    def sbom(self) -> None:
        """Write the bills of materials of the wheel and of the image."""
        program = str(self.tools / "bin/cyclonedx-py")
        whole = bill_of_materials.environment_bill(program, str(self.interpreter), self.commit.moment)
        self.bill = bill_of_materials.runtime_bill(whole)
        wheel = self.files[0] if self.files else None
        digest = provenance.sha256_of(wheel) if wheel else ""
        self.write("cdx.json", bill_of_materials.wheel_bill(self.bill, wheel, digest))
        self.write("image.cdx.json", bill_of_materials.image_bill(self.bill, image.base_image(self.base), []))

    def drift(self) -> None:
        """Write the report on answers that moved since the release before.

        Raise ValueError if two enclosures of one number do not meet.
        """
        path = OUTPUT / f"privacy_bounds-{self.version}.drift.md"
        OUTPUT.mkdir(exist_ok=True)
        earlier = packages.earlier_engine((WORK / "source/CHANGELOG.md").read_text("utf-8"))
        command = [sys.executable, "-m", "benchmarks.drift", *earlier, "--output", str(path)]
        ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if ended.returncode:
            reason = (
                ended.stderr.strip() or f"Enclosures of two engine versions do not meet, or none was compared: {path}"
            )
            raise ValueError(f"The release stops at its drift report. {reason}")
        self.files.append(path)

    def image(self) -> None:
        """Build and try the image, and add the packages of its distribution to its bill of materials."""
        if not image.has_engine():
            print("NOT DONE: no image was built. No container engine answers here.")
            return
        name = image.build_image(WORK / "source", self.commit, self.version, self.base)
        if self.expected is not None:
            image.try_image(name, self.version, self.expected)
        print(f"{name}: {image.size_of(name) / 1e6:.0f} MB. The goal is {image.LARGEST_BYTES / 1e6:.0f} MB.")
        if self.bill:
            base, system = image.base_image(self.base), image.system_packages(name)
            self.write("image.cdx.json", bill_of_materials.image_bill(self.bill, base, system))

    def provenance(self) -> None:
        """Write the provenance (statement of origin) of all files built so far."""
        base = image.base_image(self.base)
        commit = self.commit
        text = provenance.statement(self.files, commit.digest, commit.tree, commit.moment, self.version, base)
        self.write("provenance.json", text)

    def checksums(self) -> None:
        """Write the checksums of all built files, in the form of `sha256sum --check`."""
        lines = [f"{provenance.sha256_of(path)}  {path.name}\n" for path in sorted(self.files)]
        (OUTPUT / CHECKSUMS).write_text("".join(lines), "utf-8")

    def write(self, ending: str, content: dict[str, Any]) -> None:
        """Write a JSON file of the release, whose name ends in `ending`."""
        OUTPUT.mkdir(exist_ok=True)
        path = OUTPUT / f"privacy_bounds-{self.version}.{ending}"
        path.write_text(json.dumps(content, indent=1, ensure_ascii=False, sort_keys=True) + "\n", "utf-8")
        self.files = [each for each in self.files if each != path] + [path]


STEPS: Final = ("packages", "trial", "sbom", "drift", "image", "provenance", "checksums")


def main() -> int:
    """Run the steps of a release, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m deploy.release")
    parser.add_argument("steps", nargs="+", choices=STEPS)
    parser.add_argument("--base-image", help="base image with its digest, as name:tag@sha256:...")
    parser.add_argument("--tools", type=Path, default=ROOT / ".venv/release", help="environment of cyclonedx-py")
    given = parser.parse_args()
    try:
        commit = packages.read_commit()
        if "packages" in given.steps and packages.has_changes():
            raise ValueError("A release is built from a commit. Commit or stash your changes first.")
        packages.export(commit, WORK / "source")
        release = Release(commit, given.tools, given.base_image or None)
        for step in STEPS:
            if step in given.steps:
                getattr(release, step)()
    except subprocess.CalledProcessError as error:
        print(f"{error}\n{error.stderr or ''}", file=sys.stderr)
        return 1
    except (trial.TrialFailed, FileNotFoundError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    for path in sorted(OUTPUT.iterdir()):
        print(f"{path.stat().st_size:>12} {path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
