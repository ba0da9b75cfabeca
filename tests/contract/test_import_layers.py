"""Packages import only downward. Imports are read from the source, so that imports inside functions count too."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# Packages that a package may import of the project, in addition to itself. The most specific entry decides.
MAY_IMPORT: dict[str, set[str]] = {
    "api_schemas": set(),
    "service.privacy.numerics": set(),
    "service.privacy": {"service.privacy.numerics"},
    "service.importers": {"api_schemas"},
    "service.rendering.numbers": {"api_schemas"},
    "service.rendering.sentences": {"api_schemas", "service.rendering.numbers"},
    "service.rendering.documents": {"api_schemas", "service.rendering.numbers", "service.rendering.sentences"},
    "service.rendering.tables": {"api_schemas", "service.rendering.numbers"},
    "service.resources": {
        "api_schemas",
        "privacy_bounds.checker",
        "service.importers",
        "service.privacy",
        "service.rendering.numbers",
        "service.rendering.sentences",
        "service.rendering.tables.sweeps",
    },
    "service.rendering": {"api_schemas", "service.resources"},
    "service.parsing": set(),
    "service.telemetry": set(),
    "service.access": {"service.ed25519_points"},
    "service.execution": {
        "api_schemas",
        "service.telemetry",
        "service.resources.abstract",
        "service.resources.deadlines",
        "service.resources.digest",
        "service.resources.disputed",
        "service.resources.violations",
        "service.parsing",
    },
    "service.jobs": {
        "api_schemas",
        "service.resources.abstract",
        "service.resources.catalogue",
        "service.resources.digest",
        "service.resources.disputed",
        "service.resources.violations",
        "service.execution",
        "service.privacy.errors",
        "service.settings",
        "service.telemetry",
        "service.parsing",
    },
    "service.bibliography": {"service.engine_version"},
    "service.signing": {"api_schemas.signatures", "service.ed25519_points", "service.resources.digest"},
    "service.api": {
        "api_schemas",
        "service.bibliography",
        "service.access",
        "service.jobs",
        "service.resources",
        "service.engine_version",
        "service.execution",
        "service.parsing",
        "service.privacy.errors",
        "service.problems",
        "service.settings",
        "service.rendering",
        "service.self_test",
        "service.signing",
        "service.telemetry",
    },
    "service.engine_version": set(),
    "service.problems": {
        "api_schemas",
        "service.access.errors",
        "service.resources.array_archive",
        "service.execution.errors",
        "service.jobs.errors",
        "service.parsing",
        "service.privacy.errors",
    },
    "service.self_test": {"api_schemas", "service.resources.catalogue", "service.engine_version"},
    "service.settings": {"service.access.addresses", "service.access.algorithms", "service.secret_files"},
    "service.secret_files": set(),
    "service.ed25519_points": set(),
    "service.main": {"api_schemas", "service"},
    "service.cli": {"service.command"},
    "service.command": {"api_schemas", "privacy_bounds.command", "privacy_bounds.runs", "service"},
    "service.server": {"api_schemas", "service"},
    "service.backup": {
        "service.access.errors",
        "service.access.key_store",
        "service.engine_version",
        "service.execution.quarantine",
        "service.jobs.errors",
        "service.jobs.local",
    },
    "service.doctor": {
        "api_schemas",
        "service.access",
        "service.engine_version",
        "service.execution",
        "service.jobs",
        "service.rendering.chart_images",
        "service.secret_files",
        "service.self_test",
        "service.server.access",
        "service.settings",
        "service.signing",
    },
    "service.mcp": {"api_schemas", "service"},
    "privacy_bounds": {"api_schemas", "service.command.in_process"},
    "privacy_bounds.checker": set(),
    "service": set(),
}

# Libraries that a package may import, if it may not import all of them.
FOREIGN: dict[str, set[str]] = {
    "api_schemas": {"annotated_types", "pydantic", "pydantic_core", "typing_extensions"},
    "service.privacy": {"flint", "mpmath", "numpy", "scipy", "typing_extensions"},
    "service.privacy.numerics": {"flint", "mpmath", "numpy", "scipy", "typing_extensions"},
    "service.resources": {"numpy", "pydantic", "pydantic_core", "rfc8785"},
    "service.importers": {"pydantic", "pydantic_core"},
    "service.signing": {"cryptography", "pydantic_core"},
    "service.rendering.numbers": set(),
    "service.rendering.sentences": {"pydantic"},
    "service.rendering.documents": {"pydantic", "yaml"},
    "service.rendering.tables": {"rich"},
    "service.rendering": {"jinja2", "markupsafe", "pydantic", "vl_convert"},
    "privacy_bounds.checker": {"flint"},
    "privacy_bounds": {"httpx2", "pydantic", "stamina", "typing_extensions"},
}
STANDARD_LIBRARY_OF_THE_CORE = {
    "__future__",
    "abc",
    "bisect",
    "collections",
    "contextlib",
    "contextvars",
    "dataclasses",
    "decimal",
    "enum",
    "fractions",
    "functools",
    "heapq",
    "itertools",
    "math",
    "numbers",
    "operator",
    "pkgutil",
    "sys",
    "types",
    "typing",
    "weakref",
}


# The packages of the core. Each imports only itself and the packages above it. The most specific entry decides.
_CORE = """
    errors limit numerics enclosure losses trade_off.enclosed trade_off.bounded_tests trade_off.abstract
    trade_off.self_inverse trade_off.approximate_dp
    trade_off.shifted trade_off trade_off.combinators trade_off.sampling trade_off.shuffled
    trade_off.chi_square trade_off.pair
    trade_off.selection trade_off.mixture trade_off.pointwise_max_pair mechanisms composition.planning.accuracy
    composition.planning.options composition.planning.cost_model
    composition.planning.plan composition.inversion.readings composition.summands composition.exact_sums.abstract
    composition.exact_sums.laplace_reach composition.exact_sums.laplace_sums composition.exact_sums.laplace_curves
    composition.planning.parts composition.inversion.deformed composition.inversion composition.lattice
    composition.short_runs composition.ground_truth composition.exact_sums composition.comparison
    composition.adaptive_exponential composition.planning conversions threat_models questions audits pmp calibration
