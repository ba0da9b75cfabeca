"""Cost estimates against measured CPU over the whole space of requests: `python -m benchmarks.prices 10000 901`.

Requests with a stored result are not computed again (`request_search.py`), so that several runs can collect many. A
third argument is a limit in minutes. A fourth argument, `nested`, draws calibrations, assessments, comparisons and
claims. Without arguments the program reports all stored results of the present code.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import fields
from typing import Final

import numpy as np

from benchmarks.report import Reach, Section, Table
from benchmarks.request_search import SURELY_TOO_LONG, Outcome, code, search, stored_outcomes

SHORT_SECONDS: Final = 0.010
"""Costs below this many seconds need no accurate estimate."""
FACTOR: Final = 4.0
MOST_INLINE_SECONDS: Final = 0.020
LONG_SECONDS: Final = 8.0
REQUESTS, SEED = 100, 1
"""Requests in `make bench`: about a second of CPU each, nearly all of it in one of ten."""


def report(found: Sequence[Outcome]) -> Section:
    """Build the section of the report on how well estimated costs predict measured ones."""
    seeds = sorted({one.seed for one in found})
    named = f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {seeds[0]} to {seeds[-1]}"
    section = Section(f"Prices of {len(found)} requests over the whole space, {named}")
    priced = [one for one in found if one.status == "ok" and one.cpu >= SHORT_SECONDS]
    ratios = sorted(one.price / one.cpu for one in priced)
    good = sum(1 / FACTOR <= ratio <= FACTOR for ratio in ratios) / max(len(ratios), 1)
    inline = max((one.cpu for one in found if one.inline), default=0.0)
    quoting = max((one.quoting for one in found), default=0.0)
    longest = max((one.cpu for one in found), default=0.0)
    refused = [one for one in found if one.status == "over budget"]
    short = [one for one in refused if one.cpu < SURELY_TOO_LONG]
    defects = [one for one in found if one.is_defect]
    section.reaches = [
        Reach(f"prices within a factor 4 of CPU above 10 ms ({len(priced)})", ">= 99 %", f"{good:.1%}", good >= 0.99),
        _at_most("longest computation in the event loop", MOST_INLINE_SECONDS, inline),
        _at_most("longest pricing, with parsing", MOST_INLINE_SECONDS, quoting),
        _at_most("longest computation", LONG_SECONDS, longest),
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
    section.tables.append(_listed("Longest computations", sorted(found, key=lambda one: -one.cpu)[:10]))
    section.tables.append(_listed("Defects, and refusals of what is done within 15 s", [*defects, *short]))
    return section


def _at_most(what: str, limit: float, seconds: float) -> Reach:
    return Reach(what, f"<= {limit * 1e3:.0f} ms", f"{seconds * 1e3:.1f} ms", seconds <= limit)


def _listed(title: str, outcomes: Sequence[Outcome]) -> Table:
    names = [field.name for field in fields(Outcome) if field.name != "code"]
    return Table(title, names, [[getattr(one, name) for name in names] for one in outcomes])


def measure() -> Section:
    """Measure the estimates of costs for `make bench`, and return the section of the report."""
    return report(search(REQUESTS, SEED))


def main(arguments: list[str]) -> None:
    """Run the command with these arguments, as the module docstring describes it."""
    if arguments:
        count, seed = (int(each) for each in (*arguments[:2], str(SEED))[:2])
        found = search(count, seed, float((*arguments[2:3], "inf")[0]), "".join(arguments[3:4]))
    else:
        now = code()
        found = [one for one in stored_outcomes() if one.code == now]
    section = report(found)
    for reach in section.reaches:
        print(f"{reach.what}: {reach.measured} (reach {reach.reach})")
    print(section.markdown())


if __name__ == "__main__":
    main(sys.argv[1:])
