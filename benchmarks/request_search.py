"""Random requests, each computed by itself and stored: a search that resumes where it stopped.

Request number i of a seed never changes. Each request is quoted and computed in a process of its own, forked from a
process with everything loaded, with the limits of the service. A finding can be repeated by its number. Only first
computations are measured, without cached values. `build/prices/SEED.jsonl` has one line for each request, with the
digest of the code that computed it. Other code computes the request again.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import math
import os
import pkgutil
import resource
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Final

import numpy as np
from pydantic import ValidationError

import service
import service.privacy
from service.preloaded import NUMERIC_LIBRARIES
from service.privacy.errors import NumericalFailure, PrivacyComputationError
from service.privacy.numerics.work import at_most
from service.resources.catalogue import resource as resource_called
from service.settings import Settings
from tests.resources.nested_space import any_nested
from tests.resources.request_space import any_request

DRAWS: Final = {"": any_request, "nested": any_nested}
"""Requests for bounds and curves; and resources that evaluate bounds many times."""
FOLDER: Final = Path(__file__).parent.parent / "build" / "prices"
LIMIT_SECONDS: Final = 30
MEMORY: Final = 2**30
SURELY_TOO_LONG: Final = 15.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of computing one random request.

    Costs are in seconds; `status` is `ok`, `refused`, `invalid`, or a defect in words.

    `drawn` names the space of requests. `work` is the counted work, in seconds that the counts stand for. `second`
    tells whether a second engine ran. `code` is a digest of the code that computed it.
    """

    seed: int
    index: int
    drawn: str = ""
    status: str = "killed"
    price: float = 0.0
    refused: bool = False
    quoting: float = 0.0
    inline: bool = False
    engine: str = ""
    asked: str = ""
    cpu: float = 0.0
    work: float = 0.0
    second: bool = False
    code: str = ""

    @property
    def is_defect(self) -> bool:
        """Whether the service would have failed: no answer within the limits, or invalid JSON."""
        return self.status not in ("ok", "refused", "invalid", "over budget")


def code() -> str:
    """Return a digest of the source code of the service."""
    root = Path(service.__file__ or ".").parent
    found = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        found.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return found.hexdigest()[:12]


def stored_outcomes(seed: int | None = None, drawn: str = "") -> Iterator[Outcome]:
    """Yield the stored outcomes of random requests of one seed or of all seeds.

    The last line of each request counts.
    """
    found: dict[tuple[int, int, str], Outcome] = {}
    for path in sorted(FOLDER.glob(f"{drawn}{'[0-9]*' if seed is None else seed}.jsonl")):
        for line in path.read_text().splitlines():
            one = Outcome(**json.loads(line))
            found[one.seed, one.index, one.code] = one
    yield from found.values()


def search(count: int, seed: int, minutes: float = math.inf, drawn: str = "") -> list[Outcome]:
    """Compute the first `count` random requests of a seed, except those with a stored outcome of the present code.

    The search ends after `minutes`. `drawn` names the space of requests.
    """
    now, until = code(), time.monotonic() + 60 * minutes
    found = {one.index: one for one in stored_outcomes(seed, drawn) if one.code == now and one.index < count}
    left = [index for index in range(count) if index not in found]
    if left:
        _load()
    FOLDER.mkdir(parents=True, exist_ok=True)
    budget = Settings().max_cost * 1e-6
    with (FOLDER / f"{drawn}{seed}.jsonl").open("a") as lines:
        for index in left:
            if time.monotonic() > until:
                break
            found[index] = one = measured(seed, index, budget, now, drawn)
            lines.write(json.dumps(asdict(one)) + "\n")
            lines.flush()
            if one.is_defect:
                print(f"request {index} of seed {seed}: {one}", file=sys.stderr)
    return [found[index] for index in sorted(found)]


def _load() -> None:
    """Import the modules that every worker process of the service has loaded."""
    every = (each.name for each in pkgutil.walk_packages(service.privacy.__path__, "service.privacy."))
    for name in (*NUMERIC_LIBRARIES, *every):
        importlib.import_module(name)


def measured(seed: int, index: int, budget: float, by: str = "", drawn: str = "") -> Outcome:
    """Compute one random request in a process of its own, and return its outcome.

    `seed` and `index` determine the request, and `budget` is the limit in seconds.
    """
    name, body = DRAWS[drawn](np.random.default_rng([seed, index]))
    reading, writing = os.pipe()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _compute(name, body, budget, writing)
    os.close(writing)
    found: dict[str, Any] = {"asked": _described(name, body)}
    with os.fdopen(reading) as lines:
        for line in lines:
            found.update(json.loads(line))
    _, _, usage = os.wait4(child, 0)
    if "status" not in found:  # The kernel ended it.
        found["status"] = "over budget" if found.get("refused") else "killed"
        found["cpu"] = usage.ru_utime + usage.ru_stime
    known = {field.name for field in fields(Outcome)}
    return Outcome(seed, index, drawn, code=by, **{name: value for name, value in found.items() if name in known})


def _described(name: str, body: dict[str, Any]) -> str:
    """Return a request in short: the kind of mechanism, the attacker, the method and the questions."""
    if name not in ("bounds", "curves"):
        return name
    mechanism = body["mechanism"]["type"]
    if name == "curves":
        asked = f"{body['grid']['count']} points"
        return f"{mechanism}, {body['threat_models'][0]['type']}, {body['methods'][0]}: curves, {asked}"
    kinds = [question["type"] for question in body["questions"]]
    asked = ", ".join(dict.fromkeys(kinds)) if len(kinds) < 9 else f"{len(kinds)} x {kinds[0]}"
    threat = body.get("threat_model", {"type": "worst_case"})["type"]
    return f"{mechanism}, {threat}, {body.get('method', 'auto')}: {asked}"


def _compute(name: str, body: dict[str, Any], budget: float, writing: int) -> None:
    """Compute a request in the child process, and write results to the file descriptor `writing`.

    Results are written line by line, so that they survive if the child is killed.
    """
    resource.setrlimit(resource.RLIMIT_CPU, (LIMIT_SECONDS, LIMIT_SECONDS + 1))
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))

    def say(**found: Any) -> None:
        os.write(writing, (json.dumps(found) + "\n").encode())

    computation, sent, started = resource_called(name), json.dumps(body), time.process_time()
    with at_most(math.inf) as work:
        try:
            request = computation.request_type.model_validate_json(sent)
            quote = computation.quote(request)
            quoting, price = time.process_time() - started, quote.cost * 1e-6
            refused = quote.minimum * 1e-6 > budget
            say(price=price, refused=refused, quoting=quoting, inline=quote.inline, engine=quote.engine)
            if refused:  # The only requirement is an answer within 15 s.
                resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(SURELY_TOO_LONG) + 1, LIMIT_SECONDS + 1))
            started = time.process_time()
            written = computation.body(request, "", "")
            seconds = time.process_time() - started
            status = "NaN" if b"NaN" in written else "over budget" if refused else "ok"
            say(status=status, cpu=seconds, work=work.done * 1e-6, second=b"also asked" in written)
        except ValidationError:
            say(status="invalid")
        except NumericalFailure as failure:
            say(status=f"failure: {failure}"[:100], cpu=time.process_time() - started)
        except PrivacyComputationError:
            say(status="refused", cpu=time.process_time() - started)
        except BaseException as error:  # noqa: BLE001 - every defect is a finding
            say(status=f"{type(error).__name__}: {error}"[:100], cpu=time.process_time() - started)
        finally:
            os._exit(0)
