"""Laws of the number of trials of a selection."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from api_schemas.base import Request, named_schema

LARGEST_TRIALS: Final = 1_000_000
Count = Annotated[int, Field(ge=1, le=LARGEST_TRIALS, description="Number of trials.", examples=[10])]
MeanAtLeastOne = Annotated[
    float, Field(ge=1, le=LARGEST_TRIALS, description="Mean number of trials. There is at least one.", examples=[10.0])
]


class FixedTrialCount(Request):
    """A number of trials that is known before the data are seen. The configurations of the trials may differ."""

    type: Literal["fixed"]
    count: Count


class GeometricTrialCount(Request):
    """After each trial the search ends with probability 1/mean, whatever the result."""

    type: Literal["geometric"]
    mean: MeanAtLeastOne


class NegativeBinomialTrialCount(Request):
    """A negative binomial number of trials, drawn again until it is at least 1, with a given mean.

    Shape 1 is the geometric law, and shape 0 the logarithmic law.
    """

    type: Literal["truncated_negative_binomial"]
    mean: MeanAtLeastOne
    shape: Annotated[
        float,
        Field(ge=-0.9, le=100, description="Shape of the law. Smaller shapes are more private.", examples=[0.5]),
    ]


class PoissonTrialCount(Request):
    """A Poisson number of trials. Without a trial nothing is released."""

    type: Literal["poisson"]
    mean: Annotated[float, Field(gt=0, le=LARGEST_TRIALS, description="Mean number of trials.", examples=[10.0])]


class BinomialTrialCount(Request):
    """Each of `count` possible trials is run with `probability`. Without a trial nothing is released."""

    type: Literal["binomial"]
    count: Count
    probability: Annotated[float, Field(gt=0, le=1, description="Probability that a trial is run.", examples=[0.5])]


TrialCountSpec = Annotated[
    FixedTrialCount | GeometricTrialCount | NegativeBinomialTrialCount | PoissonTrialCount | BinomialTrialCount,
    named_schema(
        "TrialCount",
        "Law of the number of trials, drawn independently of the data.",
        discriminator="type",
    ),
]
ReleasedTrials = Annotated[
    Literal["best", "all"],
    named_schema(
        "ReleasedTrials",
        "Released results. best: the trial with the best score. all: all trials of a fixed number.",
        examples=["best"],
    ),
]
