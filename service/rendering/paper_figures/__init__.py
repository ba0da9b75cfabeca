"""Figures and tables of the five papers of the guide, computed by requests to the service."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from service.rendering.paper_figures import glrt, gmip, membership, pmp, reconstruction
from service.rendering.paper_figures.figure import Paper

FIGURES: Final = MappingProxyType(
    {figure.name: figure for paper in (reconstruction, glrt, membership, gmip, pmp) for figure in paper.FIGURES}
)
"""Figures by name, in the order of the papers in the guide."""
UNAVAILABLE: Final = (*reconstruction.UNAVAILABLE, *glrt.UNAVAILABLE, *membership.UNAVAILABLE, *gmip.UNAVAILABLE)
"""Figures and tables that the service cannot compute, with reasons."""
CITATIONS: Final[dict[Paper, str]] = {
    "reconstruction": "Kaissis, Hayes, Ziller, Rueckert 2023, arXiv 2307.03928",
    "glrt": "Kaissis, Ziller, Kolek, Rueckert 2022, arXiv 2210.13028",
    "membership": "Thudi, Shumailov, Boenisch, Papernot 2022, submission to ICLR 2022",
    "gmip": "Leemann, Pawelczyk, Kasneci 2023, arXiv 2306.07273v2",
    "pmp": "Lowy et al. 2023, arXiv 2402.09540v1",
}
"""Papers as the guide cites them."""