"""
CORE = _CORE.split()
MOST_FILES = 20
ROOMS_OF_LAWS = ("mechanisms", "questions", "composition/summands")
"""Packages with a file for each law or question. A catalogue lists the files, and the package grows with it."""
MOST_LAWS = 40


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {
    module_name(path): path
    for room in ("api_schemas", "privacy_bounds", "service")
    for path in sorted((ROOT / room).rglob("*.py"))
}


def within(module: str, room: str) -> bool:
    return module == room or module.startswith(room + ".")


def room_of(module: str) -> str:
    return max((room for room in MAY_IMPORT if within(module, room)), key=len)


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            assert node.module
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield whole if whole in MODULES else node.module


def ours(module: str) -> bool:
    return module.split(".", maxsplit=1)[0] in ("api_schemas", "privacy_bounds", "service", "tests", "benchmarks")


@pytest.mark.parametrize("module", MODULES)
def test_imports_point_downward(module: str) -> None:
    room = room_of(module)
    allowed = {room, *MAY_IMPORT[room]}
    wrong = [
        name for name in imports(MODULES[module]) if ours(name) and not any(within(name, other) for other in allowed)
    ]
    assert wrong == []


@pytest.mark.parametrize("module", [name for name in MODULES if room_of(name) in FOREIGN])
def test_packages_import_only_allowed_libraries(module: str) -> None:
    room = room_of(module)
    foreign = {name.split(".")[0] for name in imports(MODULES[module]) if not ours(name)}
    standard = set(sys.stdlib_module_names)
    assert foreign - standard <= FOREIGN[room]
    if within(room, "service.privacy"):
        assert foreign & standard <= STANDARD_LIBRARY_OF_THE_CORE


def place_in_core(module: str) -> int:
    inner = module.removeprefix("service.privacy.")
    return CORE.index(max((place for place in CORE if within(inner, place)), key=len))


IMPORTS_OF_THE_CORE = {
    module: {name for name in imports(path) if within(name, "service.privacy") and name in MODULES} - {module}
    for module, path in MODULES.items()
    if within(module, "service.privacy") and path.name != "__init__.py"
}


@pytest.mark.parametrize("module", IMPORTS_OF_THE_CORE)
def test_packages_of_core_import_only_earlier_ones(module: str) -> None:
    """Packages of the core import only packages that come earlier in their order.

    Imports in functions and for type checking count too, because a reader has to read those packages as well.
    """
    own = place_in_core(module)
    assert [name for name in IMPORTS_OF_THE_CORE[module] if place_in_core(name) > own] == []


def test_core_has_no_import_cycle() -> None:
    left = dict(IMPORTS_OF_THE_CORE)
    while free := {module for module, names in left.items() if not names & left.keys()}:
        left = {module: names for module, names in left.items() if module not in free}
    assert left == {}


def test_every_listed_package_of_core_exists() -> None:
    assert [place for place in CORE if f"service.privacy.{place}" not in MODULES] == []


def test_packages_of_core_are_small() -> None:
    core = ROOT / "service" / "privacy"
    rooms = [folder for folder in (core, *core.rglob("*")) if folder.is_dir()]
    files = {room: len([file for file in room.glob("*.py") if file.name != "__init__.py"]) for room in rooms}
    most = {core / name: MOST_LAWS for name in ROOMS_OF_LAWS}
    crowded = {str(room): count for room, count in files.items() if count > most.get(room, MOST_FILES)}
    assert crowded == {}, f"move files of these folders into folders inside: {crowded}"


def test_every_package_has_a_layer() -> None:
    packages = {module for module, path in MODULES.items() if path.name == "__init__.py" and module.count(".") == 1}
    assert packages <= set(MAY_IMPORT)


def test_no_module_imports_pickle() -> None:
    for module, path in MODULES.items():
        assert "pickle" not in set(imports(path)), module


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        ("import api_schemas.bounds, api_schemas.catalogue, api_schemas.problems", {"numpy", "fastapi", "service"}),
        (
            "import service.privacy.threat_models.worst_case",
            {"pydantic", "fastapi", "structlog", "redis", "api_schemas", "scipy.optimize", "scipy.fft", "mpmath"},
        ),
        (
            "import importlib, pkgutil, service.privacy as core\n"
            "for each in pkgutil.walk_packages(core.__path__, 'service.privacy.'): importlib.import_module(each.name)",
            {"scipy.optimize", "scipy.linalg", "scipy.fft", "mpmath"},
        ),
        ("import service.resources.bounds", {"fastapi", "starlette", "structlog", "redis"}),
        ("import privacy_bounds", {"numpy", "scipy", "fastapi", "service"}),
        ("import privacy_bounds, service.command.in_process", {"fastapi", "starlette", "structlog", "redis"}),
        (
            "import service.main",
            {"service.resources.bounds", "service.privacy.mechanisms", "scipy", "mpmath", "flint"},
        ),
        (
            "from service.main import create_app; from service.settings import Settings; create_app(Settings())",
            {"cryptography", "jwt", "mpmath", "scipy.optimize", "scipy.fft", "vl_convert"},
        ),
    ],
)
def test_import_does_not_load_expensive_modules(statement: str, absent: set[str]) -> None:
    loaded = subprocess.run(
        [sys.executable, "-c", f"{statement}\nimport sys; print(*sys.modules)"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    assert absent.isdisjoint(loaded.stdout.split())
