"""Sources on guarantees by Renyi divergences, and the inequalities that their bounds rest on."""

from __future__ import annotations

from typing import Final

from service.bibliography.resources import BOUNDED
from service.bibliography.source import Source

MATHEMATICAL_STATISTICS: Final = "The Annals of Mathematical Statistics"

DIVERGENCES: Final = (
    Source(
        key="mironov2017renyi",
        kind="inproceedings",
        title="Rényi Differential Privacy",
        authors=("Mironov, Ilya",),
        year=2017,
        venue="IEEE Computer Security Foundations Symposium",
        pages="263--275",
        doi="10.1109/CSF.2017.11",
        arxiv="1702.07476",
        cited_as=("Mironov 2017",),
        used_by=BOUNDED,
    ),
    Source(
        key="bun2016concentrated",
        kind="inproceedings",
        title="Concentrated Differential Privacy: Simplifications, Extensions, and Lower Bounds",
        authors=("Bun, Mark", "Steinke, Thomas"),
        year=2016,
        venue="Theory of Cryptography Conference",
        pages="635--658",
        doi="10.1007/978-3-662-53641-4_24",
        arxiv="1605.02065",
        cited_as=("Bun, Steinke 2016",),
        used_by=BOUNDED,
    ),
    Source(
        key="kearns1998large",
        kind="inproceedings",
        title="Large Deviation Methods for Approximate Probabilistic Inference",
        authors=("Kearns, Michael", "Saul, Lawrence"),
        year=1998,
        venue="Conference on Uncertainty in Artificial Intelligence",
        pages="311--319",
        arxiv="1301.7392",
        cited_as=("Kearns, Saul 1998",),
        used_by=BOUNDED,
    ),
    Source(
        key="birnbaum1942inequality",
        kind="article",
        title="An Inequality for Mill's Ratio",
        authors=("Birnbaum, Zygmunt W.",),
        year=1942,
        venue=MATHEMATICAL_STATISTICS,
        volume="13",
        number="2",
        pages="245--246",
        doi="10.1214/aoms/1177731611",
        cited_as=("Birnbaum 1942",),
        used_by=BOUNDED,
    ),
    Source(
        key="sampford1953some",
        kind="article",
        title="Some Inequalities on Mill's Ratio and Related Functions",
        authors=("Sampford, Michael R.",),
        year=1953,
        venue=MATHEMATICAL_STATISTICS,
        volume="24",
        number="1",
        pages="130--132",
        doi="10.1214/aoms/1177729093",
        cited_as=("Sampford 1953",),
        used_by=BOUNDED,
    ),
)
