"""Bills of materials (CycloneDX) of wheel and image, from an environment in which the service is installed."""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Final

from deploy.release.licences import script_licences
from deploy.release.locked import BUILD_TOOLS, ROOT, read_lock

SPECIFICATION: Final = "1.6"
ROOT_REFERENCE: Final = "root-component"


def environment_bill(program: str, interpreter: str, moment: int) -> dict[str, Any]:
    """Return the bill of all packages in an environment, as `cyclonedx-py` writes it.

    Parameters
    ----------
    program
        Path of `cyclonedx-py`.
    interpreter
        Interpreter of the environment.
    moment
        Seconds since 1970 that the bill names as its time.
    """
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder, "bill.json")
        command = [program, "environment", interpreter, "--pyproject", str(ROOT / "pyproject.toml")]
        command += ["--output-reproducible", "--spec-version", SPECIFICATION, "--output-file", str(target)]
        subprocess.run(command, env={"SOURCE_DATE_EPOCH": str(moment)}, check=True, capture_output=True)
        bill: dict[str, Any] = json.loads(target.read_text("utf-8"))
    return bill


def runtime_bill(bill: dict[str, Any]) -> dict[str, Any]:
    """Return a bill of materials with only the locked packages of the service and the scripts of the pages.

    Packages have their hashes. Raise ValueError if the environment has another version than the lock file, or lacks a
    package.
    """
    locked = {each.name: each for each in read_lock() if each.name not in BUILD_TOOLS}
    components: list[dict[str, Any]] = []
    for component in bill["components"]:
        name = component["purl"].partition("@")[0].removeprefix("pkg:pypi/")
        if name not in locked:
            continue
        entry = locked.pop(name)
        if component["version"] != entry.version:
            raise ValueError(f"{name} is {component['version']}; the lock file has {entry.version}.")
        hashes = [{"alg": "SHA-256", "content": each} for each in entry.hashes]
        files = {
            "type": "distribution",
            "url": component["purl"],
            "comment": "files of the lock file",
            "hashes": hashes,
        }
        components.append(component | {"externalReferences": [*component.get("externalReferences", []), files]})
    if missing := sorted(name for name, each in locked.items() if not each.marker):
        raise ValueError(f"The environment lacks {', '.join(missing)}.")
    kept = {each["bom-ref"] for each in components}
    scripts = script_components()
    edges = {each["ref"]: kept & {*each.get("dependsOn", ())} for each in bill["dependencies"]}
    edges[ROOT_REFERENCE] |= {each["bom-ref"] for each in scripts} | unreached(kept, edges)
    return bill | {
        "components": [*components, *scripts],
        "dependencies": [
            {"ref": ref} | ({"dependsOn": sorted(edges[ref])} if edges.get(ref) else {})
            for ref in sorted({ROOT_REFERENCE, *kept, *(each["bom-ref"] for each in scripts)})
        ],
    }


def unreached(kept: set[str], edges: dict[str, set[str]]) -> set[str]:
    """Return the packages in `kept` on which no other package depends. `edges` has the dependencies of each package."""
    return kept - {reference for name in kept for reference in edges.get(name, ())}


def script_components() -> list[dict[str, Any]]:
    """Return the scripts that the pages contain as components of a bill of materials."""
    components: list[dict[str, Any]] = []
    for title, licence in sorted(script_licences().items()):
        name, version = title.split(" ")
        purl = f"pkg:npm/{name}@{version}"
        licences = [{"license": {"id": licence, "acknowledgement": "declared"}}]
        component = {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}
        components.append(component | {"licenses": licences})
    return components


def wheel_bill(bill: dict[str, Any], wheel: Path | None, digest: str) -> dict[str, Any]:
    """Return the bill of materials of the wheel. `digest` is its SHA-256 in hexadecimal digits."""
    if wheel is None:
        return bill
    component = bill["metadata"]["component"]
    version = component["version"]
    named = {"type": "library", "purl": f"pkg:pypi/privacy-bounds@{version}?file_name={wheel.name}"}
    hashed = {"hashes": [{"alg": "SHA-256", "content": digest}]}
    return bill | {"metadata": bill["metadata"] | {"component": component | named | hashed}}


def image_bill(bill: dict[str, Any], base: str, system_packages: list[tuple[str, str, str]]) -> dict[str, Any]:
    """Return the bill of the image.

    Parameters
    ----------
    base
        Base image with its tag, and with its digest where the build named one.
    system_packages
        Name, version and architecture of the packages of the distribution in the image; empty if they are unknown.
    """
    name, _, tag = base.partition("@")[0].partition(":")
    digest = base.partition("@sha256:")[2]
    purl = f"pkg:docker/{name}@{tag}"
    image: dict[str, Any] = {"type": "container", "bom-ref": purl, "name": name, "version": tag, "purl": purl}
    if digest:
        image["hashes"] = [{"alg": "SHA-256", "content": digest}]
    system = [
        {"type": "library", "bom-ref": f"pkg:deb/debian/{package}@{version}?arch={architecture}"}
        | {"name": package, "version": version, "purl": f"pkg:deb/debian/{package}@{version}?arch={architecture}"}
        for package, version, architecture in system_packages
    ]
    component = bill["metadata"]["component"] | {"type": "container"}
    added = sorted([purl, *(each["bom-ref"] for each in system)])
    dependencies = [
        each | {"dependsOn": sorted({*each.get("dependsOn", ()), *added})} if each["ref"] == ROOT_REFERENCE else each
        for each in bill["dependencies"]
    ]
    return bill | {
        "metadata": bill["metadata"] | {"component": component},
        "components": [*bill["components"], image, *system],
        "dependencies": [*dependencies, *({"ref": each} for each in added)],
    }
