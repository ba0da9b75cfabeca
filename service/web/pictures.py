"""Which pictures an answer has, and the further answers that they show.

Every number in a picture is one that a resource answers. What an answer does not hold itself is asked of the other
resources in requests that anybody could send, with the same caches and limits; the digests of all of them are kept in
the spec.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, final

from pydantic import BaseModel

from api_schemas.answers import NumberAnswer
from api_schemas.assessments import AssessmentsResponse
from api_schemas.base import Result
from api_schemas.bounds import BoundsRequest, BoundsResponse
from api_schemas.comparisons import ComparisonsResponse
from api_schemas.curves import CurvesRequest, CurvesResponse
from api_schemas.mechanisms import ApproximateDpMechanism, GdpMechanism
from api_schemas.quantities import LARGEST_EPSILON
from api_schemas.questions import DeltaQuestion
from api_schemas.sweeps import SweepsResponse
from api_schemas.threat_models import ThreatModelSpec
from service.interop.numbers import as_given, rounded_up
from service.interop.reports.title import run_title
from service.interop.reports.void import is_attested_against
from service.web.charts.chances import RECONSTRUCTION, ROC, chances
from service.web.charts.profile import Profile, profile
from service.web.charts.series import Series, described, named, series_of
from service.web.charts.style import Spec, column, whole
from service.web.charts.sweep import sweep
from service.web.charts.unproved import unproved
from service.web.charts.widths import widths
from service.web.charts.words import ended

_STEPS: Final = ("1", "1.25", "1.6", "2", "2.5", "3.15", "4", "5", "6.3", "8")
RATES: Final = (*(float(f"{step}e{power}") for power in range(-6, 0) for step in _STEPS), 1.0)
"""Renard's series R10 from 1e-6 to 1: even steps on a logarithmic axis, and round numbers to read."""
PROFILE_POINTS: Final = 40
DEAREST_CURVE: Final = 10_000_000
"""Microseconds: a curve that costs more does not keep the other pictures waiting."""


@final
class Need(NamedTuple):
    """A further answer: the name of its resource, the request for it, and which part of a picture it is."""

    resource: str
    request: BaseModel
    part: str = ""


Read = Sequence[Result | None]
"""The answers to what is needed, in that order; None where there is none."""


@final
@dataclass(frozen=True, slots=True)
class Picture:
    """needs(response): further answers. charts(response, read): the pictures, each of which stands for itself."""

    charts: Callable[[Any, Read], list[Spec]]
    needs: Callable[[Any], list[Need]] = lambda _: []


def spec_of(picture: Picture, response: Result, read: Read) -> Spec:
    """All pictures of an answer in one spec: `vconcat` where there are several, one below the other."""
    return whole(column(picture.charts(response, read)), digests(response, read))


def digests(response: Result, read: Read) -> list[str]:
    """Of the results that are shown, the answer itself first."""
    return [each.digest for each in (response, *read) if each is not None]


def curves_charts(response: CurvesResponse, _: Read) -> list[Spec]:
    """Power against false positive rate, and how well it is known."""
    return list(_curves(series_of(response), run_title(response.mechanism)))


def _curves(series: Sequence[Series], subtitle: str) -> Iterator[Spec]:
    yield chances(ROC, series, [ended(subtitle)])
    strip = widths(series)
    if strip is not None:
        yield strip


def comparison_needs(response: ComparisonsResponse) -> list[Need]:
    """A curve of every run."""
    return [
        Need(
            "curves",
            CurvesRequest(
                mechanism=run.mechanism,
                threat_models=(run.threat_model,),
                directions=(response.direction,),
                false_positive_rates=RATES,
                relative_tolerance=response.relative_tolerance,
            ),
        )
        for run in response.runs
    ]


def comparison_charts(response: ComparisonsResponse, read: Read) -> list[Spec]:
    """The curves of all runs, one above the other."""
    series = [
        named(run.name, curves)._replace(worst=False)  # what one run excludes, another one allows
        for run, curves in zip(response.runs, read, strict=True)
        if isinstance(curves, CurvesResponse)
    ]
    direction = f"direction {response.direction}"
    return list(_curves(series, f"{len(series)} runs, {direction}"))


