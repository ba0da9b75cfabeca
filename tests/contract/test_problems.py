"""The tree of errors is complete: every exception class of the service is listed and mapped to a problem."""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from pathlib import Path

import pytest

from api_schemas.fields import shape_of_field
from api_schemas.problems import Problem
from service import problems
from service.access.errors import KeyStoreError
from service.access.signing_keys import InvalidKeySet
from service.backup.archive import BackupError
from service.command.replaying import CannotReplay
from service.execution.errors import ClientGone
from service.execution.redis_client import RedisUnavailable
from service.execution.worker import ForeignError
from service.problems import (
    ERROR_PROBLEMS,
    HTTP_PROBLEMS,
    INTERNAL_ERROR,
    INVALID_PARAMETER,
    SERVER_PROBLEMS,
    definition_of,
)
from service.server.access import CannotAuthenticate
from service.settings import ConfigurationError
from service.signing.errors import NotSignable, NotVerified, SigningError, Unreadable, UnusableKeys
from service.telemetry.sockets import CannotListen

ROOT = Path(__file__).parents[2]
FILE = "service/problems.py"
OF_SIGNATURES = {CannotReplay, NotSignable, NotVerified, SigningError, Unreadable, UnusableKeys}
NO_ANSWERS = {
    BackupError,
    CannotAuthenticate,
    CannotListen,
    ConfigurationError,
    ForeignError,
    InvalidKeySet,
    KeyStoreError,
    RedisUnavailable,
    *OF_SIGNATURES,
}
"""Printed on standard error by commands; an unknown error of a library; caught in its package."""
UNANSWERED = {ClientGone, *NO_ANSWERS}
"""The client has disconnected, so that nobody receives a response."""


def raised() -> set[type[Exception]]:
    """Return the public exceptions that the packages define."""
    found: set[type[Exception]] = set()
    for path in sorted((ROOT / "service").rglob("*.py")):
        if re.search(r"(?m)^class [A-Z]\w*\(\w*(Exception|Error)\):", path.read_text("utf-8")):
            module = import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
            classes = (each for _, each in inspect.getmembers(module, inspect.isclass))
            found |= {each for each in classes if issubclass(each, Exception) and each.__module__ == module.__name__}
    return {error for error in found if not error.__name__.startswith("_")}


ERRORS = raised()
LEAVES = {error for error in ERRORS if not error.__subclasses__()} - UNANSWERED


@pytest.mark.parametrize("error", sorted(LEAVES, key=str))
def test_every_exception_has_a_problem(error: type[Exception]) -> None:
    assert definition_of(error.__new__(error)) is not INTERNAL_ERROR, (
        f"edit ERROR_PROBLEMS in {FILE}: no row for {error.__name__}"
    )


def test_documented_tree_matches_classes() -> None:
    drawn: dict[str, str] = {}
    above: list[str] = []
    for indent, name in re.findall(r"(?m)^( *)(?:- )?([A-Z]\w+)(?= {2,}|$)", problems.__doc__ or ""):
        depth = len(indent) // 2 + (name != "Exception")
        above[depth:] = [name]
        drawn[name] = above[depth - 1] if depth else ""
    bases = {error.__name__: error.__bases__[0].__name__ for error in ERRORS - NO_ANSWERS}
    assert drawn == {"Exception": "", **bases}, f"edit the tree at the top of {FILE}"


def test_every_problem_type_has_one_title_and_status() -> None:
    kinds = {
        *ERROR_PROBLEMS.values(),
        *HTTP_PROBLEMS.values(),
        *SERVER_PROBLEMS.values(),
        INVALID_PARAMETER,
        INTERNAL_ERROR,
    }
    assert len({(kind.type, kind.title, kind.status) for kind in kinds}) == len({kind.type for kind in kinds})
    published = set(shape_of_field(Problem.model_fields["type"]).choices)
    assert {kind.type for kind in kinds} | {"/problems/http-error"} == published, (
        "edit ProblemType in api_schemas/problems.py"
    )
    assert all(kind.guidance.endswith(".") for kind in kinds if kind.guidance)
