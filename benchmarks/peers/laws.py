"""Stated classes, selections, discrete laws and shuffled reports: every peer that offers a number, beside this project.

A peer runs in a process of its own. Times are CPU seconds from a description to the first number, cold on both sides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any, Final

from benchmarks.cases import UNRELATED, argument
from benchmarks.numbers.cold import ask_epsilon
from benchmarks.peers.our_laws import answer
from benchmarks.peers.process import Peer, peer
from benchmarks.report import Reach, Section, Table, milliseconds, times
from benchmarks.timing import cpu_seconds
from service.privacy.enclosure import Enclosure
from service.privacy.mechanisms.neighbours import NeighboringRelation
from tests.privacy.shuffled_script import script_delta

ROUNDS: Final = 5
STEPS: Final = 1000
UNCERTAIN: Final = 1e-9
"""Relative difference that is not called a side: what the peers lose by rounding on their grids."""
EPSILON: Final = "eps-1e-5"
POWER: Final = "gamma-0.001"
DELTA: Final = "delta-1"
LIBRARIES: Final = {
    "dp-accounting": "dp_accounting_laws",
    "riskcal": "riskcal_laws",
    "autodp": "autodp_laws",
}
"""Module of each peer."""
FIRST: Final = "dp-accounting"


@dataclass(frozen=True)
class Law:
    """A mechanism of a request, and the numbers that each peer offers for it.

    `within` is the reach of this project for one number in CPU seconds.
    """

    name: str
    spec: Mapping[str, Any]
    asked: Mapping[str, Sequence[str]]
    within: float
    relation: NeighboringRelation = "add_or_remove_one"


@dataclass(frozen=True)
class Beside:
    """A number of a peer, the enclosure of this project, and the CPU seconds of both."""

    peer: str
    law: Law
    name: str
    theirs: float
    their_seconds: float
    ours: Enclosure
    our_seconds: float

    @property
    def side(self) -> str:
        """Side of the enclosure on which the number lies: below the lower bound it promises too much privacy."""
        if self.theirs < self.ours.lower * (1 - UNCERTAIN):
            return f"**wrong**: {self.theirs / self.ours.lower - 1:+.1e} of the lower bound"
        if self.theirs > self.ours.upper * (1 + UNCERTAIN):
            return f"one-sided: {self.theirs / self.ours.upper - 1:+.1e} of the upper bound"
        return "inside"


def repeated(**mechanism: Any) -> dict[str, Any]:
    return {"type": "repeated", "mechanism": mechanism, "steps": STEPS}


def best_of(mechanism: Mapping[str, Any], **trials: Any) -> dict[str, Any]:
    return {"type": "selected", "mechanism": mechanism, "trials": trials, "released": "best"}


GAUSSIAN: Final = {"type": "gaussian", "noise_multiplier": 1.0}
TUNED: Final = {"type": "dpsgd", "noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000}
ORDERS: Final = {"type": "rdp", "orders": [2.0, 4.0, 8.0, 32.0], "epsilons": [0.1, 0.25, 0.6, 2.5]}
GUMBEL: Final = {"type": "report_noisy_max", "noise": "gumbel", "scale": 2.0, "sensitivity": 1.0}
SPARSE: Final = {"type": "sparse_vector", "threshold_epsilon": 0.5, "query_epsilon": 0.5, "positives": 1}
ANY: Final = {"type": "pure_dp", "epsilon": 1.0}
ACCOUNTED: Final = {"dp-accounting": (EPSILON, DELTA), "riskcal": (POWER,)}
EVERY: Final = {**ACCOUNTED, "autodp": (EPSILON, POWER)}
SELECTED: Final = {"dp-accounting": (EPSILON,)}
LAWS: Final = (
    Law("zCDP, rho 0.5", {"type": "zcdp", "rho": 0.5}, EVERY, 0.005),
    Law("zCDP, rho 0.01", {"type": "zcdp", "rho": 0.01}, EVERY, 0.005),
    Law("RDP, orders 2, 4, 8, 32", ORDERS, ACCOUNTED, 0.005),
    Law(
        "discrete Gaussian, sigma 50, 1000 times",
        repeated(type="discrete_gaussian", sigma=50.0, sensitivity=1),
        EVERY,
        0.1,
    ),
    Law(
        "discrete Laplace, scale 50, 1000 times",
        repeated(type="discrete_laplace", scale=50.0, sensitivity=1),
        ACCOUNTED,
        0.1,
    ),
    Law(
        "randomised response, 0.02, 2 values, 1000 times",
        repeated(type="randomized_response", epsilon=0.02, options=2),
        EVERY,
        0.1,
        "replace_one",
    ),
    Law(
        "randomised response, 0.1, 10 values, 1000 times",
        repeated(type="randomized_response", epsilon=0.1, options=10),
        ACCOUNTED,
        0.1,
        "replace_one",
    ),
    Law(
        "randomised response, 2, 4 values",
        {"type": "randomized_response", "epsilon": 2.0, "options": 4},
        ACCOUNTED,
        0.01,
        "replace_one",
    ),
    Law("exponential mechanism, scale 2", GUMBEL, {"autodp": (EPSILON, POWER)}, 0.01),
    Law("sparse vector, 0.5 and 0.5", SPARSE, {"autodp": (EPSILON, POWER)}, 0.01),
    Law("best of geometric 10, one Gaussian", best_of(GAUSSIAN, type="geometric", mean=10.0), SELECTED, 0.1),
    Law("best of Poisson 10, one Gaussian", best_of(GAUSSIAN, type="poisson", mean=10.0), SELECTED, 0.1),
    Law(
        "best of logarithmic 10, DP-SGD of 1000 steps",
        best_of(TUNED, type="truncated_negative_binomial", mean=10.0, shape=0.0),
        SELECTED,
        0.1,
    ),
)
SHUFFLED: Final = (
    ("any randomiser, 0.5, n 1000", 1000, {"type": "pure_dp", "epsilon": 0.5}),
    ("any randomiser, 1, n 10^4", 10_000, ANY),
    ("any randomiser, 1, n 10^9", 10**9, ANY),
    ("4-ary response, 0.5, n 1000", 1000, {"type": "randomized_response", "epsilon": 0.5, "options": 4}),
)
SHUFFLED_SECONDS: Final = 0.05
SCRIPTED: Final = ((2, 4, 1.508, 1.440), (300, 10, 0.5, 0.04))
"""Reports, values, local epsilon and epsilon, at which a published script is asked for delta."""


def measure() -> Section:
    section = Section("Laws")
    ask_epsilon(UNRELATED.curves())
    found: list[Beside] = []
    for name, module in LIBRARIES.items():
        with peer(module) as asked:
            for law in LAWS:
                found += _beside(name, asked, law, law.asked.get(name, ()))
    found.sort(key=lambda one: (LAWS.index(one.law), one.peer != FIRST))
    shuffled = [_shuffled(*each) for each in SHUFFLED]
    section.reaches += [*_reaches(found), _shuffled_reach(shuffled)]
    section.tables += [_table(found), _shuffled_table(shuffled), _script_table()]
    return section


def _beside(name: str, asked: Peer, law: Law, numbers: Sequence[str]) -> list[Beside]:
    """Ask a peer and this project in turn. A description is built anew for every number."""
    found: list[Beside] = []
    for number in numbers:
        asked.ask_for((law.spec,), (number,))  # First calls are not counted on either side.
        ours = _ours(law, number)
        theirs = [asked.ask_for((law.spec,), (number,)) for _ in range(ROUNDS)]
        seconds = [cpu_seconds(partial(_ours, law, number)) for _ in range(ROUNDS)]
        value = theirs[0].values[number]
        found.append(Beside(name, law, number, value, median(one.first for one in theirs), ours, median(seconds)))
    return found


def _ours(law: Law, number: str) -> Enclosure:
    return answer(law.spec, law.relation, number.partition("-")[0], argument(number))


def _table(found: Sequence[Beside]) -> Table:
    rows = [
        (
            *(one.law.name, one.name, one.peer, f"{one.theirs:.10g}"),
            *(f"[{one.ours.lower:.10g}, {one.ours.upper:.10g}]", one.side),
            *(one.their_seconds * 1e3, one.our_seconds * 1e3, times(one.their_seconds / one.our_seconds)),
        )
        for one in found
    ]
    return Table(
        "Laws: numbers of peers beside our enclosures (CPU ms from the description to the number, medians, cold)",
        ("law", "asked", "peer", "theirs", "ours", "theirs lies", "their ms", "our ms", "ratio"),
        rows,
        (
            "One-sided: an upper bound that is looser than ours. Wrong: below our lower bound, which an attack "
            f"attains. Differences within {UNCERTAIN:g} are called inside. dp-accounting: loss distributions on a grid "
            "of 1e-4, and its Renyi accountant for classes and selections. riskcal: power from classes and from these "
            "distributions. autodp: Renyi curves; none of them has shuffled reports. The neighbouring relation of "
            "randomised response is replace_one. "
            "A ratio below 1: the peer evaluates a formula of few orders, which bounds from one side.",
        ),
    )


def _reaches(found: Sequence[Beside]) -> list[Reach]:
    slow = sorted(
        {(one.law.name, one.name): one for one in found}.values(), key=lambda one: one.our_seconds / one.law.within
    )
    last = slow[-1]
    within = sum(one.our_seconds <= one.law.within for one in slow)
    loose = [one for one in found if one.side != "inside"]
    wrong = [one for one in loose if one.theirs < one.ours.lower]
    return [
        Reach(
            "laws beside peers: each number, cold",
            "classes 5 ms, 1000 discrete steps and selections 100 ms, others 10 ms",
            f"{within} of {len(slow)} within; slowest for its reach: {last.name} of {last.law.name}, "
            f"{milliseconds(last.our_seconds)}",
            within == len(slow),
        ),
        Reach(
            "laws beside peers: upper bounds of peers",
            "none below our upper bound, unless it is below our lower bound",
            f"{len(found) - len(loose)} inside, {len(loose) - len(wrong)} looser than ours, {len(wrong)} wrong",
            all(one.theirs >= one.ours.upper * (1 - UNCERTAIN) for one in found if one not in wrong),
        ),
    ]


def _shuffled(name: str, reports: int, randomizer: Mapping[str, Any]) -> tuple[str, Enclosure, float]:
    """Return `name`, epsilon at delta 1e-6 of `reports` shuffled reports of a randomiser, and its CPU seconds."""
    spec = {"type": "shuffled_reports", "reports": reports, "randomizer": randomizer}
    found = answer(spec, "replace_one", "eps", 1e-6)
    seconds = [cpu_seconds(lambda: answer(spec, "replace_one", "eps", 1e-6)) for _ in range(ROUNDS)]
    return name, found, median(seconds)


def _shuffled_reach(found: Sequence[tuple[str, Enclosure, float]]) -> Reach:
    longest = max(seconds for *_, seconds in found)
    return Reach(
        "epsilon(1e-6) of shuffled reports, n to 1e9, cold",
        f"<= {milliseconds(SHUFFLED_SECONDS)}",
        milliseconds(longest),
        longest <= SHUFFLED_SECONDS,
    )


def _shuffled_table(found: Sequence[tuple[str, Enclosure, float]]) -> Table:
    rows = [
        (name, f"[{one.lower:.10g}, {one.upper:.10g}]", one.upper / one.lower - 1, seconds * 1e3)
        for name, one, seconds in found
    ]
    return Table(
        "Shuffled reports: epsilon at delta 1e-6 (no peer offers a number)",
        ("reports", "ours", "width", "CPU ms"),
        rows,
    )


def _script_table() -> Table:
    rows: list[tuple[Any, ...]] = []
    for reports, options, local, epsilon in SCRIPTED:
        randomizer = {"type": "randomized_response", "epsilon": local, "options": options}
        spec = {"type": "shuffled_reports", "reports": reports, "randomizer": randomizer}
        ours = answer(spec, "replace_one", "delta", epsilon)
        theirs = script_delta(reports, options, local, epsilon)
        side = "**wrong**" if theirs < ours.lower else "one-sided" if theirs > ours.upper else "inside"
        described = f"{reports} reports, {options} values, local epsilon {local:g}: delta({epsilon:g})"
        rows.append((described, f"{theirs:.6g}", f"[{ours.lower:.6g}, {ours.upper:.6g}]", side))
    return Table(
        "Shuffled reports: a published script for k-ary response (wangsw/PrivacyAmplification, its formula)",
        ("asked", "theirs", "ours", "theirs lies"),
        rows,
    )
