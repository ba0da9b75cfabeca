# pyright: strict
"""A program that uses the generated Python client: strictly typed, and run against a live server."""

from __future__ import annotations

import sys

from privacy_bounds_client import AuthenticatedClient
from privacy_bounds_client.api.bounds import bounds
from privacy_bounds_client.api.discovery import catalogue
from privacy_bounds_client.api.pmp import pmp_gaussian
from privacy_bounds_client.models import (
    BoundsRequest,
    BoundsResponse,
    CatalogueResponse,
    Direction,
    EpsilonQuestion,
    GaussianMechanism,
    GdpMechanism,
    GdpMuAnswer,
    GdpMuQuestion,
    Infinity,
    NumberAnswer,
    PmpGaussianResponse,
    ProbabilityAnswer,
    Problem,
    ProblemType,
    ReconstructionQuestion,
    RepeatedMechanism,
    TradeOffAnswer,
    TradeOffQuestion,
)
from privacy_bounds_client.types import File

# One hundred steps at sigma = 10 are a Gaussian mechanism with mu = 1, whose epsilon at delta = 1e-5 has a closed form.
EPSILON = 4.3771780957
POWER = 1.82984684056566e-2


def ask(client: AuthenticatedClient) -> None:
    """Send one question of each kind of answer, and narrow the answers by class and by `type_`."""
    asked = BoundsRequest(
        mechanism=RepeatedMechanism(
            type_="repeated", steps=100, mechanism=GaussianMechanism(type_="gaussian", noise_multiplier=10.0)
        ),
        questions=[
            EpsilonQuestion(type_="epsilon", delta=1e-5, direction=Direction.BOTH),
            EpsilonQuestion(type_="epsilon", delta=0.0),
            TradeOffQuestion(type_="trade_off", false_positive_rates=[0.001, 0.1]),
            GdpMuQuestion(type_="gdp_mu"),
            ReconstructionQuestion(type_="reconstruction", baseline_success=0.001),
        ],
    )
    found = bounds.sync(client=client, body=asked)
    assert isinstance(found, BoundsResponse)
    assert found.relative_tolerance == 1e-6
    epsilon, infinite, curve, mu, gamma = found.answers
    assert isinstance(epsilon, NumberAnswer)
    assert isinstance(epsilon.lower, float)
    assert isinstance(epsilon.upper, float)
    assert epsilon.lower - 1e-9 <= EPSILON <= epsilon.upper + 1e-9
    assert epsilon.question.direction is Direction.BOTH
    assert isinstance(infinite, NumberAnswer)
    assert infinite.value is Infinity.INFINITY
    assert isinstance(curve, TradeOffAnswer)
    power = curve.points[0].power
    assert power.lower is not None
    assert power.upper is not None
    assert power.lower - 1e-15 <= POWER <= power.upper + 1e-15
    assert isinstance(mu, GdpMuAnswer)
    assert isinstance(mu.value, float)
    assert abs(mu.value - 1) < 1e-6
    assert isinstance(gamma, ProbabilityAnswer)
    assert gamma.value <= 1  # A number: no alternative type is possible.


def check_rejection(client: AuthenticatedClient) -> None:
    """Check that an invalid request returns a problem of a known kind."""
    refused = bounds.sync(
        client=client,
        body=BoundsRequest(
            mechanism=GdpMechanism(type_="gdp", mu=-1.0), questions=[EpsilonQuestion(type_="epsilon", delta=0.0)]
        ),
    )
    assert isinstance(refused, Problem)
    assert refused.type_ is ProblemType.INVALID_REQUEST
    assert refused.errors[0].pointer == "/mechanism/mu"


def send(client: AuthenticatedClient, archive: str) -> None:
    """Send an archive of arrays as a body."""
    with open(archive, "rb") as payload:  # noqa: PTH123
        found = pmp_gaussian.sync(client=client, body=File(payload=payload))
    assert isinstance(found, PmpGaussianResponse), found
    assert found.points == 4


def main(address: str, archive: str, key: str) -> None:
    """Make every call of this program."""
    with AuthenticatedClient(base_url=address, token=key) as client:
        ask(client)
        check_rejection(client)
        send(client, archive)
        listed = catalogue.sync(client=client)
    assert isinstance(listed, CatalogueResponse)
    assert any(entry.type_ == "dpsgd" for entry in listed.mechanisms)


if __name__ == "__main__":
    main(*sys.argv[1:])
