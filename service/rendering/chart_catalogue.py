"""Charts of each resource, and the further answers that the charts show.

Every number in a chart is the answer of a resource. A chart that needs numbers outside its own response requests them
from the other resources. These are ordinary requests, to which the same caches and limits apply. The
specification contains the digests of all results that it shows.
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
from api_schemas.questions import DeltaQuestion
from api_schemas.scalar_types import LARGEST_EPSILON
from api_schemas.sweeps import SweepsResponse
from api_schemas.threat_models import ThreatModelSpec
from service.rendering.charts.enclosure_width import enclosure_widths
from service.rendering.charts.probability_curve import RECONSTRUCTION, ROC, probability_curve
from service.rendering.charts.profile import Profile, profile
from service.rendering.charts.series import Series, describe_mechanism, first_curve_series, series_of
from service.rendering.charts.style import Spec, finalize_spec, stack_charts
from service.rendering.charts.sweep import sweep
from service.rendering.charts.unproved import unproved
from service.rendering.charts.words import with_full_stop
from service.rendering.numbers import format_exact, rounded_up
from service.rendering.sentences.title import run_title
from service.rendering.sentences.void import is_attested_against

_STEPS: Final = ("1", "1.25", "1.6", "2", "2.5", "3.15", "4", "5", "6.3", "8")
RATES: Final = (*(float(f"{step}e{power}") for power in range(-6, 0) for step in _STEPS), 1.0)
"""Renard series R10 from 1e-6 to 1: equal steps on a logarithmic axis, and round numbers."""
PROFILE_POINTS: Final = 40
LARGEST_CURVE_COST: Final = 10_000_000
"""Largest estimated cost, in microseconds, of a curve that an assessment chart requests."""


@final
class Dependency(NamedTuple):
    """Further answer that a chart needs beside its own response: a request to a resource.

    `part` names the part of the chart that shows the answer, such as `attackers`.
    """

    resource: str
    request: BaseModel
    part: str = ""


DependencyResults = Sequence[Result | None]
"""Answers to the dependencies in order. An answer is None if the run has none."""


@final
@dataclass(frozen=True, slots=True)
class ChartSource:
    """Charts of a resource.

    `dependencies(response)` returns the further answers that the charts need, by default none. `charts(response,
    results)` returns independent Vega-Lite specifications.
    """

    charts: Callable[[Any, DependencyResults], list[Spec]]
    dependencies: Callable[[Any], list[Dependency]] = lambda _: []


def build_spec(source: ChartSource, response: Result, results: DependencyResults) -> Spec:
    """Return one Vega-Lite specification with all charts of a response, stacked vertically (`vconcat`).

    `results` has the answers of the further requests that the charts of `source` need. An entry is None if the request
    has no answer.
    """
    return finalize_spec(stack_charts(source.charts(response, results)), shown_digests(response, results))


def shown_digests(response: Result, results: DependencyResults) -> list[str]:
    """Return the digests of all results that a chart shows: that of its response first, then those of `results`.

    Entries of `results` that are None (requests without an answer) are left out.
    """
    return [each.digest for each in (response, *results) if each is not None]


def _curves_charts(response: CurvesResponse, _: DependencyResults) -> list[Spec]:
    return list(_curves(series_of(response), run_title(response.mechanism)))


def _curves(series: Sequence[Series], subtitle: str) -> Iterator[Spec]:
    yield probability_curve(ROC, series, [with_full_stop(subtitle)])
    strip = enclosure_widths(series)
    if strip is not None:
        yield strip


def _comparison_dependencies(response: ComparisonsResponse) -> list[Dependency]:
    return [
        Dependency(
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


def _comparison_charts(response: ComparisonsResponse, results: DependencyResults) -> list[Spec]:
    series = [
        first_curve_series(run.name, curves)._replace(worst=False)  # what one run excludes, another one allows
        for run, curves in zip(response.runs, results, strict=True)
        if isinstance(curves, CurvesResponse)
    ]
    direction = f"direction {response.direction}"
    return list(_curves(series, f"{len(series)} runs, {direction}"))


def assessment_dependencies(response: AssessmentsResponse) -> list[Dependency]:
    """Return the further requests that the charts of an assessment need.

    One request is for the curves of all attackers but those with an assumption that is attested not to hold, and others
    are for the charts of epsilon. An attacker that was too expensive for the assessment has a request if its estimated
    cost is at most 10 s. The list is empty if nothing is proved about the run.
    """
    # Imported where it is used: pictures are known at import, computations are not.
    from service.resources.assessments.attackers import relaxed_attackers
    from service.resources.assessments.judged import AssessedRun
    from service.resources.curves import CURVES

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
    found = [Dependency("curves", curves(*attackers), "attackers")]
    alone = map(
        curves,
        relaxed_attackers(AssessedRun(mechanism, response.context, worst), response.relative_tolerance).expensive,
    )
    found += [Dependency("curves", each, "attacker") for each in alone if CURVES.quote(each).cost <= LARGEST_CURVE_COST]
    epsilon = _finite_epsilon(response)
    return found if epsilon is None else [*found, *_curves_at_epsilon(response, epsilon)]


def _curves_at_epsilon(response: AssessmentsResponse, epsilon: float) -> Iterator[Dependency]:
    # the trade-off curve of (epsilon, delta)-DP, and profiles of the run and of its Gaussian fit up to twice epsilon
    stated = ApproximateDpMechanism(type="approximate_dp", epsilon=epsilon, delta=response.context.delta)
    yield Dependency("curves", CurvesRequest(mechanism=stated, false_positive_rates=RATES), "alone")
    if epsilon <= 0:
        return
    asked = tuple(
        DeltaQuestion(type="delta", epsilon=2 * epsilon * place / PROFILE_POINTS) for place in range(PROFILE_POINTS + 1)
    )
    run = BoundsRequest(mechanism=response.judged_mechanism, threat_model=response.judged_threat_model, questions=asked)
    yield Dependency("bounds", run, "run")
    if response.gdp is not None and response.gdp.mu["upper"] is not None:
        fit = GdpMechanism(type="gdp", mu=response.gdp.mu["upper"])
        yield Dependency("bounds", BoundsRequest(mechanism=fit, questions=asked), "fit")


def _assessment_charts(response: AssessmentsResponse, results: DependencyResults) -> list[Spec]:
    if not response.summary.bounded:
        return [unproved([with_full_stop(response.summary.title), response.summary.sentence])]
    parts: dict[str, list[Result | None]] = {}
    for dependency, each in zip(assessment_dependencies(response), results, strict=True):
        parts.setdefault(dependency.part, []).append(each)
    subtitle, found = _subtitles(response), list[Spec]()
    strip: Spec | None = None
    [curves] = parts["attackers"]
    if isinstance(curves, CurvesResponse):
        series = series_of(curves)
        for each in parts.get("attacker", ()):
            if isinstance(each, CurvesResponse):
                series += series_of(each, [curve for curve in each.curves if curve.conditional])
        found.append(probability_curve(ROC, series, subtitle))
        strip = enclosure_widths(series)
        [alone] = parts.get("alone", [None])
        found.append(_reconstruction(response, curves, alone, subtitle))
    [run], [fit] = parts.get("run", [None]), parts.get("fit", [None])
    found += _profile(response, run, fit, subtitle)
    return found if strip is None else [*found, strip]


def _subtitles(response: AssessmentsResponse) -> list[str]:
    return [with_full_stop(response.summary.title), *([] if response.judged_as is None else [response.judged_as.text])]


def _reconstruction(
    response: AssessmentsResponse, curves: CurvesResponse, alone: Result | None, subtitle: list[str]
) -> Spec:
    series = [first_curve_series("From the whole curve of the run", curves)]
    if isinstance(alone, CurvesResponse):
        epsilon, delta = rounded_up(_finite_epsilon(response) or 0.0), format_exact(response.context.delta)
        series.append(first_curve_series(f"From epsilon {epsilon} at delta {delta} alone", alone)._replace(worst=False))
    return probability_curve(RECONSTRUCTION, series, subtitle)


def _profile(
    response: AssessmentsResponse, run: Result | None, fit: Result | None, subtitle: list[str]
) -> Iterator[Spec]:
    epsilon = _finite_epsilon(response)
    if not isinstance(run, BoundsResponse) or epsilon is None:
        return
    profiles, subtitle_lines = [Profile("The run", run.answers)], [*subtitle]
    if isinstance(fit, BoundsResponse) and response.gdp is not None:
        mu, regret = response.gdp.mu["value"], response.gdp.regret["value"]
        profiles.append(Profile(f"Gaussian differential privacy, mu {rounded_up(mu)}", fit.answers))
        subtitle_lines.append(
            f"mu holds where both error rates are at least {format_exact(response.gdp.smallest_rate)}. Its regret is "
            f"at most {rounded_up(regret, 2)}."
        )
    yield profile(profiles, (epsilon, response.context.delta), subtitle_lines)


def _finite_epsilon(response: AssessmentsResponse) -> float | None:
    first = response.threat_models[0].answers[0]
    upper = first.upper if isinstance(first, NumberAnswer) else None
    return upper if upper is not None and math.isfinite(upper) and upper <= LARGEST_EPSILON / 2 else None


def _sweep_charts(response: SweepsResponse, _: DependencyResults) -> list[Spec]:
    varied = {pointer.removeprefix("/mechanism/") for pointer in response.columns}
    subtitle = with_full_stop(describe_mechanism(response.mechanism, without=varied))
    return [sweep(response, place, [subtitle]) for place in range(len(response.answers))]


CHART_SOURCES: Final[Mapping[str, ChartSource]] = {
    "curves": ChartSource(_curves_charts),
    "sweeps": ChartSource(_sweep_charts),
    "comparisons": ChartSource(_comparison_charts, _comparison_dependencies),
    "assessments": ChartSource(_assessment_charts, assessment_dependencies),
}
"""Charts by the name of the resource."""
