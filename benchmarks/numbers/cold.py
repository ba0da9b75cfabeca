"""Cold answers, and follow-up questions on the same mechanism.

Cold: the curves are new; modules are imported, and one unrelated run was evaluated before. Follow-up: only gamma(1e-3)
was evaluated on the same curves before.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from typing import Any, Final

import numpy as np
from pydantic import TypeAdapter

from api_schemas.questions import GdpMuQuestion, QuestionSpec, TradeOffQuestion
from benchmarks.cases import COMPOSED, UNRELATED, Run
from benchmarks.report import Reach, Section, Table, milliseconds
from benchmarks.timing import cpu_seconds, median_cpu_seconds_after
from service.privacy.questions import gaussian_dp, profile, reconstruction
from service.privacy.trade_off.pair import TradeOffPair
from service.resources.readings import READINGS

ROUNDS: Final = 15
COLD_SECONDS: Final = 0.010
FURTHER_SECONDS: Final = 0.002
GDP_MU_SECONDS: Final = {"gdp_mu, add": 0.015, "gdp_mu, both": 0.030}
"""A supremum over a curve, with reaches of its own."""

FURTHER: Final[dict[str, dict[str, Any]]] = {
    "gamma(1e-6)": {"type": "reconstruction", "baseline_success": 1e-6},
    "trade_off, 1 point": {"type": "trade_off", "false_positive_rates": [1e-4]},
    "epsilon(1e-5)": {"type": "epsilon", "delta": 1e-5},
    "delta(1)": {"type": "delta", "epsilon": 1.0},
    "advantage": {"type": "advantage"},
    "accuracy, prior 1/2": {"type": "attack_accuracy", "prior": 0.5},
    "accuracy, FPR 1e-3": {"type": "attack_accuracy", "prior": 0.1, "false_positive_rate": 1e-3},
    "PPV, FPR 1e-3": {"type": "positive_predictive_value", "prior": 0.1, "false_positive_rate": 1e-3},
    "NPV, FPR 1e-3": {"type": "negative_predictive_value", "prior": 0.1, "false_positive_rate": 1e-3},
    "advantage over prior": {"type": "advantage_over_prior", "prior": 0.1},
    "deletion capacity": {"type": "deletion_capacity", "prior": 0.1, "confidence": 0.9},
    "gdp_mu, add": {"type": "gdp_mu", "direction": "add"},
    "gdp_mu, both": {"type": "gdp_mu"},
    "gamma(1e-3), both": {"type": "reconstruction", "baseline_success": 1e-3, "direction": "both"},
}


def measure() -> Section:
    section = Section("Cold answers")
    ask_gamma(UNRELATED.curves())
    ask_epsilon(UNRELATED.curves())
    gammas: dict[Run, list[float]] = {run: [] for run in COMPOSED}
    epsilons: dict[Run, list[float]] = {run: [] for run in COMPOSED}
    for _ in range(ROUNDS):  # Runs take turns, so that other load of the machine does not disturb a single run.
        for run in COMPOSED:
            gammas[run].append(cpu_seconds(lambda run=run: ask_gamma(run.curves())))
            epsilons[run].append(cpu_seconds(lambda run=run: ask_epsilon(run.curves())))
    section.tables.append(_cold_table(gammas, epsilons))
    for name, found in (("gamma(1e-3)", gammas), ("epsilon(1e-5), both directions", epsilons)):
        middle = {run: median(seconds) for run, seconds in found.items()}
        measured = ", ".join(f"{run.name} {milliseconds(seconds)}" for run, seconds in middle.items())
        met = max(middle.values()) <= COLD_SECONDS
        section.reaches.append(Reach(f"certified {name}, cold", "<= 10 ms each", measured, met))
    further = {name: [_further(run, wire) for run in COMPOSED] for name, wire in FURTHER.items()}
    section.tables.append(
        Table(
            "Each further question on the same mechanism (CPU ms, median)",
            ("question", *(run.name for run in COMPOSED)),
            [(name, *(f"{value * 1e3:.3g}" for value in values)) for name, values in further.items()],
        )
    )
    worst = {name: max(values) for name, values in further.items()}
    single = {name: seconds for name, seconds in worst.items() if name not in GDP_MU_SECONDS}
    late = [f"{name} {milliseconds(seconds)}" for name, seconds in single.items() if seconds > FURTHER_SECONDS]
    within = len(single) - len(late)
    measured = f"{within} of {len(single)} kinds within; worst case of the others: {', '.join(late) or 'none'}"
    section.reaches.append(Reach("each further question", "<= 2 ms", measured, not late))
    for name, most in GDP_MU_SECONDS.items():
        measured = f"worst case {milliseconds(worst[name])}"
        section.reaches.append(Reach(f"further: {name}", f"<= {milliseconds(most)}", measured, worst[name] <= most))
    return section


def ask_gamma(pair: TradeOffPair) -> object:
    return reconstruction.gamma(pair.add, 1e-3)


def ask_epsilon(pair: TradeOffPair) -> object:
    return profile.epsilon(pair.both, 1e-5)


def _further(run: Run, wire: dict[str, Any]) -> float:
    def prepared() -> TradeOffPair:
        pair = run.curves()
        ask_gamma(pair)
        return pair

    return median_cpu_seconds_after(prepared, _asking(wire))


def _asking(wire: dict[str, Any]) -> Callable[[TradeOffPair], object]:
    question: Any = TypeAdapter[Any](QuestionSpec).validate_python(wire, strict=False)

    def ask(pair: TradeOffPair) -> object:
        curve = getattr(pair, question.direction)
        if isinstance(question, TradeOffQuestion):
            return curve.points(np.array(question.false_positive_rates))
        if isinstance(question, GdpMuQuestion):
            return gaussian_dp.mu(curve, question.false_positive_rate_min, question.type_two_error_min)
        return READINGS[type(question)](curve, question)

    return ask


def _cold_table(gammas: dict[Run, list[float]], epsilons: dict[Run, list[float]]) -> Table:
    return Table(
        f"Cold answers (CPU ms, {ROUNDS} rounds)",
        (
            "run (noise multiplier, rate, steps)",
            "gamma(1e-3), median",
            "least",
            "epsilon(1e-5), both directions, median",
            "least",
        ),
        [
            (run, *(f"{read(found[run]) * 1e3:.3g}" for found in (gammas, epsilons) for read in (median, min)))
            for run in COMPOSED
        ],
    )
