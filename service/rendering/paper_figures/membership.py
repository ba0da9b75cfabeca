"""Figures of the paper on prior-aware membership (Thudi, Shumailov, Boenisch, Papernot 2022)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from service.rendering.paper_figures.figure import Answer, Axis, FigurePart, FigurePoint, PaperFigure, Unavailable
from service.rendering.paper_figures.readers import answers

PRIORS: Final = tuple(count / 100 for count in range(1, 100))
EPSILONS: Final = tuple(count / 10 for count in range(1, 51))
NOISE: Final = 4.0412
"""Noise of Section 5.2. The released weight is normal around 1e6 without the record, and around 1e6 - 1 with it."""
FAR_THRESHOLDS: Final = tuple(range(-100, 101, 4))
NEAR_THRESHOLDS: Final = tuple(count / 4 for count in range(-40, 41))
SIZES: Final = (0.5, 1, 2, 5, *range(10, 201, 10))
CONFIDENCE, POOL = 0.8, 10_000
PRIOR: Final = Axis("prior", "Prior probability of a member")
EPSILON: Final = Axis("epsilon", "epsilon (nats)")
POSITIVE: Final = Axis("positive_accuracy", "Bound on positive accuracy")
THRESHOLD: Final = Axis("threshold", "Threshold on the weight, minus 1e6")


def _pure(epsilon: float) -> dict[str, Any]:
    return {"type": "pure_dp", "epsilon": epsilon}


def _at_priors(kind: str, epsilon: float) -> FigurePart:
    questions = [{"type": kind, "prior": prior} for prior in PRIORS]
    request = {"mechanism": _pure(epsilon), "questions": questions}
    return FigurePart("bounds", request, answers(f"epsilon = {epsilon:g}", PRIORS))


def _part_with_earlier_bounds(kind: str, epsilon: float, prior: float, x: float, names: dict[str, str]) -> FigurePart:
    question = {"type": kind, "prior": prior}

    def read(answer: Answer) -> list[FigurePoint]:
        [found] = answer["answers"]
        every = {each["method"]: each for each in (found, *found["methods"])}
        return [FigurePoint(series, x, every[name]["upper"]) for name, series in names.items()]

    return FigurePart("bounds", {"mechanism": _pure(epsilon), "method": "all", "questions": [question]}, read)


def _rate(threshold: float) -> float:
    return math.erfc(-threshold / NOISE / math.sqrt(2)) / 2


def _positive_accuracy(thresholds: Sequence[float]) -> FigurePart:
    questions = [
        {"type": "positive_predictive_value", "prior": 0.5, "false_positive_rate": _rate(threshold)}
        for threshold in thresholds
    ]
    request = {"mechanism": {"type": "gaussian", "noise_multiplier": NOISE}, "questions": questions}
    return FigurePart("bounds", request, answers("attack of Section 5.2", thresholds))


def _accuracy(thresholds: Sequence[float]) -> FigurePart:
    question = {"type": "trade_off", "false_positive_rates": [_rate(threshold) for threshold in thresholds]}
    request = {"mechanism": {"type": "gaussian", "noise_multiplier": NOISE}, "questions": [question]}

    def read(answer: Answer) -> list[FigurePoint]:
        points = answer["answers"][0]["points"]
        return [
            FigurePoint(
                "attack of Section 5.2",
                threshold,
                *(
                    (1 - point["false_positive_rate"] + point["power"][part]) / 2
                    for part in ("value", "lower", "upper")
                ),
            )
            for threshold, point in zip(thresholds, points, strict=True)
        ]

    return FigurePart("bounds", request, read)


def _capacity() -> FigurePart:
    priors = [size / POOL for size in SIZES]
    questions = [
        *({"type": "deletion_capacity", "prior": prior, "confidence": CONFIDENCE} for prior in priors),
        *({"type": "negative_predictive_value", "prior": prior} for prior in priors),
    ]
    return FigurePart("bounds", {"mechanism": _pure(1.0), "questions": questions}, _read_deletion_capacities)


def _read_deletion_capacities(answer: Answer) -> list[FigurePoint]:
    # The printed formula is ln B/ln L, with the confidence B and the largest negative predictive value L at the prior.
    numbers = [each["value"] for each in answer["answers"]]
    served, largest = numbers[: len(SIZES)], numbers[len(SIZES) :]
    printed = [math.log(CONFIDENCE) / math.log(each) for each in largest]
    return [
        *(
            FigurePoint("with the right sign", size, value, value, value)
            for size, value in zip(SIZES, served, strict=True)
        ),
        *(
            FigurePoint("with the printed sign, too large", size, value)
            for size, value in zip(SIZES, printed, strict=True)
        ),
    ]


def _readers_of_figure_5(epsilon: float) -> list[FigurePart]:
    names = {"sablayrolles": f"Sablayrolles, epsilon = {epsilon:g}", "closed_form": f"Theorem 1, epsilon = {epsilon:g}"}
    return [
        _part_with_earlier_bounds("positive_predictive_value", epsilon, prior, prior, names) for prior in PRIORS[::8]
    ]


ACCURACY_BOUNDS: Final = {"closed_form": "Theorem 1", "erlingsson": "Erlingsson et al."}
FIGURES: Final = (
    PaperFigure(
        name="membership-figure-2",
        paper="membership",
        label="Figure 2",
        title="Bounds on positive accuracy at prior 1/2",
        x=EPSILON,
        y=POSITIVE,
        parts=[
            part
            for epsilon in EPSILONS[::3]
            for part in (
                _part_with_earlier_bounds("attack_accuracy", epsilon, 0.5, epsilon, ACCURACY_BOUNDS),
                _part_with_earlier_bounds(
                    "positive_predictive_value", epsilon, 0.5, epsilon, {"sablayrolles": "Sablayrolles et al."}
                ),
            )
        ],
        agrees="partly",
        finding="Theorem 1 is the smallest bound at every epsilon, as drawn. At epsilon 2 the bound of Erlingsson et "
        "al. is 93.2 %; the text says 95 %.",
    ),
    PaperFigure(
        name="membership-figure-3",
        paper="membership",
        label="Figure 3",
        title="Bound on positive accuracy by prior",
        x=PRIOR,
        y=POSITIVE,
        parts=[_at_priors("positive_predictive_value", epsilon) for epsilon in (0.1, 1.0, 2.0, 5.0)],
        agrees="yes",
        finding="At epsilon 2 and prior 0.01 the bound is 6.95 %; the paper prints 6.9 %.",
    ),
    PaperFigure(
        name="membership-figure-4a",
        paper="membership",
        label="Figure 4a",
        title="Positive accuracy of one attack on Gaussian noise 4.0412",
        x=THRESHOLD,
        y=Axis("positive_accuracy", "Positive accuracy"),
        parts=[_positive_accuracy(FAR_THRESHOLDS)],
        agrees="yes",
        finding="The positive accuracy has no bound below 1: it is 0.9978 at a threshold of -100.",
    ),
    PaperFigure(
        name="membership-figure-4b",
        paper="membership",
        label="Figure 4b",
        title="Accuracy of one attack on Gaussian noise 4.0412",
        x=THRESHOLD,
        y=Axis("accuracy", "Accuracy at prior 1/2"),
        parts=[_accuracy(NEAR_THRESHOLDS)],
        agrees="partly",
        finding="The largest accuracy is 54.92 % at -0.5; the paper prints 54.9 %. The noise is larger than (1, "
        "1e-5)-DP needs: 3.7306 is enough, with an accuracy of 55.3 %.",
    ),
    PaperFigure(
        name="membership-figure-5",
        paper="membership",
        label="Figure 5",
        title="Bounds on positive accuracy by prior",
        x=PRIOR,
        y=POSITIVE,
        parts=[part for epsilon in (0.1, 1.0, 2.0) for part in _readers_of_figure_5(epsilon)],
        agrees="yes",
        finding="Theorem 1 is smaller at every prior. The earlier bound is capped at 1 here.",
    ),
    PaperFigure(
        name="membership-figure-6",
        paper="membership",
        label="Figure 6",
        title="Membership advantage over the prior",
        x=PRIOR,
        y=Axis("advantage", "Bound on the advantage over the prior"),
        parts=[_at_priors("advantage_over_prior", epsilon) for epsilon in (0.1, 1.0, 3.0, 5.0)],
        agrees="yes",
        finding="The largest advantage at epsilon 5 is 1.697 near a prior of 0.076, as drawn.",
    ),
    PaperFigure(
        name="membership-figure-7",
        paper="membership",
        label="Figure 7",
        title="Deletion capacity by expected size of the training set",
        x=Axis("expected_size", "Expected size of the training set"),
        y=Axis("deletion_capacity", "Deletion requests", logarithmic=True),
        parts=[_capacity()],
        agrees="no",
        finding="The drawn values belong to the formula with the wrong sign: 6065 deletions at size 1, where 820 are "
        "right. The line of Sekhari et al. has no numbers in the text.",
    ),
)
UNAVAILABLE: Final = (
    Unavailable("membership", "Figure 1", "It draws exp(-t) and (1 - t)/t, two functions without a computation."),
    Unavailable(
        "membership", "Table 1", "It lists formulas. `membership-figure-2` and `membership-figure-5` have their values."
    ),
)
