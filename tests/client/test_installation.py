"""The client as a thin installation has it: without numpy and without the packages of the server."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import privacy_bounds

ROOT = Path(__file__).parents[2]
SERVER_ONLY = tuple(
    """
    numpy scipy mpmath flint fastapi starlette uvicorn redis structlog prometheus_client pebble rich jinja2 yaml
    rfc8785 service shtab vl_convert pydantic_settings altair pandas
    """.split()  # noqa: SIM905 - a list of words
)
BLOCKER = f"""
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {SERVER_ONLY!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Blocker())
"""


def run(code: str) -> str:
    """Run code in a new interpreter that cannot import the packages of the server, and return its output."""
    return subprocess.run(
        [sys.executable, "-c", BLOCKER + code],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        check=True,
        capture_output=True,
        text=True,
    ).stdout


def test_every_exported_name_is_there() -> None:
    for name in privacy_bounds.__all__:
        assert getattr(privacy_bounds, name) is not None
    assert {"Asking", "AsyncClient", "Bounds", "Client", "Columns", "Job", "Local", "Number", "Options"} <= set(
        privacy_bounds.__all__
    )
    assert {"Power", "PrivacyBoundsError", "Refused", "Run", "Sweep", "Unreachable", "table"} <= set(
        privacy_bounds.__all__
    )
    with pytest.raises(AttributeError, match="nothing"):
        _ = privacy_bounds.nothing


def test_every_client_but_the_local_one_works_without_the_server() -> None:
    code = """
import asyncio
from privacy_bounds import *
import privacy_bounds
for ask in (lambda: Client("http://127.0.0.1:9").epsilon((1.0, 0.01, 10), delta=1e-5),
            lambda: asyncio.run(AsyncClient("http://127.0.0.1:9").assess((1.0, 0.01, 10), {})),
            lambda: Client("http://127.0.0.1:9").job("j").state()):
    try:
        ask()
    except Unreachable as error:
        print("Nobody answers" in str(error))
"""
    assert run(code).split() == ["True"] * 3


def test_the_local_client_names_its_extra() -> None:
    code = """
from privacy_bounds import Local, NotInstalled, PrivacyBoundsError
try:
    Local()
except ImportError as error:
    print(isinstance(error, PrivacyBoundsError), "privacy-bounds[local]" in str(error))
"""
    assert run(code).split() == ["True", "True"]


def test_importing_the_package_loads_neither_http_nor_the_contract() -> None:
    code = (
        "import privacy_bounds; print(*(name for name in sys.modules if name.split('.')[0] in ('httpx2', 'stamina')))"
    )
    assert run(code).split() == []
    assert run("import privacy_bounds; print('api_schemas.answers' in sys.modules)").split() == ["False"]


def test_first_local_answer_loads_no_module_that_it_does_not_need() -> None:
    code = """
import sys
from privacy_bounds import Local
Local().epsilon((1.1, 0.004, 3000), delta=1e-5)
print(*(name for name in sys.modules if name.split(".")[0] in ("flint", "httpx2", "mpmath", "stamina")))
print(*(name for name in sys.modules if name.startswith("service.privacy.threat_models.membership")))
"""
    found = subprocess.run([sys.executable, "-W", "ignore", "-c", code], cwd=ROOT, check=True, capture_output=True)
    assert found.stdout.split() == []


def test_workers_load_the_modules_that_the_first_answer_leaves_out() -> None:
    code = """
import sys
from service.preloaded import preloaded_modules
print("numpy" in sys.modules)
for name in preloaded_modules():
    __import__(name)
print({"flint", "mpmath", "service.privacy.threat_models.membership"} <= set(sys.modules))
"""
    found = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True)
    assert found.stdout.split() == [b"False", b"True"]
