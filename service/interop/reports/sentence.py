"""What a run guarantees, in two sentences."""

from __future__ import annotations

from api_schemas.assessments import AssessmentsResponse, GdpSummary
from service.interop.numbers import as_given, rounded_up
from service.interop.reports.rows import rows
from service.interop.reports.units import protected
from service.interop.reports.void import refuted, void


def in_short(response: AssessmentsResponse) -> str:
    """The guarantee, and what the best attack makes of it; every number is rounded to the safe side. Or that there is
    none.
    """
    if broken := refuted(response.assumptions):
        return void(broken)
    told = {row.key: row for row in rows(response.threat_models[0].answers)}
    context, threat_model = response.context, response.threat_model
    rate = as_given(context.false_positive_rate)
    power = told[f"tpr_at_fpr_{rate}"]
    mu = "" if response.gdp is None else _mu(response.gdp)
    return (
        f"Trained with ({rounded_up(told['epsilon'].value)}, {as_given(context.delta)})-differential privacy{mu}, per "
        f"{protected(context, threat_model)}. Nobody who accuses a share of {rate} of the others falsely "
        f"finds more than {rounded_up(power.value)} of the members, and a reconstruction that succeeds with chance "
        f"{as_given(context.baseline_success)} without the model succeeds with at most "
        f"{rounded_up(told['reconstruction'].value)} with it."
    )


def _mu(gdp: GdpSummary) -> str:
    """With its range: at smaller error rates nothing is said."""
    return (
        f", {rounded_up(gdp.mu['value'])}-Gaussian differential privacy wherever both error rates are at least "
        f"{as_given(gdp.smallest_rate)}"
    )
