"""The compose files: no secret stands in them, each secret reaches its own services, and production asks for all."""

from __future__ import annotations

import os
import re
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from service.secret_files import SUFFIX, read_secret_files
from service.settings import PREFIX, Settings, secret_fields

ROOT = Path(__file__).parents[2]
MAKE_SECRETS = ROOT / "deploy/compose/make-secrets.sh"
DEVELOPMENT = ROOT / "docker-compose.yml"
PRODUCTION = ROOT / "deploy/compose/production.yml"
SERVICES = {"api", "replica", "worker"}


class _Loader(yaml.SafeLoader):
    """Loader that reads `!reset` and `!override` of compose as their values."""


def _plain(loader: _Loader, _: str, node: yaml.Node) -> Any:
    if isinstance(node, yaml.MappingNode):
        return loader.construct_mapping(node, deep=True)
    return loader.construct_sequence(node, deep=True) if isinstance(node, yaml.SequenceNode) else None


_Loader.add_multi_constructor("!", _plain)


def read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.load(path.read_text("utf-8"), _Loader)
    return found


def mounted(service: dict[str, Any]) -> set[str]:
    return {str(each).partition(":")[0] for each in service.get("volumes") or ()}


def make_secrets(folder: Path, **given: str) -> dict[str, str]:
    """Run the script of the service `secrets` as it runs in the container, for the user of the test."""
    own = f"{os.getuid()}:{os.getgid()}"
    environment = {"PATH": os.environ["PATH"], "OWNER": own, "REDIS_OWNER": own, **given}
    for name in ("seal-key", "redis-password"):
        (folder / name).mkdir(exist_ok=True)
    subprocess.run(["sh", MAKE_SECRETS, folder], check=True, env=environment)
    files = {"SEAL_KEY": folder / "seal-key/seal_key", "REDIS_PASSWORD": folder / "redis-password/redis_password"}
    assert stat.S_IMODE(files["SEAL_KEY"].stat().st_mode) == 0o400
    assert stat.S_IMODE(files["REDIS_PASSWORD"].stat().st_mode) == 0o440
    assert sorted(each.name for each in folder.rglob("*") if each.is_file()) == ["redis_password", "seal_key"]
    values, sentences = read_secret_files({f"{name}{SUFFIX}": str(path) for name, path in files.items()}, files)
    assert sentences == []
    return values


def test_first_start_makes_random_secrets_and_later_starts_keep_them(tmp_path: Path) -> None:
    first, other = tmp_path / "first", tmp_path / "other"
    first.mkdir()
    other.mkdir()
    made = make_secrets(first)
    assert all(re.fullmatch(r"[0-9a-f]{64}", value) for value in made.values())
    assert len({*made.values(), *make_secrets(other).values()}) == 4
    assert make_secrets(first) == made


def test_given_secrets_replace_random_ones(tmp_path: Path) -> None:
    make_secrets(tmp_path)
    given = {"SEAL_KEY": 'a $(key) `with` "marks" of 32 characters', "REDIS_PASSWORD": "p'ss%s\\n"}
    assert make_secrets(tmp_path, **given) == given
    assert make_secrets(tmp_path) == given


@pytest.mark.parametrize("path", [DEVELOPMENT, PRODUCTION], ids=["development", "production"])
def test_no_secret_stands_in_a_compose_file(path: Path) -> None:
    secrets = {f"{PREFIX}{field.upper()}" for field in secret_fields()} - {f"{PREFIX}REDIS_URL"}
    for name, service in read(path)["services"].items():
        environment: dict[str, Any] = (service or {}).get("environment") or {}
        for variable, value in environment.items():
            assert variable not in secrets, name
            assert "@" not in str(value) or re.fullmatch(r"redis://\w+@redis:6379/0", str(value)), variable
            if name == "secrets":
                assert value == f"${{{variable}:-}}", "random without a value of the user"


@pytest.mark.parametrize("path", [DEVELOPMENT, PRODUCTION], ids=["development", "production"])
def test_variables_of_compose_are_settings(path: Path) -> None:
    fields = {name.upper() for name in Settings.model_fields}
    known = fields | {f"{name.upper()}{SUFFIX}" for name in secret_fields()}
    given = set(re.findall(rf"(?m)^ +{PREFIX}(\w+):", path.read_text("utf-8")))
    assert given
    assert given <= known


def test_each_secret_reaches_its_own_services() -> None:
    development, production = read(DEVELOPMENT), read(PRODUCTION)
    readers = {"seal-key": SERVICES, "redis-password": SERVICES | {"redis"}}
    for volume, services in readers.items():
        having = {name for name, each in development["services"].items() if volume in mounted(each)}
        assert having == services | {"secrets"}
        secret = volume.replace("-", "_")
        having = {
            name for name, each in production["services"].items() if secret in ((each or {}).get("secrets") or ())
        }
        assert having == services
    for name in SERVICES | {"redis"}:
        service = development["services"][name]
        assert service["depends_on"]["secrets"] == {"condition": "service_completed_successfully"}
        assert all(each.endswith(":ro") for each in service["volumes"] if each.startswith(tuple(readers)))
    making = development["services"]["secrets"]
    assert (making["network_mode"], making["cap_add"]) == ("none", ["CHOWN"])


def test_development_is_on_loopback_without_authentication() -> None:
    services = read(DEVELOPMENT)["services"]
    published = [port for service in services.values() for port in service.get("ports", ())]
    assert published
    assert all(port.startswith("127.0.0.1:") for port in published)


def test_production_needs_secrets_and_authentication() -> None:
    production = read(PRODUCTION)
    needed = {name for name, each in production["secrets"].items() if re.match(r"\$\{\w+_FILE:\?", each["file"])}
    assert needed == set(production["secrets"]) - {"metrics_key"} == {"seal_key", "redis_password"}
    assert production["services"]["secrets"] is None
    for name in SERVICES:
        service = production["services"][name]
        assert service["environment"][f"{PREFIX}REQUIRE_AUTHENTICATION"] == "true"
        assert "secrets" not in service["depends_on"]
        assert not {"seal-key", "redis-password"} & mounted(service)


def test_example_of_variables_is_complete() -> None:
    text = PRODUCTION.read_text("utf-8")
    asked = set(re.findall(r"\$\{(\w+)", text))
    example = (ROOT / "deploy/compose/env.example").read_text("utf-8")
    assert set(re.findall(r"(?m)^(\w+)=", example)) == asked
