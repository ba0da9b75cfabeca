"""The wheel works in a project that has packages of its own named `service` and `api_schemas`."""

from __future__ import annotations

import base64
import csv
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import time
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest

from tests.conftest import port_of, reserved_port
from tests.contract.test_packaging import PACKAGES, ROOT
from tests.signing.statements import bounds_envelope, write_keys
from tests.timeouts import TEST_TIMEOUT

FOLDER: Final = "privacy_bounds/_implementation"
RUN: Final[dict[str, Any]] = {"type": "dpsgd", "noise_multiplier": 1.1, "sample_rate": 0.004, "steps": 3000}
BOUNDS: Final = json.dumps({"mechanism": RUN, "questions": [{"type": "epsilon", "delta": 1e-5}]})
EXTRAS: Final[dict[str, list[str]]] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"][
    "optional-dependencies"
]
SUFFIXES: Final = (".py", ".json", ".js", ".css", ".html", ".txt", ".typed")
BLOCKER: Final = """
import importlib.abc, sys
class Blocker(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in {blocked!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Blocker())
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel from a copy of the sources, as an installer does."""
    source = tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    for package in (*PACKAGES, "deploy/packaging"):
        shutil.copytree(ROOT / package, source / package, ignore=shutil.ignore_patterns("__pycache__"))
    target = tmp_path_factory.mktemp("wheel")
    build = f"import wheel_backend; wheel_backend.build_wheel({str(target)!r})"
    place = os.environ | {"PYTHONPATH": str(source / "deploy/packaging")}
    subprocess.run([sys.executable, "-c", build], cwd=source, env=place, check=True, capture_output=True)
    (built,) = target.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def project(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the installed wheel in `site`, and with packages of its own."""
    folder = tmp_path_factory.mktemp("project")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    for name in ("service", "api_schemas"):
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text("OWN = True\n")
    (folder / "request.json").write_text(BOUNDS)
    return folder


def environment(project: Path) -> dict[str, str]:
    """Return variables with which an interpreter sees the project, the wheel and the dependencies, not the checkout."""
    paths = (project, project / "site", sysconfig.get_path("purelib"))
    return os.environ | {"PYTHONPATH": os.pathsep.join(map(str, paths)), "PYTHONSAFEPATH": "1"}


def run(project: Path, code: str, *, blocked: set[str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run Python code in the project with the installed wheel, without the startup files of this environment."""
    head = BLOCKER.format(blocked=blocked) if blocked else ""
    return subprocess.run(
        [sys.executable, "-S", "-c", head + code],
        cwd=project,
        env=environment(project),
        capture_output=True,
        text=True,
        check=False,
        timeout=TEST_TIMEOUT,
    )


def modules_of(extras: Iterator[str] | list[str]) -> set[str]:
    """Return the importable modules of the distributions that the extras name."""
    from importlib.metadata import packages_distributions

    named = {
        re.split(r"[^\w.-]", each)[0].lower()
        for extra in extras
        for each in EXTRAS[extra]
        if "privacy-bounds" not in each
    }
    return {module for module, names in packages_distributions().items() if {name.lower() for name in names} & named}


def test_wheel_holds_nothing_but_privacy_bounds(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        assert {name.split("/")[0] for name in names if ".dist-info" not in name} == {"privacy_bounds"}
        (top_level,) = (name for name in names if name.endswith("top_level.txt"))
        assert archive.read(top_level) == b"privacy_bounds\n"
        for name in names:
            if name.endswith(".py"):
                assert not re.search(r"(?m)^\s*(from|import) (service|api_schemas)\b", archive.read(name).decode()), (
                    name
                )


def test_every_source_file_is_in_the_wheel(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    sources = {
        f"{'' if package == 'privacy_bounds' else FOLDER + '/'}{path.relative_to(ROOT).as_posix()}"
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.suffix in (".py", ".json", ".js", ".css", ".html", ".txt", ".typed")
        and "web/guide" not in path.as_posix()
    }
    assert sources <= names


def test_record_lists_every_file_with_its_hash(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (record,) = (name for name in archive.namelist() if name.endswith("/RECORD"))
        rows = {name: (digest, size) for name, digest, size in csv.reader(archive.read(record).decode().splitlines())}
        assert rows.pop(record) == ("", "")
        assert set(rows) == set(archive.namelist()) - {record}
        for name, (digest, size) in rows.items():
            content = archive.read(name)
            expected = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            assert (digest, size) == (f"sha256={expected}", str(len(content)))


def test_local_answers_beside_packages_of_the_same_name(project: Path) -> None:
    code = (
        "import service, api_schemas; from privacy_bounds import Local; print(Local().epsilon({run}, delta=1e-5).value)"
    )
    ended = run(project, code.format(run=RUN) + "; assert service.OWN and api_schemas.OWN")
    assert ended.returncode == 0, ended.stderr
    from privacy_bounds import Local

    assert float(ended.stdout) == Local().epsilon(RUN, delta=1e-5).value


def test_command_answers_beside_packages_of_the_same_name(project: Path) -> None:
    entry = next((project / "site").glob("*.dist-info/entry_points.txt")).read_text()
    (module,) = re.findall(r"privacy-bounds = ([\w.]+):main", entry)
    code = f"import sys; from {module} import main; sys.exit(main(['bounds', 'request.json', '--json']))"
    ended = run(project, code)
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout)["answers"][0]["evidence"] == "certified"


def test_server_answers_beside_packages_of_the_same_name(project: Path) -> None:
    """A server answers in a project that has packages named `service` and `api_schemas`.

    Worker processes import the implementation from its new place too: the answer is computed in one of them.
    """
    place = reserved_port()
    port = port_of(place)
    place.close()
    code = f"from privacy_bounds._implementation.service.command.main import main; main(['serve', '--port', '{port}'])"
    body = json.loads(BOUNDS) | {"method": "ground_truth", "questions": [{"type": "epsilon", "delta": 1e-5}]}
    command = [sys.executable, "-S", "-c", code]
    with subprocess.Popen(command, cwd=project, env=environment(project), stderr=subprocess.PIPE) as process:
        client = httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=TEST_TIMEOUT)
        try:
            for _ in range(1000):
                try:
                    client.get("/livez")
                    break
                except httpx2.TransportError:
                    time.sleep(0.05)
                    assert process.poll() is None, process.stderr and process.stderr.read()
            answer = client.post("/v1/bounds", json=body)
            page = client.get("/")
        finally:
            process.terminate()
            client.close()
    assert answer.status_code == 200, answer.text
    assert page.status_code == 200


def test_client_needs_no_extra(project: Path) -> None:
    """The client works without the extras, and `Local` names the extra that it needs."""
    code = """
from privacy_bounds import AsyncClient, Client, Local, PrivacyBoundsError
Client("http://127.0.0.1:1"), AsyncClient("http://127.0.0.1:1")
try:
    Local()
except PrivacyBoundsError as error:
    print(error)
"""
    ended = run(project, code, blocked=modules_of(list(EXTRAS)))
    assert ended.returncode == 0, ended.stderr
    assert "privacy-bounds[local]" in ended.stdout


def test_version_needs_no_extra(project: Path) -> None:
    code = "from privacy_bounds._implementation.service.command.main import main\nmain(['--version'])"
    ended = run(project, code, blocked=modules_of(list(EXTRAS)))
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith("privacy-bounds ")


@pytest.mark.parametrize(
    ("command", "extras", "named"),
    [
        (["bounds", "request.json"], ["local", "server", "cluster", "mcp"], "privacy-bounds[local]"),
        (["serve", "--port", "1"], ["server", "cluster", "mcp"], "privacy-bounds[server]"),
        (["mcp"], ["mcp"], "privacy-bounds[mcp]"),
        (["verify", "a", "--keys", "b"], ["verify", "local", "server", "cluster", "mcp"], "privacy-bounds[verify]"),
        (["worker", "--check"], ["cluster"], "privacy-bounds[cluster]"),
    ],
)
def test_command_names_the_extra_that_it_needs(
    project: Path, command: list[str], extras: list[str], named: str
) -> None:
    code = (
        f"import sys; from privacy_bounds._implementation.service.command.main import main; sys.exit(main({command}))"
    )
    ended = run(project, code, blocked=modules_of(extras))
    assert ended.returncode == 2
    assert named in ended.stderr
    assert ended.stderr.count("\n") == 1


def test_local_computes_with_its_own_extra_alone(project: Path) -> None:
    code = f"from privacy_bounds import Local; print(Local().epsilon({RUN}, delta=1e-5).value)"
    others = modules_of(["server", "cluster", "mcp"]) - modules_of(["local"])
    ended = run(project, code, blocked=others)
    assert ended.returncode == 0, ended.stderr


def test_verification_needs_its_own_extra_alone(project: Path) -> None:
    (project / "answer.json").write_bytes(bounds_envelope())
    write_keys(project, 1)
    code = (
        "import sys; from privacy_bounds._implementation.service.command.main import main; "
        "sys.exit(main(['verify', 'answer.json', '--keys', 'keys.json']))"
    )
    others = modules_of([extra for extra in EXTRAS if extra != "verify"]) - modules_of(["verify"])
    ended = run(project, code, blocked=others)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith("verified: answer of bounds")
