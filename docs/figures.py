"""The pictures of the guide, from what the service answers: python docs/figures.py writes docs/guide/figures/*.svg."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from privacy_bounds import Local

FOLDER = Path(__file__).parent / "guide" / "figures"
RUN = {"type": "dpsgd", "noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000}
DELTA = 1e-5
RATES = [10 ** (-6 + step / 10) for step in range(61)]
WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 720, 400, 80, 60, 20, 20
INKS = ("#0b57a4", "#b3560b", "#5a6675")  # told apart without colours by their dashes as well
DASHES = ("", "7 4", "2 4")

Points = Sequence[tuple[float, float]]


def power(
    mechanism: Mapping[str, object], rates: Sequence[float], method: str = "auto"
) -> list[tuple[float, float, float]]:
    """Largest power at each rate: value, lower and upper end (of an approximation its value)."""
    found = Local().power(mechanism, rates, method=method)
    ends = zip(found.value, found.lower, found.upper, strict=True)
    return [(value, lower or value, upper or value) for value, lower, upper in ends]


class Picture:
    """A plane with logarithmic axes, drawn as text, lines and nothing else."""

    def __init__(self, title: str, x: tuple[float, float, str], y: tuple[float, float, str]) -> None:
        self.x, self.y = x, y
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
            f'font-family="system-ui, sans-serif" font-size="14"><title>{title}</title>'
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>'
        ]
        for power_of_ten in range(math.ceil(x[0]), math.floor(x[1]) + 1):
            across = self.across(10.0**power_of_ten)
            self.line([(across, TOP), (across, HEIGHT - BOTTOM)], "#d5dbe2", width=1)
            self.text(across, HEIGHT - BOTTOM + 20, f"1e{power_of_ten}" if power_of_ten else "1", "middle")
        for power_of_ten in range(math.ceil(y[0]), math.floor(y[1]) + 1, 1 if y[1] - y[0] < 9 else 3):
            up = self.up(10.0**power_of_ten)
            self.line([(LEFT, up), (WIDTH - RIGHT, up)], "#d5dbe2", width=1)
            self.text(LEFT - 8, up + 5, f"1e{power_of_ten}" if power_of_ten else "1", "end")
        self.text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 12, x[2], "middle")
        self.parts.append(
            f'<text transform="translate(18 {(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)" text-anchor="middle" '
            f'fill="#1c2430">{y[2]}</text>'
        )

    def across(self, value: float) -> float:
        """Where a value stands from the left."""
        return LEFT + (WIDTH - LEFT - RIGHT) * (math.log10(value) - self.x[0]) / (self.x[1] - self.x[0])

    def up(self, value: float) -> float:
        """Where a value stands from the top."""
        return TOP + (HEIGHT - TOP - BOTTOM) * (1 - (math.log10(value) - self.y[0]) / (self.y[1] - self.y[0]))

    def curve(self, points: Points, style: int, label: str, at: int, below: bool = False) -> None:
        """A curve with its name beside one of its points."""
        placed = [(self.across(x), self.up(y)) for x, y in points]
        self.line(placed, INKS[style], DASHES[style])
        x, y = placed[at]
        self.text(
            x + (10 if below else -10), y + (18 if below else -8), label, "start" if below else "end", INKS[style]
        )

    def line(self, points: Points, ink: str, dash: str = "", width: float = 2.5) -> None:
        """A line through points of the paper."""
        way = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        self.parts.append(f'<polyline points="{way}" fill="none" stroke="{ink}" stroke-width="{width}"{dashes}/>')

    def text(self, x: float, y: float, words: str, anchor: str, ink: str = "#1c2430") -> None:
        """Words at a point of the paper."""
        halo = 'stroke="#ffffff" stroke-width="4" paint-order="stroke"'  # lines below do not cross the words
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{ink}" {halo}>{words}</text>')

    def write(self, name: str) -> None:
        """Into the folder of figures."""
        FOLDER.mkdir(parents=True, exist_ok=True)
        (FOLDER / f"{name}.svg").write_text("\n".join(self.parts) + "\n</svg>\n", "utf-8")


def epsilon_alone() -> None:
    """What the run allows, what its (epsilon, delta) alone would allow, and guessing."""
    epsilon = Local().epsilon(RUN, delta=DELTA).value
    pair = {"type": "approximate_dp", "epsilon": epsilon, "delta": DELTA}
    picture = Picture(
        "Power against false positive rate of one run",
        (-6, 0, "false positive rate: share of non-members that an attack accuses"),
        (-6, 0, "power: share of members that it finds"),
    )
    picture.curve([(rate, rate) for rate in RATES], 2, "guessing", 20, below=True)
    picture.curve(_pairs(RATES, power(pair, RATES)), 1, f"all that ε = {epsilon:.2f}, δ = 1e-5 says", 42)
    picture.curve(_pairs(RATES, power(RUN, RATES)), 0, "what the run allows, proved", 34, below=True)
    picture.write("epsilon_alone")


def widths() -> None:
    """How far apart the ends are, against approximations that have no ends."""
    rates = [10 ** (-6 + step / 4) for step in range(23)]
    exact = power(RUN, rates)
    picture = Picture(
        "Error of three ways to compute the same curve",
        (-6, 0, "false positive rate"),
        (-16, 1, "relative error, or width of the enclosure"),
    )
    for style, (method, label, at) in enumerate(
        (
            ("auto", "certified: lower and upper end", 8),
            ("edgeworth", "Edgeworth series", 10),
            ("clt", "central limit", 1),
        )
    ):
        found = power(RUN, rates, method)
        errors = [
            max((upper - lower) / lower if method == "auto" else abs(value / true[0] - 1), 1e-16)
            for (value, lower, upper), true in zip(found, exact, strict=True)
        ]
        picture.curve(list(zip(rates, errors, strict=True)), style, label, at, below=True)
    picture.write("widths")


def samplers() -> None:
    """Epsilon of one run by how batches are drawn: both ends."""
    run = {"type": "dpsgd", "noise_multiplier": 1.0, "batch_size": 480, "dataset_size": 48000, "epochs": 10}
    rows: list[tuple[str, float, float]] = []
    for sampling in ("poisson", "fixed_without_replacement", "fixed_with_replacement", "shuffled"):
        answer = Local().epsilon(run | {"sampling": sampling}, delta=DELTA, relative_tolerance=1e-4)
        rows.append((sampling, answer.lower or 0.0, answer.upper or 0.0))
    height, scale, left = 44, 17, 220
    total = height * len(rows) + 30
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {total}" role="img" '
        'font-family="system-ui, sans-serif" font-size="14" fill="#1c2430">'
        "<title>Epsilon at delta 1e-5 by sampler</title>"
        f'<rect width="{WIDTH}" height="{total}" fill="#ffffff"/>'
    ]
    for index, (name, lower, upper) in enumerate(rows):
        y = 15 + height * index
        said = f"{upper:.2f}" if upper - lower < 1e-3 * upper else f"between {lower:.2f} and {upper:.2f}"
        parts += [
            f'<text x="{left - 10}" y="{y + 19}" text-anchor="end">{name}</text>',
            f'<rect x="{left}" y="{y}" width="{scale * lower:.1f}" height="28" fill="{INKS[0]}"/>',
            f'<rect x="{left + scale * lower:.1f}" y="{y}" width="{scale * (upper - lower):.1f}" height="28" '
            f'fill="{INKS[1]}"/>',
            f'<text x="{left + scale * upper + 8:.1f}" y="{y + 19}">{said}</text>',
        ]
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / "samplers.svg").write_text("\n".join(parts) + "\n</svg>\n", "utf-8")


def _pairs(rates: Iterable[float], found: Iterable[tuple[float, float, float]]) -> list[tuple[float, float]]:
    return [(rate, value) for rate, (value, _, _) in zip(rates, found, strict=True)]


if __name__ == "__main__":
    epsilon_alone()
    widths()
    samplers()
