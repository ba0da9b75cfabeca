"""Bill of materials, provenance, licences and audit of a release say what holds, and nothing about the machine."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError
from importlib.metadata import files as files_of
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from deploy.release.audit import CLEAN, FOUND, KNOWN, NOT_AUDITED, main, read_report
from deploy.release.bill_of_materials import ROOT_REFERENCE, image_bill, runtime_bill, wheel_bill
from deploy.release.image import base_image
from deploy.release.licences import FILE, LISTED, defects, document, is_permissive, package_licences
from deploy.release.locked import BUILD_TOOLS, read_lock
from deploy.release.packages import earlier_engine, version_of
from deploy.release.provenance import INPUTS, sha256_of, statement
from tests.contract.pages import section
from tests.contract.test_packaging import LOCK_FILES, ROOT
from tests.rendering.test_standards import validator_of_cyclonedx

DIGEST: Final = "0" * 64
NOTHING: Final[dict[str, Any]] = {"name": KNOWN.partition("==")[0], "version": "1", "vulns": []}
CONTROL: Final = NOTHING | {"vulns": [{"id": "PYSEC-0", "fix_versions": ["2"]}]}
SOUND: Final[dict[str, Any]] = {"name": "a", "version": "1", "vulns": []}
UNKNOWN: Final = {"name": "b", "skip_reason": "Dependency not found and could not be audited: b (1)"}
BROKEN: Final = {"name": "c", "version": "1", "vulns": [{"id": "CVE-1", "fix_versions": []}]}


@pytest.mark.parametrize("lock", LOCK_FILES, ids=lambda path: path.name)
def test_lock_is_read_whole(lock: Path) -> None:
    text = lock.read_text("utf-8")
    entries = read_lock(lock)
    assert [f"{each.name}=={each.version}" for each in entries] == re.findall(r"(?m)^(\S+==\S+)", text)
    assert sum(len(each.hashes) for each in entries) == text.count("--hash=sha256:")
    assert sum(bool(each.marker) for each in entries) == text.count(" ; ")


def test_licences_are_listed_and_permissive_or_with_a_reason() -> None:
    licences = package_licences()
    assert defects(licences) == []
    assert FILE.read_text("utf-8") == document(licences), "run `make licences`"


@pytest.mark.parametrize(
    ("licence", "permissive"),
    [
        *[(each, True) for each in ("MIT", "(MIT OR Apache-2.0) AND Zlib", "BSD License; MIT License")],
        *[(each, False) for each in ("MIT AND GPL-3.0-only", "MPL-2.0", "none", "", "BSD-4-Clause")],
    ],
)
def test_licence_is_permissive_in_all_its_parts(licence: str, permissive: bool) -> None:
    assert is_permissive(licence) == permissive
    listed = dict.fromkeys(LISTED, "MPL-2.0")
    assert (defects(listed | {"new": licence}) == []) == permissive


def test_needless_reason_is_a_defect() -> None:
    assert len(defects(dict.fromkeys(LISTED, "MIT"))) == len(LISTED)


@pytest.mark.parametrize(
    ("dependencies", "code", "sentence"),
    [
        ([CONTROL, SOUND], CLEAN, "1 packages audited, 0 findings, 0 not audited"),
        ([CONTROL, SOUND, BROKEN], FOUND, "c 1: CVE-1, fixed in no version"),
        ([CONTROL, BROKEN, UNKNOWN], FOUND, "NOT AUDITED: b"),
        ([CONTROL, SOUND, UNKNOWN], NOT_AUDITED, "NOT AUDITED: b"),
        ([NOTHING, SOUND], NOT_AUDITED, "could not be reached"),
        ([UNKNOWN | {"name": NOTHING["name"]}, UNKNOWN], NOT_AUDITED, "could not be reached"),
        ([CONTROL], NOT_AUDITED, "0 packages audited"),
        ([SOUND], NOT_AUDITED, "could not be reached"),
        ([NOTHING, BROKEN], FOUND, "c 1: CVE-1"),
        ([CONTROL, SOUND, None], NOT_AUDITED, "NOT AUDITED: left-out: the report does not name it"),
    ],
)
def test_audit_says_whether_its_database_answered(dependencies: list[Any], code: int, sentence: str) -> None:
    asked = ["left-out" if each is None else each["name"] for each in dependencies if each is not CONTROL]
    outcome = read_report({"dependencies": [each for each in dependencies if each], "fixes": []}, asked)
    assert outcome.code == code
    assert any(sentence in each for each in outcome.sentences())


@pytest.mark.parametrize("script", ["exit 1", 'for last; do :; done; echo "{" > "$last"', None])
def test_audit_without_a_report_is_no_finding(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, script: str | None
) -> None:
    """An audit of dependencies without a report is no finding.

    The program that makes the report fails, writes half of it, or is absent. Exit code 1 would look like a finding.
    """
    program = tmp_path / "program"
    if script is not None:
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
    assert main([str(program)]) == NOT_AUDITED
    assert capsys.readouterr().err.startswith("NOT AUDITED: the database of vulnerabilities could not be reached.")


PROGRAM: Final = """#!{python}
import json, sys
given = dict(zip(sys.argv[1:], sys.argv[2:]))
named = [line.split("==") for line in open(given["--requirement"]).read().split()]
found = [{{"id": "PYSEC-0", "fix_versions": []}}]
rows = [{{"name": n, "version": v, "vulns": found if n in {affected} else []}} for n, v in named]
json.dump({{"dependencies": rows}}, open(given["--output"], "w"))
"""
"""A program that knows vulnerabilities of some packages, and takes the arguments of pip-audit."""


@pytest.mark.parametrize(
    ("affected", "code"), [([NOTHING["name"]], CLEAN), ([NOTHING["name"], "numpy"], FOUND), ([], NOT_AUDITED)]
)
def test_audit_exits_with_the_code_in_the_guide(tmp_path: Path, affected: list[str], code: int) -> None:
    program = tmp_path / "program"
    program.write_text(PROGRAM.format(python=sys.executable, affected=affected))
    program.chmod(0o755)
    assert main([str(program)]) == code
    codes = re.findall(r"(?m)^\| [^|]+ \| (\d) \|", section("Known vulnerabilities", "releases"))
    assert sorted(map(int, codes)) == sorted([CLEAN, FOUND, NOT_AUDITED])


def environment_of_lock() -> dict[str, Any]:
    """Return a bill of materials of an environment with all locked packages and one more.

    Its format is that of `cyclonedx-py`."""
    names = [(each.name, each.version) for each in read_lock()] + [("pytest", "9")]
    components = [
        {"bom-ref": f"{name}=={version}", "name": name, "version": version, "type": "library"}
        | {"purl": f"pkg:pypi/{name}@{version}"}
        for name, version in names
    ]
    references = [each["bom-ref"] for each in components]
    # Every package needs the next one, and the last one all.
    edges = [{"ref": one, "dependsOn": [other]} for one, other in itertools.pairwise(references)]
    root = {"bom-ref": ROOT_REFERENCE, "name": "privacy-bounds", "version": "1.0", "type": "application"}
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": root, "timestamp": "2026-11-27T00:00:00+00:00"},
        "components": components,
        "dependencies": [*edges, {"ref": references[-1], "dependsOn": references}, {"ref": ROOT_REFERENCE}],
    }


@pytest.mark.parametrize("base", ["python:3.11.14-slim-bookworm", f"python:3.11.14-slim@sha256:{DIGEST}"])
def test_bills_are_valid_and_list_locked_packages_alone(base: str) -> None:
    bill = runtime_bill(environment_of_lock())
    wheel = wheel_bill(bill, Path("privacy_bounds-1.0-py3-none-any.whl"), DIGEST)
    image = image_bill(bill, base, [("libc6", "2.36-9+deb12u13", "amd64")])
    locked = {each.name: each for each in read_lock() if each.name not in BUILD_TOOLS}
    found = {each["name"]: each for each in wheel["components"] if each["purl"].startswith("pkg:pypi/")}
    assert {name: each["version"] for name, each in found.items()} == {n: e.version for n, e in locked.items()}
    for name, component in found.items():
        (files,) = component["externalReferences"]
        assert {each["content"] for each in files["hashes"]} == {*locked[name].hashes}
    validator = validator_of_cyclonedx("bom-1.6")
    for each in (wheel, image):
        assert [str(error) for error in validator.iter_errors(each)] == []
        references = [component["bom-ref"] for component in each["components"]]
        assert len(set(references)) == len(references)
        known = {ROOT_REFERENCE, *references}
        assert {edge["ref"] for edge in each["dependencies"]} == known
        assert {name for edge in each["dependencies"] for name in edge.get("dependsOn", ())} <= known
    assert {each["name"] for each in image["components"]} - {each["name"] for each in wheel["components"]} == {
        "libc6",
        "python",
    }


def test_bill_of_another_environment_is_refused() -> None:
    bill = environment_of_lock()
    other = [each | {"version": "0"} if each["name"] == "numpy" else each for each in bill["components"]]
    with pytest.raises(ValueError, match="numpy is 0"):
        runtime_bill(bill | {"components": other})
    with pytest.raises(ValueError, match="lacks numpy"):
        runtime_bill(bill | {"components": [each for each in bill["components"] if each["name"] != "numpy"]})


def test_provenance_names_inputs_and_no_machine(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("b.whl", "a.tar.gz")]
    for path in files:
        path.write_text(path.name)
    made = statement(files, "1" * 40, "2" * 40, 1700000000, "0.2.0", base_image(None))
    assert made["subject"] == [{"name": p.name, "digest": {"sha256": sha256_of(p)}} for p in reversed(files)]
    definition = made["predicate"]["buildDefinition"]
    source, *inputs = definition["resolvedDependencies"]
    assert source["digest"] == {"gitCommit": "1" * 40, "gitTree": "2" * 40}
    assert {each["name"]: each["digest"]["sha256"] for each in inputs if "digest" in each} == {
        name: sha256_of(ROOT / name) for name in INPUTS
    }
    text = json.dumps(made)
    assert json.dumps(statement(files[::-1], "1" * 40, "2" * 40, 1700000000, "0.2.0", base_image(None))) == text
    for private in (str(tmp_path), str(ROOT), str(Path.home()), platform.node()):
        assert len(private) < 3 or private not in text


def test_images_have_exact_tags() -> None:
    lines = re.findall(r"(?m)^FROM (\S+)", (ROOT / "Dockerfile").read_text("utf-8"))
    assert re.fullmatch(r"python:3\.\d+\.\d+-slim-\w+", base_image(None))
    assert lines == [base_image(None), "${BASE_IMAGE}", "${BASE_IMAGE}"]
    files = [ROOT / "docker-compose.yml", *(ROOT / "deploy/kubernetes").rglob("*.yaml")]
    named = {name for path in files for name in re.findall(r"(?m)^ +image: (\S+)$", path.read_text("utf-8"))}
    foreign = named - {"privacy-bounds"}
    assert len({each.partition(":")[0] for each in foreign}) == len(foreign) > 1
    assert [each for each in foreign if not re.search(r":v?\d+\.\d+\.\d+", each)] == []


@pytest.mark.skipif(sys.platform != "linux" or platform.machine() != "x86_64", reason="sizes are those of Linux x86-64")
def test_guide_states_sizes_of_the_locked_packages() -> None:
    """The guide states the sizes of the installed packages in docs/guide/releases.md.

    A part that grew by more than 2 MB and a twentieth needs a new number there.
    """
    rows = re.findall(r"(?m)^\| (.*) \| (\d+) \|$", section("Base image", "releases"))
    stated = {name: int(size) for text, size in rows for name in [*re.findall(r"`([\w-]+)`", text), text][:1]}
    shared = {"scipy": "numpy", "uvloop": "cryptography"}
    others = next(text for text in stated if text.startswith("all other packages"))
    measured = dict.fromkeys((*(name for name in stated if " " not in name), others), 0.0)
    for name in {each.name for each in read_lock()} - BUILD_TOOLS:
        row = shared.get(name, name)
        with contextlib.suppress(PackageNotFoundError):
            measured[row if row in measured else others] += installed_megabytes(name)
    for row, size in measured.items():
        assert abs(size - stated[row]) <= 2 + size / 20, f"{row}: {size:.0f} MB"


def installed_megabytes(name: str) -> float:
    """Return the size of an installed package without byte code and tests, which the image leaves out."""
    files = [path for path in files_of(name) or () if path.suffix != ".pyc" and "tests" not in path.parts]
    return sum(Path(str(each.locate())).stat().st_size for each in files) / 1e6


def test_every_file_names_the_same_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    document = json.loads((ROOT / "api_schemas/openapi.json").read_text("utf-8"))
    page = re.findall(r"\| package, for example `([\d.]+)` \|", (ROOT / "docs/guide/versions.md").read_text("utf-8"))
    example = document["components"]["schemas"]["VersionResponse"]["properties"]["version"]["examples"]
    manifests = sorted((ROOT / "deploy/kubernetes").rglob("kustomization.yaml"))
    tags = [tag for path in manifests for tag in re.findall(r'newTag: "([\d.]+)"', path.read_text("utf-8"))]
    version = version_of(ROOT)
    assert len(tags) > 1
    assert {citation["version"], document["info"]["version"], *page, *example, *tags} == {version}
    assert len(page) == len(example) == 1


def test_drift_begins_at_the_release_before() -> None:
    first = "## [1.0]\nThe first version, with engine version 2026.1.\n"
    assert earlier_engine(first) == []
    assert earlier_engine(f"# Changelog\n## [Unreleased]\n## [2.0]\nEngine version 2026.2. Text.\n{first}") == [
        "2026.1"
    ]
    assert earlier_engine((ROOT / "CHANGELOG.md").read_text("utf-8")) != []


def commit(checkout: Path) -> None:
    named = ["-c", "user.name=a", "-c", "user.email=a@b"]
    for command in (["init", "--quiet"], ["add", "."], [*named, "commit", "--quiet", "--message", "One"]):
        subprocess.run(["git", *command], cwd=checkout, check=True)


@pytest.mark.thorough
def test_release_stops_if_enclosures_of_two_versions_do_not_meet(tmp_path: Path) -> None:
    """A release stops if enclosures of two engine versions do not meet.

    In a copy of the sources, the next engine version moves one stored answer out of its enclosure.
    """
    checkout = tmp_path / "checkout"
    version = json.loads((ROOT / "tests/frozen/answers.json").read_text("utf-8"))["engine_version"]
    for name in ("deploy/release", "benchmarks", "tests/frozen"):
        shutil.copytree(ROOT / name, checkout / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", checkout)
    (checkout / "CHANGELOG.md").write_text(f"## [2]\n\nEngine version 9.9.\n\n## [1]\n\nEngine version {version}.\n")
    commit(checkout)
    corpus = checkout / "tests/frozen/answers.json"
    text = json.loads(corpus.read_text("utf-8"))
    moved = next(each for each in text["answers"] if each[-1] and each[-1][0][1] < 1e6)
    moved[-1] = [[high + 1, high + 2] for _, high in moved[-1]]
    moved[4] = "moved"
    corpus.write_text(json.dumps(text | {"engine_version": "9.9"}))
    commit(checkout)
    ended = subprocess.run(
        [sys.executable, "-m", "deploy.release", "drift", "checksums"],
        cwd=checkout,
        env=os.environ | {"PYTHONPATH": f"{checkout}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 1, ended.stdout
    assert ended.stderr.startswith(
        "The release stops at its drift report. Enclosures of two engine versions do not meet"
    )
    assert [path.suffix for path in (checkout / "dist").iterdir()] == [".md"], "no later step wrote a file"
