"""`POST /v1/pmp/simulations`: practical membership privacy on simulated parent sets, as in the figures of the paper.

The parent set is the population from which the data are drawn.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, Self

from pydantic import Field, model_validator
from typing_extensions import TypedDict

from api_schemas.base import NonNegative, Request, Result, is_none, named_schema
from api_schemas.enclosures import Notes, Source
from api_schemas.limits import limit_error
from api_schemas.scalar_types import LARGEST_SEED

LARGEST_TRIALS: Final = 1_000
LARGEST_ENUMERATED: Final = 12
LARGEST_SIMULATED_NUMBERS: Final = 2**22
DEFAULT_OBJECTS, DEFAULT_DELTA = 10, 0.01
DEFAULT_FACTORS: Final = {"exponential": 100.0, "gaussian": 10.0}

Experiment = Literal["exponential", "gaussian"]
SimulatedEpsilon = Annotated[float, Field(ge=1e-6, le=1e4)]


class PmpSimulationsRequest(Request):
    """Random generation of parent sets of 2n points, and the mechanism for a random half of each set."""

    experiment: Annotated[
        Experiment,
        named_schema(
            "Experiment",
            "exponential: the mechanism selects, among m random unit vectors, the vector nearest to normal "
            "points around the first vector. gaussian: the mechanism releases the noisy mean of normal points "
            "around 0.",
        ),
    ]
    data_size: Annotated[
        int,
        Field(
            ge=1,
            le=5_000,
            description="Number n of records, half of the points. At most 12 for exponential.",
            examples=[6],
        ),
    ]
    dimension: Annotated[int, Field(ge=1, le=4_096, description="Number of coordinates of a point.", examples=[1])]
    data_std: Annotated[
        float, Field(gt=0, le=1e6, description="Standard deviation of every coordinate of the data.", examples=[1.0])
    ] = 1.0
    clip_radius: Annotated[
        float, Field(ge=1e-6, le=1e9, description="Norm C to which every point is clipped.", examples=[10.0])
    ]
    outliers: Annotated[
        int, Field(ge=0, le=10_000, description="Number of randomly chosen points that become outliers.")
    ] = 0
    outlier_factor: Annotated[
        Annotated[float, Field(gt=0, le=1e9)] | None,
        Field(
            description="Factor that multiplies the outliers. Default: 100 for exponential, 10 for gaussian.",
            examples=[100.0],
        ),
    ] = None
    epsilon: Annotated[
        SimulatedEpsilon | None,
        Field(
            description="Epsilon of the mechanism, in nats. Required without `epsilon_on_population`.",
            examples=[5.0],
            exclude_if=is_none,
        ),
    ] = None
    epsilon_on_population: Annotated[
        SimulatedEpsilon | None,
        Field(
            description="Epsilon among the halves of every simulated set, in nats. It determines the epsilon of "
            "the mechanism.",
            examples=[5.0],
            exclude_if=is_none,
        ),
    ] = None
    reading: Annotated[
        Literal["sensitivity", "exact"],
        named_schema(
            "EpsilonReading",
            "Definition of epsilon_on_population. sensitivity: epsilon times the ratio of the sensitivity on "
            "the set to that of the mechanism. exact: the smallest valid epsilon. Both definitions agree for "
            "gaussian.",
        ),
    ] = "sensitivity"
    objects: Annotated[
        Annotated[int, Field(ge=1, le=64)] | None,
        Field(description="Number m of objects, for exponential. Default: 10.", examples=[10], exclude_if=is_none),
    ] = None
    sensitivity: Annotated[
        Annotated[
            Literal["attained", "twice_clip_radius"],
            named_schema(
                "SensitivityRule",
                "Sensitivity of the exponential mechanism. attained: (C + 1)/n for C >= 1, the largest change "
                "of the loss on clipped points. twice_clip_radius: 2C/n.",
            ),
        ]
        | None,
        Field(description="Sensitivity of the exponential mechanism. Default: attained.", exclude_if=is_none),
    ] = None
    delta: Annotated[
        Annotated[float, Field(ge=1e-300, lt=1)] | None,
        Field(description="Delta for gaussian. Default: 0.01.", examples=[0.01], exclude_if=is_none),
    ] = None
    trials: Annotated[int, Field(ge=1, le=LARGEST_TRIALS, description="Number T of simulated sets.", examples=[10])] = (
        10
    )
    seed: Annotated[
        int,
        Field(
            ge=0, le=LARGEST_SEED, description="Seed of the simulation. Equal seeds give equal numbers.", examples=[0]
        ),
    ] = 0

    @model_validator(mode="after")
    def _settled(self) -> Self:
        if (self.epsilon is None) == (self.epsilon_on_population is None):
            raise limit_error("", "Send exactly one of `epsilon` and `epsilon_on_population`.")
        if self.outliers > 2 * self.data_size:
            raise limit_error("/outliers", f"Must be at most {2 * self.data_size}, the number of points.")
        if 2 * self.data_size * self.dimension > LARGEST_SIMULATED_NUMBERS:
            raise limit_error("/dimension", f"Points times dimension may be at most {LARGEST_SIMULATED_NUMBERS}.")
        foreign = ("delta",) if self.experiment == "exponential" else ("objects", "sensitivity")
        for name in foreign:
            if getattr(self, name) is not None:
                raise limit_error(f"/{name}", f"Omit this field for the {self.experiment} experiment.")
        if self.experiment == "exponential":
            if self.data_size > LARGEST_ENUMERATED:
                raise limit_error(
                    "/data_size",
                    f"Must be at most {LARGEST_ENUMERATED} for the exponential experiment, which sums all subsets.",
                )
            self._settle_absent(objects=DEFAULT_OBJECTS, sensitivity="attained")
        else:
            self._settle_absent(delta=DEFAULT_DELTA)
        self._settle_absent(outlier_factor=DEFAULT_FACTORS[self.experiment])
        return self

    def _settle_absent(self, **defaults: object) -> None:
        self._settle(**{name: value for name, value in defaults.items() if getattr(self, name) is None})


class SimulatedTrial(TypedDict):
    """Result of one simulated parent set.

    null: the number is not computed, or is 0/0, or no epsilon of the mechanism reaches the requested value.
    """

    epsilon: Annotated[NonNegative | None, Field(description="Epsilon of the mechanism in nats, for replaced records.")]
    epsilon_pmp: Annotated[
        NonNegative | None,
        Field(
            description="Epsilon of practical membership privacy in "
            "nats. Exact for exponential, and the bound of "
            "Lowy et al. 2023, Proposition 12, for gaussian."
        ),
    ]
    epsilon_on_population_by_sensitivity: Annotated[
        NonNegative | None,
        Field(
            description="epsilon times the ratio of the sensitivity on this set to the "
            "sensitivity of the mechanism, in nats."
        ),
    ]
    epsilon_on_population_exact: Annotated[
        NonNegative | None, Field(description="Smallest valid epsilon among the halves of this set, in nats.")
    ]
    ratio: Annotated[NonNegative | None, Field(description="Ratio of epsilon_pmp to epsilon.")]
    ratio_by_sensitivity: Annotated[
        NonNegative | None, Field(description="Ratio of epsilon_pmp to epsilon_on_population_by_sensitivity.")
    ]
    ratio_exact: Annotated[
        NonNegative | None, Field(description="Ratio of epsilon_pmp to epsilon_on_population_exact.")
    ]


class Spread(TypedDict):
    """Statistics of one number over the trials in which it is not null."""

    trials: Annotated[int, Field(description="Number of trials in the statistics.")]
    mean: Annotated[float | None, Field(description="Mean over these trials.")]
    standard_deviation: Annotated[
        float | None, Field(description="Standard deviation of single trials. null: fewer than two trials.")
    ]
    standard_error: Annotated[
        float | None, Field(description="Standard error of the mean. null: fewer than two trials.")
    ]


class SpreadOfTrials(TypedDict):
    """Statistics of every number of a simulated trial, over all trials."""

    epsilon: Spread
    epsilon_pmp: Spread
    epsilon_on_population_by_sensitivity: Spread
    epsilon_on_population_exact: Spread
    ratio: Spread
    ratio_by_sensitivity: Spread
    ratio_exact: Spread


class PmpSimulationsResponse(Result):
    """Result for each simulated data set, and the mean over all of them."""

    simulation: PmpSimulationsRequest
    summary: SpreadOfTrials
    trials: Annotated[
        tuple[SimulatedTrial, ...], Field(description="Results of the simulated sets, in the order of the simulation.")
    ]
    source: Source
    notes: Notes
