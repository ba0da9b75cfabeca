"""Answers, by two digests each, and the file with the answers of one engine version on one platform."""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
from collections.abc import Iterator
from dataclasses import astuple, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
from pydantic import ValidationError

from service.importers.catalogue import validate_with_imports
from service.parsing import InvalidRequest, RequestBodyError, parse_request
from service.privacy.errors import PrivacyComputationError
from service.problems import problem_of
from service.resources.catalogue import resource
from tests.frozen.space import request

FILE: Final = Path(__file__).with_name("answers.json")
DIGEST: Final = "sha256:" + "0" * 64
ENGINE: Final = "frozen"
"""Digest and engine version of every answer, so that the bytes depend on neither."""
WORDS: Final = ("evidence", "method")
COUNTS: Final = ("readings",)
"""Fields that count evaluations. They depend on how a number was computed."""
DEFECT: Final = "500"
"""Status of an exception that no request should raise."""
MOST_BOUNDS: Final = 12
"""Number of stored enclosures of one answer, evenly spread over it."""

Pair: TypeAlias = tuple[float, float]
"""Lower and upper bound of an enclosure."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Digests and enclosures of the answer to a request.

    `asked` is the digest of the request. `bytes` is the digest of the answer without its digest and engine version, or
    of the problem. `numbers` is the digest of all numbers with their evidence and method, or of the problem. `problem`
    holds status and type of a rejection, else "". `bounds` lists enclosures in the order of the answer, not all of a
    long answer.
    """

    number: int
    resource: str
    asked: str
    bytes: str
    numbers: str
    problem: str = ""
    bounds: tuple[Pair, ...] = ()


def response(name: str, body: bytes) -> bytes:
    """Compute the response of a resource as the service does.

    Raise the errors that `problem_of` turns into a problem.
    """
    computation = resource(name)
    sent = parse_request(computation.request_type, body, validate_with_imports)
    computation.quote(sent)
    return computation.body(sent, DIGEST, ENGINE)


def answer(number: int) -> Answer:
    """Compute the answer to the request with this number as the service does.

    For an unexpected error, keep its name.
    """
    name, body = request(number)
    asked = _digest(body.decode())
    try:
        written = response(name, body)
    except (RequestBodyError, PrivacyComputationError, ValidationError) as error:
        refused = problem_of(
            InvalidRequest(error) if isinstance(error, ValidationError) else error, instance="", request_id=""
        )
        return _refusal(number, name, asked, f"{refused.status} {refused.type}")
    except Exception as error:  # noqa: BLE001 - a defect of one request does not hide the others
        return _refusal(number, name, asked, f"{DEFECT} {type(error).__name__}")
    read = json.loads(written)
    pairs = list(_pairs(read))
    thinned = tuple(pairs[:: max(1, math.ceil(len(pairs) / MOST_BOUNDS))])
    return Answer(number, name, asked, _digest(written.decode()), _digest("\n".join(_numbers(read))), bounds=thinned)


def _refusal(number: int, name: str, asked: str, problem: str) -> Answer:
    return Answer(number, name, asked, _digest(problem), _digest(problem), problem)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _numbers(value: Any, name: str = "") -> Iterator[str]:
    """Yield every number of an answer with its name, evidence and method."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key not in COUNTS:
                yield from _numbers(inner, key)
    elif isinstance(value, list):
        for inner in value:
            yield from _numbers(inner, name)
    elif _is_number(value) or name in WORDS:
        yield f"{name} {value!r}"


def _pairs(value: Any) -> Iterator[Pair]:
    if isinstance(value, list):
        for inner in value:
            yield from _pairs(inner)
    elif isinstance(value, dict):
        for end in ("", "_log10"):
            lower: Any = value.get(f"lower{end}")
            upper: Any = value.get(f"upper{end}")
            columns = zip(lower, upper, strict=True) if isinstance(lower, list) else ((lower, upper),)
            yield from ((float(low), float(high)) for low, high in columns if _is_number(low) and _is_number(high))
        for inner in value.values():
            yield from _pairs(inner)


def _is_number(value: Any) -> bool:
    """Return whether a value of an answer is a number. Infinities are strings in JSON."""
    return (isinstance(value, int | float) and not isinstance(value, bool)) or value in ("Infinity", "-Infinity")


def present_platform() -> dict[str, str]:
    """Return what determines the last digits: processor, instruction sets, libraries."""
    information = Path("/proc/cpuinfo")
    lines = information.read_text().splitlines() if information.exists() else [f"model name: {platform.processor()}"]
    facts = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in reversed(lines))}
    kinds = ("vendor_id", "cpu family", "model", "model name")
    instructions: Any = np.show_config(mode="dicts")["SIMD Extensions"]
    return {
        "machine": f"{platform.system()} {platform.machine()}, {' '.join(platform.libc_ver())}",
        "processor": ", ".join(facts[kind] for kind in kinds if kind in facts),
        "instructions": " ".join([*instructions["baseline"], *instructions["found"]]),
        "threads": os.environ.get("OPENBLAS_NUM_THREADS", "any"),
        "python": ".".join(platform.python_version_tuple()[:2]),
        **{package: version(package) for package in ("numpy", "scipy", "mpmath")},
    }


@dataclass(frozen=True, slots=True)
class FrozenAnswers:
    """Content of the file of stored answers.

    `skipped` lists the numbers of requests that take too long, and are not computed.
    """

    platform: dict[str, str] = field(default_factory=dict[str, str])
    engine_version: str = ""
    skipped: tuple[int, ...] = ()
    answers: tuple[Answer, ...] = ()

    def write(self) -> None:
        """Write the file of stored answers, one line for each answer."""
        head = {"platform": self.platform, "engine_version": self.engine_version, "skipped": self.skipped}
        lines = ",\n".join(json.dumps(astuple(one), separators=(",", ":")) for one in self.answers)
        FILE.write_text(f'{json.dumps(head)[:-1]},\n"answers": [\n{lines}\n]}}\n', "utf-8")


def read_frozen_answers() -> FrozenAnswers:
    """Read the content of the file of stored answers."""
    read = json.loads(FILE.read_text("utf-8"))
    answers = tuple(
        Answer(*named, problem=problem, bounds=tuple((low, high) for low, high in bounds))
        for *named, problem, bounds in read["answers"]
    )
    return FrozenAnswers(read["platform"], read["engine_version"], tuple(read["skipped"]), answers)