def assessment_needs(response: AssessmentsResponse) -> list[Need]:
    """Curves of all attackers whose assumptions may hold, of those whose other answers would take long each by itself;
    where epsilon is finite, that of epsilon alone, and delta at 41 epsilons.
    """
    # Imported where it is used: pictures are known at import, computations are not.
    from service.computations.assessments.attackers import relaxed_attackers
    from service.computations.assessments.judged import AssessedRun
    from service.computations.curves import CURVES

    if not response.summary.bounded:
        return []
    mechanism, worst = response.judged_mechanism, response.judged_threat_model
    rates = tuple(sorted({*RATES, response.context.false_positive_rate}))

    def curves(*models: ThreatModelSpec) -> CurvesRequest:
        return CurvesRequest(
            mechanism=mechanism,
            threat_models=models,
            false_positive_rates=rates,
            relative_tolerance=response.relative_tolerance,
        )

    attackers = [
        each.threat_model for each in response.threat_models if not is_attested_against(each, response.context)
    ]
    found = [Need("curves", curves(*attackers), "attackers")]
    alone = map(
        curves, relaxed_attackers(AssessedRun(mechanism, response.context, worst), response.relative_tolerance).dear
    )
    found += [Need("curves", each, "attacker") for each in alone if CURVES.quote(each).cost <= DEAREST_CURVE]
    epsilon = _epsilon(response)
    if epsilon is None:
        return found
    delta = response.context.delta
    stated = ApproximateDpMechanism(type="approximate_dp", epsilon=epsilon, delta=delta)
    found.append(Need("curves", CurvesRequest(mechanism=stated, false_positive_rates=RATES), "alone"))
    if epsilon > 0:
        asked = tuple(
            DeltaQuestion(type="delta", epsilon=2 * epsilon * place / PROFILE_POINTS)
            for place in range(PROFILE_POINTS + 1)
        )
        found.append(Need("bounds", BoundsRequest(mechanism=mechanism, threat_model=worst, questions=asked), "run"))
        if response.gdp is not None and response.gdp.mu["upper"] is not None:
            fit = GdpMechanism(type="gdp", mu=response.gdp.mu["upper"])
            found.append(Need("bounds", BoundsRequest(mechanism=fit, questions=asked), "fit"))
    return found


def assessment_charts(response: AssessmentsResponse, read: Read) -> list[Spec]:
    """Return power, reconstruction, (epsilon, delta), and how well the curves are known. Where nothing is proved about
    the run, the picture has no curves.
    """
    if not response.summary.bounded:
        return [unproved([ended(response.summary.title), response.summary.sentence])]
    parts: dict[str, list[Result | None]] = {}
    for need, each in zip(assessment_needs(response), read, strict=True):
        parts.setdefault(need.part, []).append(each)
    subtitle, found = _about(response), list[Spec]()
    strip: Spec | None = None
    [curves] = parts["attackers"]
    if isinstance(curves, CurvesResponse):
        series = series_of(curves)
        for each in parts.get("attacker", ()):
            if isinstance(each, CurvesResponse):
                series += series_of(each, [curve for curve in each.curves if curve.conditional])
        found.append(chances(ROC, series, subtitle))
        strip = widths(series)
        [alone] = parts.get("alone", [None])
        found.append(_reconstruction(response, curves, alone, subtitle))
    [run], [fit] = parts.get("run", [None]), parts.get("fit", [None])
    found += _profile(response, run, fit, subtitle)
    return found if strip is None else [*found, strip]


def _about(response: AssessmentsResponse) -> list[str]:
    """Return which run the pictures are of, and how hazards changed it."""
    return [ended(response.summary.title), *([] if response.judged_as is None else [response.judged_as.text])]


def _reconstruction(
    response: AssessmentsResponse, curves: CurvesResponse, alone: Result | None, subtitle: list[str]
) -> Spec:
    series = [named("From the whole curve of the run", curves)]
    if isinstance(alone, CurvesResponse):
        epsilon, delta = rounded_up(_epsilon(response) or 0.0), as_given(response.context.delta)
        series.append(named(f"From epsilon {epsilon} at delta {delta} alone", alone)._replace(worst=False))
    return chances(RECONSTRUCTION, series, subtitle)


def _profile(
    response: AssessmentsResponse, run: Result | None, fit: Result | None, subtitle: list[str]
) -> Iterator[Spec]:
    epsilon = _epsilon(response)
    if not isinstance(run, BoundsResponse) or epsilon is None:
        return
    drawn, told = [Profile("The run", run.answers)], [*subtitle]
    if isinstance(fit, BoundsResponse) and response.gdp is not None:
        mu, regret = response.gdp.mu["value"], response.gdp.regret["value"]
        drawn.append(Profile(f"Gaussian differential privacy, mu {rounded_up(mu)}", fit.answers))
        told.append(
            f"mu holds where both error rates are at least {as_given(response.gdp.smallest_rate)}. "
            f"Its regret is at most {rounded_up(regret, 2)}."
        )
    yield profile(drawn, (epsilon, response.context.delta), told)


def _epsilon(response: AssessmentsResponse) -> float | None:
    """The certified epsilon at the delta of the context; None where there is none, or none that can be asked for."""
    first = response.threat_models[0].answers[0]
    upper = first.upper if isinstance(first, NumberAnswer) else None
    return upper if upper is not None and math.isfinite(upper) and upper <= LARGEST_EPSILON / 2 else None


def sweep_charts(response: SweepsResponse, _: Read) -> list[Spec]:
    """Every answer against what was varied most."""
    varied = {pointer.removeprefix("/mechanism/") for pointer in response.columns}
    subtitle = ended(described(response.mechanism, without=varied))
    return [sweep(response, place, [subtitle]) for place in range(len(response.answers))]


PICTURES: Final[Mapping[str, Picture]] = {
    "curves": Picture(curves_charts),
    "sweeps": Picture(sweep_charts),
    "comparisons": Picture(comparison_charts, comparison_needs),
    "assessments": Picture(assessment_charts, assessment_needs),
}
"""By the name of the resource."""
