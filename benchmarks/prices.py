"""Prices against measured CPU, over the whole space of requests: `python -m benchmarks.prices 10000 1`.

Request number i of a seed is always the same one. Each is quoted and computed in a process of its own, forked from one
that has everything loaded, with the limits of the service: what it finds can be asked again by its number. Measured is
the first computation, with nothing kept from others.
"""

from __future__ import annotations

import importlib
import json
import math
import os
import pkgutil
import resource
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

import numpy as np
from pydantic import ValidationError

import service.privacy
from benchmarks.report import Reach, Section, Table
from service.computations.bounds import BOUNDS
from service.computations.curves import CURVES
from service.main import LOADED_AT_START
from service.privacy.errors import NumericalFailure, PrivacyComputationError
from service.settings import Settings
from tests.computations.request_space import any_request

COMPUTATIONS: Final = {computation.name: computation for computation in (BOUNDS, CURVES)}
LIMIT_SECONDS: Final = 30
MEMORY: Final = 2**30
SHORT_SECONDS: Final = 0.010
"""What takes less need not be priced well."""
FACTOR: Final = 4.0
MOST_INLINE_SECONDS: Final = 0.020
SURELY_TOO_LONG: Final = 15.0
REQUESTS, SEED = 100, 1
"""In `make bench`: about a second of CPU each, nearly all of it in one of ten."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a request. Costs in seconds; `status` is `ok`, `refused`, `invalid`, or a defect in words."""

    index: int
    status: str = "killed"
    price: float = 0.0
    refused: bool = False
    quoting: float = 0.0
    inline: bool = False
    engine: str = ""
    cpu: float = 0.0

    @property
    def is_defect(self) -> bool:
        """Whether the service would have failed: no answer within the limits, or one that is no JSON."""
        return self.status not in ("ok", "refused", "invalid", "over budget")


def measured(seed: int, index: int, budget: float) -> Outcome:
    """One request in a process of its own."""
    name, body = any_request(np.random.default_rng([seed, index]))
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _compute(name, body, budget, writing)
    os.close(writing)
    found: dict[str, Any] = {}
    with os.fdopen(reading) as lines:
        for line in lines:
            found.update(json.loads(line))
    _, _, usage = os.wait4(child, 0)
    if "status" not in found:  # ended by the kernel
        found["status"] = "over budget" if found.get("refused") else "killed"
        found["cpu"] = usage.ru_utime + usage.ru_stime
    return Outcome(index, **found)


def _compute(name: str, body: dict[str, Any], budget: float, writing: int) -> None:
    """In the child: says what it found line by line, so that what is known stays known when it is ended."""
    resource.setrlimit(resource.RLIMIT_CPU, (LIMIT_SECONDS, LIMIT_SECONDS + 1))
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))

    def say(**found: Any) -> None:
        os.write(writing, (json.dumps(found) + "\n").encode())

    computation, sent, started = COMPUTATIONS[name], json.dumps(body), time.process_time()
    try:
        request = computation.request_type.model_validate_json(sent)
        quote = computation.quote(request)  # type: ignore[arg-type]
        quoting, price = time.process_time() - started, quote.cost * 1e-6
        refused = quote.least * 1e-6 > budget
        say(price=price, refused=refused, quoting=quoting, inline=quote.inline, engine=quote.engine)
        if refused:  # of which nothing is asked but whether it is done within 15 s
            resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(SURELY_TOO_LONG) + 1, LIMIT_SECONDS + 1))
        started = time.process_time()
        written = computation.body(request, "", "")  # type: ignore[arg-type]
        seconds = time.process_time() - started
        status = "NaN" if b"NaN" in written else "over budget" if refused else "ok"
        say(status=status, cpu=seconds)
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


def search(count: int, seed: int) -> list[Outcome]:
    """All requests of a seed up to this number."""
    for name in (
        *LOADED_AT_START,
        *(each.name for each in pkgutil.walk_packages(service.privacy.__path__, "service.privacy.")),
    ):
        importlib.import_module(name)
    budget = Settings().max_cost * 1e-6
    found: list[Outcome] = []
    for index in range(count):
        found.append(measured(seed, index, budget))
        if found[-1].is_defect:
            print(f"request {index} of seed {seed}: {found[-1]}", file=sys.stderr)
    return found


def report(found: Sequence[Outcome], seed: int) -> Section:
    """What was found of them."""
    section = Section(f"Prices of {len(found)} requests over the whole space, seed {seed}")
    priced = [one for one in found if one.status == "ok" and one.cpu >= SHORT_SECONDS]
    ratios = sorted(one.price / one.cpu for one in priced)
    good = sum(1 / FACTOR <= ratio <= FACTOR for ratio in ratios) / max(len(ratios), 1)
    inline = max((one.cpu for one in found if one.inline), default=0.0)
    quoting = max(one.quoting for one in found)
    refused = [one for one in found if one.status == "over budget"]
    short = [one for one in refused if one.cpu < SURELY_TOO_LONG]
    defects = [one for one in found if one.is_defect]
    section.reaches = [
        Reach("prices within a factor 4 of CPU above 10 ms", ">= 99 %", f"{good:.1%}", good >= 0.99),
        _at_most("longest computation in the event loop", MOST_INLINE_SECONDS, inline),
        _at_most("longest pricing, with parsing", MOST_INLINE_SECONDS, quoting),
        Reach("refused for budget, though within 15 s", "0", f"{len(short)} of {len(refused)}", not short),
        Reach("requests without an answer or a refusal", "0", str(len(defects)), not defects),
    ]
    shares = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
    if ratios:
        row = [ratios[min(int(share * len(ratios)), len(ratios) - 1)] for share in shares]
        section.tables.append(Table("Price over CPU", [f"{share:.0%}" for share in shares], [row]))
    counts = Counter(one.status if one.status in ("ok", "refused", "invalid") else one.status[:20] for one in found)
    section.tables.append(Table("Outcomes", ("status", "requests"), counts.most_common()))
    worst = sorted(priced, key=lambda one: -abs(np.log(max(one.price, 1e-6) / one.cpu)))[:20]
    section.tables.append(_listed("Prices farthest from CPU", worst))
    section.tables.append(_listed("Defects, and refusals of what is done within 15 s", [*defects, *short]))
    return section


def _at_most(what: str, limit: float, seconds: float) -> Reach:
    return Reach(what, f"<= {limit * 1e3:.0f} ms", f"{seconds * 1e3:.1f} ms", seconds <= limit)


def _listed(title: str, outcomes: Sequence[Outcome]) -> Table:
    names = [field.name for field in fields(Outcome)]
    return Table(title, names, [[getattr(one, name) for name in names] for one in outcomes])


def measure() -> Section:
    """For `make bench`."""
    return report(search(REQUESTS, SEED), SEED)


if __name__ == "__main__":
    number, seed = (int(argument) for argument in (*sys.argv[1:], *map(str, (REQUESTS, SEED)[len(sys.argv) - 1 :])))
    section = report(search(number, seed), seed)
    for reach in section.reaches:
        print(f"{reach.what}: {reach.measured} (reach {reach.reach})")
    print(section.markdown())
