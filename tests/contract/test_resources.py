"""Resources are listed wherever they have to be. Each failing test names the file that has to list a resource."""

from __future__ import annotations

import json
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from api_schemas import base
from service.command import main as cli
from service.resources.abstract import Computation, command_of
from service.resources.catalogue import RESOURCES, resource, resources

ROOT = Path(__file__).parents[2]
ROOM = ROOT / "service" / "resources"
CATALOGUE = "service/resources/catalogue.py"


def defined() -> dict[str, str]:
    """Return the module and name of every resource that the package defines, as the catalogue writes them."""
    found: dict[str, str] = {}
    for path in sorted(ROOM.rglob("*.py")):
        module = ".".join(path.relative_to(ROOM).with_suffix("").parts)
        for constant in re.findall(r"(?m)^([A-Z_]+): Final.* = Computation\(", path.read_text("utf-8")):
            computation: Computation[Any, Any] = getattr(import_module(f"service.resources.{module}"), constant)
            found[computation.name] = f"{module}:{constant}"
    return found


def test_catalogue_lists_every_resource() -> None:
    different = sorted(set(defined().items()) ^ set(RESOURCES.items()))
    assert different == [], f"edit RESOURCES in {CATALOGUE}"


@pytest.mark.parametrize("name", RESOURCES)
def test_resource_metadata_is_consistent(name: str) -> None:
    computation = resource(name)
    file = f"service/resources/{RESOURCES[name].partition(':')[0].replace('.', '/')}.py"
    assert computation.name == name, f"the name in {file} is not the one in {CATALOGUE}"
    assert re.fullmatch(r"(/[a-z0-9-]+)+", computation.path), f"the path in {file}"
    assert computation.path.startswith("/v1/"), f"the path in {file}"
    assert computation.description.endswith("."), f"the description in {file}"
    for model in (computation.request_type, computation.response_type):
        assert issubclass(model, base.Request | base.Response), (
            f"{model.__name__} of {file}: schemas are in api_schemas"
        )
        assert model.__module__.startswith("api_schemas."), f"{model.__name__} of {file}: schemas are in api_schemas"
    assert {"digest", "engine_version"} <= set(computation.response_type.model_fields), (
        f"{computation.response_type.__module__} says neither digest nor engine_version"
    )


@pytest.mark.parametrize("name", RESOURCES)
def test_examples_are_valid_requests(name: str) -> None:
    computation = resource(name)
    assert len(computation.examples) >= 2, f"two examples beside {computation.request_type.__module__}, at least"
    for example in computation.examples.values():
        computation.request_type.model_validate_json(json.dumps(example["value"]))


def test_names_of_resources_are_unique() -> None:
    for names in (
        [computation.path for computation in resources()],
        [computation.operation for computation in resources()],
        [command_of(name) for name in RESOURCES],
    ):
        assert len(set(names)) == len(names)


@pytest.mark.parametrize("name", RESOURCES)
def test_guide_lists_every_resource(name: str) -> None:
    row = f"| `POST {resource(name).path}` |"
    assert row in (ROOT / "docs/guide/reference.md").read_text("utf-8"), f"docs/guide/reference.md has no row for {row}"


@pytest.mark.parametrize("name", RESOURCES)
def test_every_resource_is_a_command(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[tuple[Any, ...]] = []
    monkeypatch.setattr(cli, "run_resource", lambda *sent: ran.append(sent) or 0)
    assert cli.main([command_of(name), "request.json"]) == 0
    assert ran == [(resource(name), "request.json", {}, None)]


def test_help_names_every_route(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    shown = re.sub(r"\s+", " ", capsys.readouterr().out)
    for computation in resources():
        assert computation.path.rpartition("/")[2] in shown
