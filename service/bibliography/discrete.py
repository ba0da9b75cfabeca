"""Sources on discrete and local mechanisms: noise on integers, reports of single persons, choices of candidates."""

from __future__ import annotations

from typing import Final

from service.bibliography.composition import ICML, NEURIPS
from service.bibliography.resources import BOUNDED
from service.bibliography.source import Source

DISCRETE: Final = (
    Source(
        key="canonne2020discrete",
        kind="inproceedings",
        title="The Discrete Gaussian for Differential Privacy",
        authors=("Canonne, Clement L.", "Kamath, Gautam", "Steinke, Thomas"),
        year=2020,
        venue=NEURIPS,
        volume="33",
        arxiv="2004.00010",
        cited_as=("Canonne, Kamath, Steinke 2020",),
        used_by=BOUNDED,
    ),
    Source(
        key="agarwal2021skellam",
        kind="inproceedings",
        title="The Skellam Mechanism for Differentially Private Federated Learning",
        authors=("Agarwal, Naman", "Kairouz, Peter", "Liu, Ziyu"),
        year=2021,
        venue=NEURIPS,
        volume="34",
        arxiv="2110.04995",
        cited_as=("Agarwal, Kairouz, Liu 2021",),
        used_by=BOUNDED,
    ),
    Source(
        key="ghosh2012universally",
        kind="article",
        title="Universally Utility-Maximizing Privacy Mechanisms",
        authors=("Ghosh, Arpita", "Roughgarden, Tim", "Sundararajan, Mukund"),
        year=2012,
        venue="SIAM Journal on Computing",
        volume="41",
        number="6",
        pages="1673--1693",
        arxiv="0811.2841",
        cited_as=("Ghosh, Roughgarden, Sundararajan 2012",),
        used_by=BOUNDED,
    ),
    Source(
        key="geng2016optimal",
        kind="article",
        title="The Optimal Noise-Adding Mechanism in Differential Privacy",
        authors=("Geng, Quan", "Viswanath, Pramod"),
        year=2016,
        venue="IEEE Transactions on Information Theory",
        volume="62",
        number="2",
        pages="925--951",
        arxiv="1212.1186",
        cited_as=("Geng, Viswanath 2016",),
        used_by=BOUNDED,
    ),
    Source(
        key="kairouz2016discrete",
        kind="inproceedings",
        title="Discrete Distribution Estimation under Local Privacy",
        authors=("Kairouz, Peter", "Bonawitz, Keith", "Ramage, Daniel"),
        year=2016,
        venue=ICML,
        pages="2436--2444",
        arxiv="1602.07387",
        cited_as=("Kairouz, Bonawitz, Ramage 2016",),
        used_by=BOUNDED,
    ),
    Source(
        key="wang2017locally",
        kind="inproceedings",
        title="Locally Differentially Private Protocols for Frequency Estimation",
        authors=("Wang, Tianhao", "Blocki, Jeremiah", "Li, Ninghui", "Jha, Somesh"),
        year=2017,
        venue="USENIX Security Symposium",
        pages="729--745",
        arxiv="1705.04421",
        cited_as=("Wang, Blocki, Li, Jha 2017",),
        used_by=BOUNDED,
    ),
)
