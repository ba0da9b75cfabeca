"""Catalogue of all mechanisms, by their names in requests."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from service.privacy.mechanisms.abstract import AbstractMechanism
from service.privacy.mechanisms.approximate_dp import ApproximateDp
from service.privacy.mechanisms.composed import Composed
from service.privacy.mechanisms.discrete.discrete_gaussian import DiscreteGaussian
from service.privacy.mechanisms.discrete.discrete_laplace import DiscreteLaplace
from service.privacy.mechanisms.discrete.randomized_response import RandomizedResponse
from service.privacy.mechanisms.discrete.report_noisy_max import PermuteAndFlip, ReportNoisyMax
from service.privacy.mechanisms.discrete.skellam import Skellam
from service.privacy.mechanisms.discrete.sparse_vector import SparseVector
from service.privacy.mechanisms.discrete.staircase import Staircase
from service.privacy.mechanisms.discrete.unary_encoding import UnaryEncoding
from service.privacy.mechanisms.dpsgd import DpSgd
from service.privacy.mechanisms.exponential import Exponential
from service.privacy.mechanisms.gaussian import Gaussian
from service.privacy.mechanisms.gaussian_mixture import GaussianMixture
from service.privacy.mechanisms.gdp import Gdp
from service.privacy.mechanisms.laplace import Laplace
from service.privacy.mechanisms.mixture import Mixture
from service.privacy.mechanisms.noisy_sgd import NoisySgd
from service.privacy.mechanisms.poisson_sampled import PoissonSampled
from service.privacy.mechanisms.pure_dp import PureDp
from service.privacy.mechanisms.rdp import Rdp
from service.privacy.mechanisms.repeated import Repeated
from service.privacy.mechanisms.selected import Selected
from service.privacy.mechanisms.shuffled.shuffled_reports import ShuffledReports
from service.privacy.mechanisms.zcdp import Zcdp

MECHANISMS: Final[Mapping[str, type[AbstractMechanism]]] = MappingProxyType(
    {
        kind.type: kind
        for kind in (
            Gaussian,
            GaussianMixture,
            Laplace,
            Gdp,
            PureDp,
            ApproximateDp,
            Zcdp,
            Rdp,
            Exponential,
            PoissonSampled,
            Repeated,
            Composed,
            DpSgd,
            NoisySgd,
            Mixture,
            Selected,
            RandomizedResponse,
            UnaryEncoding,
            Staircase,
            DiscreteLaplace,
            DiscreteGaussian,
            Skellam,
            ReportNoisyMax,
            PermuteAndFlip,
            SparseVector,
            ShuffledReports,
        )
    }
)
