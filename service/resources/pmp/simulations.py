"""Resource `POST /v1/pmp/simulations`: PMP of a mechanism on simulated parent sets, and its dispersion.

PMP is practical membership privacy: the attacker does not know which records were drawn. The parent set is the
population from which the data are drawn.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

import numpy as np

from api_schemas.pmp_gaussian_examples import PMP_SIMULATIONS_EXAMPLES
from api_schemas.pmp_simulations import (
    PmpSimulationsRequest,
    PmpSimulationsResponse,
    SimulatedTrial,
    Spread,
    SpreadOfTrials,
)
from service.privacy.pmp.exponential.adjacent import enumeration_cost
from service.privacy.pmp.simulations import (
    SEARCH_STEPS,
    Budget,
    DataLaw,
    Trial,
    exponential_trial,
    gaussian_trial,
)
from service.resources.abstract import Computation, Quote

SOURCE: Final = "Lowy et al. 2023, Propositions 9 (both directions) and 12; the setting of Figures 1 to 6"
SPREAD: Final = "Standard deviations are over the simulated sets."
UPPER_BOUND: Final = "epsilon_pmp of the Gaussian mechanism is the upper bound of Proposition 12."
READINGS: Final = (
    "Computed from the sensitivity, epsilon on the population ignores a contribution of a record that is equal "
    "for all losses. It may be far above the exact value, and the ratio far below."
)
MISSING: Final = "In some trials no epsilon of the mechanism up to 1e6 reaches the requested epsilon on the population."

BASE_COST, TRIAL_COST, READING_COST, NUMBER_COST = 3_000, 1_500, 500, 0.2
SUBSET_COST, EXCHANGE_COST = 0.02, 0.015
"""Cost of a subset and an object, and of a number in the enumeration of adjacent subsets."""
LARGEST_EXACT_ENUMERATION: Final = 2_000_000.0
ROW_COST, PAIR_COST, SOLVED_ROWS = 150.0, 1.5, 100


def _compute_pmp_simulations(
    request: PmpSimulationsRequest, digest: str, engine_version: str
) -> PmpSimulationsResponse:
    trials = tuple(_written(_trial(request, number)) for number in range(request.trials))
    notes = [SPREAD, UPPER_BOUND if request.experiment == "gaussian" else READINGS]
    if any(trial["epsilon"] is None for trial in trials):
        notes.append(MISSING)
    return PmpSimulationsResponse(
        digest=digest,
        engine_version=engine_version,
        simulation=request,
        summary=SpreadOfTrials(
            epsilon=_spread(trial["epsilon"] for trial in trials),
            epsilon_pmp=_spread(trial["epsilon_pmp"] for trial in trials),
            epsilon_on_population_by_sensitivity=_spread(
                trial["epsilon_on_population_by_sensitivity"] for trial in trials
            ),
            epsilon_on_population_exact=_spread(trial["epsilon_on_population_exact"] for trial in trials),
            ratio=_spread(trial["ratio"] for trial in trials),
            ratio_by_sensitivity=_spread(trial["ratio_by_sensitivity"] for trial in trials),
            ratio_exact=_spread(trial["ratio_exact"] for trial in trials),
        ),
        trials=trials,
        source=SOURCE,
        notes=tuple(notes),
    )


def _pmp_simulations_quote(request: PmpSimulationsRequest) -> Quote:
    count = 2 * request.data_size
    each = TRIAL_COST + NUMBER_COST * count * request.dimension
    if request.experiment == "gaussian":
        rows = min(count, SOLVED_ROWS)
        each += rows * (ROW_COST + PAIR_COST * count) + 1e-2 * count**2 * (1 + 0.1 * request.dimension)
    else:
        objects = request.objects or 1
        each += SUBSET_COST * (objects + 2) * math.comb(count, request.data_size)
        each += _exact_evaluations_per_trial(request) * (
            EXCHANGE_COST * enumeration_cost(objects, count) + READING_COST
        )
    return Quote(int(BASE_COST + request.trials * each))


def _exact_evaluations_per_trial(request: PmpSimulationsRequest) -> int:
    if request.reading == "exact":
        return 1 if request.epsilon is not None else SEARCH_STEPS + 20
    return int(_shows_exact_epsilon_too(request))


def _shows_exact_epsilon_too(request: PmpSimulationsRequest) -> bool:
    # whether enumeration costs little enough
    return enumeration_cost(request.objects or 1, 2 * request.data_size) <= LARGEST_EXACT_ENUMERATION


def _trial(request: PmpSimulationsRequest, number: int) -> Trial | None:
    law = DataLaw(
        data_size=request.data_size,
        dimension=request.dimension,
        data_std=request.data_std,
        clip_radius=request.clip_radius,
        outliers=request.outliers,
        outlier_factor=request.outlier_factor or 1.0,
    )
    if request.epsilon is not None:
        budget = Budget(request.epsilon, "mechanism", request.reading)
    else:
        budget = Budget(request.epsilon_on_population or 0.0, "population", request.reading)
    if request.experiment == "gaussian":
        return gaussian_trial(law, budget, request.delta or 0.0, request.seed, number)
    sensitivity = request.sensitivity or "attained"
    with_exact = _shows_exact_epsilon_too(request)
    return exponential_trial(
        law, request.objects or 1, budget, sensitivity, request.seed, number, with_exact=with_exact
    )


def _written(trial: Trial | None) -> SimulatedTrial:
    epsilon, pmp, by_sensitivity, exact = (
        (None,) * 4 if trial is None else (trial.epsilon, trial.epsilon_pmp, trial.by_sensitivity, trial.exact)
    )
    return SimulatedTrial(
        epsilon=epsilon,
        epsilon_pmp=pmp,
        epsilon_on_population_by_sensitivity=by_sensitivity,
        epsilon_on_population_exact=exact,
        ratio=_ratio(pmp, epsilon),
        ratio_by_sensitivity=_ratio(pmp, by_sensitivity),
        ratio_exact=_ratio(pmp, exact),
    )


def _ratio(numerator: float | None, denominator: float | None) -> float | None:
    return numerator / denominator if numerator is not None and denominator else None


def _spread(numbers: Iterable[float | None]) -> Spread:
    known = np.array([number for number in numbers if number is not None])
    deviation = float(known.std(ddof=1)) if known.size > 1 else None
    return Spread(
        trials=known.size,
        mean=float(known.mean()) if known.size else None,
        standard_deviation=deviation,
        standard_error=None if deviation is None else deviation / math.sqrt(known.size),
    )


PMP_SIMULATIONS: Final = Computation(
    name="pmp_simulations",
    path="/v1/pmp/simulations",
    description="Compute practical membership privacy of a mechanism on simulated parent sets. The response contains "
    "every trial with means and standard deviations.",
    examples=PMP_SIMULATIONS_EXAMPLES,
    request_type=PmpSimulationsRequest,
    response_type=PmpSimulationsResponse,
    function=_compute_pmp_simulations,
    quote=_pmp_simulations_quote,
)
