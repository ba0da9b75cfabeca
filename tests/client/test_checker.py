"""The independent checker: laws of its enclosures, an oracle, verdicts at the edges, and what it rests on."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import mpmath
import pytest
from flint import arb, ctx

import privacy_bounds.checker
from privacy_bounds.checker import CheckerVerdict, NotDecided, Step, check_delta, check_power, sampled_step
from privacy_bounds.checker.guide import Guide
from privacy_bounds.checker.readings import largest_power, profile
from privacy_bounds.checker.steps import Direction
from tests.slow_marker import thorough

LARGEST = 400
FOLDER = Path(privacy_bounds.checker.__file__).parent
MIXTURE = Step(
    Fraction(2), (Fraction(0), Fraction(1), Fraction(5, 2)), (Fraction(7, 10), Fraction(1, 5), Fraction(1, 10))
)
RUNS: dict[str, list[Step]] = {
    "sampled": [sampled_step(1.0, 0.01, 1000)],
    "phases": [sampled_step(1.0, 0.05, 60), sampled_step(2.0, 0.1, 40)],
    "with a plain step": [sampled_step(0.7, 0.3), sampled_step(2.0, 1.0, 3)],
    "mixture": [Step(MIXTURE.noise, MIXTURE.shifts, MIXTURE.weights, 30)],
    "one step": [sampled_step(1.0, 0.2)],
    "plain": [sampled_step(1.5, 1.0, 2)],
    "mirrored": [sampled_step(1.0, 0.05, 100, mirrored=True)],
}
FAST = ("one step", "plain")
DIRECTIONS: tuple[Direction, Direction] = ("add", "remove")


@pytest.fixture(autouse=True)
def _many_bits() -> Iterator[None]:
    before = ctx.prec
    ctx.prec = 160
    yield
    ctx.prec = before


def _delta(steps: list[Step], eps: float, direction: Direction = "add", nats: int = 30) -> arb:
    return profile(steps, direction, eps, nats)(arb(eps))


def _agree(one: arb, two: arb, digits: int) -> None:
    assert one.overlaps(two), (one, two)
    assert (one - two).abs_upper() < arb(10) ** -digits


@pytest.mark.parametrize(
    ("run", "eps"), [row if row[1] else thorough(*row) for row in product(RUNS, (0.4, 0.0))] + [("one step", 0.0)]
)
def test_the_two_directions_are_dual(run: str, eps: float) -> None:
    """Check delta_remove(eps) = 1 - e^eps + e^eps delta_add(-eps).

    Two contours on different sides of the poles give both numbers.
    """
    add, remove = _delta(RUNS[run], -eps), _delta(RUNS[run], eps, "remove")
    _agree(remove, 1 - arb(eps).exp() + arb(eps).exp() * add, 12)


@pytest.mark.parametrize("eps", [thorough(0.0), 0.3])
def test_a_replaced_record_has_one_profile(eps: float) -> None:
    run = RUNS["mirrored"]
    _agree(_delta(run, eps), _delta(run, eps, "remove"), 12)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_steps_add_up(direction: Direction) -> None:
    whole = _delta([sampled_step(1.1, 0.07, 90)], 0.8, direction)
    _agree(whole, _delta([sampled_step(1.1, 0.07, 40), sampled_step(1.1, 0.07, 50)], 0.8, direction), 12)
    weights = (Fraction(1) - Fraction(0.07) - Fraction(1, 50), Fraction(1, 50), Fraction(0.07))
    split = Step(Fraction(1.1), (Fraction(0), Fraction(0), Fraction(1)), weights, 90)
    _agree(whole, _delta([split], 0.8, direction), 12)


@pytest.mark.parametrize(
    ("eps", "direction"), [(0.3, "add"), (0.3, "remove"), thorough(-0.5, "add"), thorough(2.5, "remove")]
)
def test_a_sampled_step_beside_a_plain_one(eps: float, direction: Direction) -> None:
    """A sampled step beside a plain one has the delta of an integral in mpmath.

    The closed form of the plain step is integrated over the output of the sampled one.
    """
    noise, rate, mu = 0.8, 0.3, 0.7
    with mpmath.workdps(30):
        sign = 1 if direction == "add" else -1

        def ratio(y: Any) -> Any:
            return 1 - mpmath.mpf(rate) + mpmath.mpf(rate) * mpmath.exp(y / noise - 1 / (2 * mpmath.mpf(noise) ** 2))

        def plain(x: Any) -> Any:
            return mpmath.ncdf(mu / 2 - x / mu) - mpmath.exp(x) * mpmath.ncdf(-mu / 2 - x / mu)

        def integrand(y: Any) -> Any:
            density = mpmath.npdf(y) * (ratio(y) if sign > 0 else 1)
            return density * plain(eps - sign * mpmath.log(ratio(y)))

        expected = mpmath.quad(integrand, [-14, -4, -1, 1, 4, 8, 16])
    found = _delta([sampled_step(noise, rate), sampled_step(1 / mu, 1.0)], eps, direction)
    assert abs(mpmath.mpf(found.mid().str(30, radius=False)) - expected) < mpmath.mpf(10) ** -15


def test_a_plain_step_has_the_published_delta() -> None:
    """A plain step with sigma = 1 has delta Phi(-1/2) - e Phi(-3/2) at eps = 1, by mpmath.

    The formula is Theorem 5 of Balle and Wang 2018.
    """
    with mpmath.workdps(40):
        delta = Fraction(str(mpmath.ncdf(-0.5) - mpmath.e * mpmath.ncdf(-1.5)))
    tiny = Fraction(1, 10**25)
    assert check_delta([sampled_step(1.0, 1.0)], 1.0, delta + tiny, "add").status == "proved"
    assert check_delta([sampled_step(1.0, 1.0)], 1.0, delta - tiny, "add").status == "refuted"


@pytest.mark.parametrize(
    ("run", "direction"),
    [(run, "add") if run in FAST else thorough(run, "add") for run in RUNS] + [("plain", "remove")],
)
def test_power_is_dual_to_the_profile(run: str, direction: Direction) -> None:
    """The power at alpha is at most e^c alpha + delta(c) for all c, with equality at one of them."""
    power = largest_power(RUNS[run], direction, Fraction(1, 20), 30)
    assert power.rad() < 1e-7
    lines = [arb(c).exp() / 20 + _delta(RUNS[run], c, direction) for c in (0.0, 0.5, 1.0, 2.0)]
    assert all(not line < power for line in lines)


def _perturbed(seed: int) -> Callable[[Guide], None]:
    random, place = Random(seed), Guide.place_contour

    def place_badly(self: Guide) -> None:
        place(self)
        self.theta = 1 + (self.theta - 1) * random.uniform(0.6, 1.6)
        self.above = self.theta + (self.above - self.theta) * random.uniform(0.5, 2)
        self.below *= random.uniform(0.5, 2)
        self.h *= random.uniform(0.7, 1.5)
        self.count = max(2, int(self.count * random.uniform(0.4, 1.2)))
        self.nats *= random.uniform(0.3, 1)

    return place_badly


@pytest.mark.parametrize("seed", [seed if seed < 2 else thorough(seed) for seed in range(30)])
def test_bad_choices_of_a_contour_only_widen(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Contours that are chosen badly widen an enclosure, which still contains the truth.

    The checker chooses contours in doubles, and no proof rests on this choice.
    """
    names = [name for name in RUNS if name not in ("one step", "plain")]
    run, direction = RUNS[names[seed % len(names)]], DIRECTIONS[seed % 2]
    truth = _delta(run, 0.7, direction, 40)
    monkeypatch.setattr(Guide, "place_contour", _perturbed(seed))
    found = _delta(run, 0.7, direction, 20)
    assert found.contains(truth)
    assert found.rad() > truth.rad()


RARE = [sampled_step(1.0, 0.001, 6), sampled_step(0.8, 0.01, 2)]


@pytest.mark.parametrize("seed", [thorough(seed) for seed in range(6)])
def test_bad_choices_only_widen_where_samples_are_rare(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bad choices for runs with rare samples widen an enclosure, which still contains the truth.

    The choices are the thresholds that divide the outcomes, their widths, and an exponent.
    """
    truth, random, place = _delta(RARE, 0.7, nats=30), Random(seed), _perturbed(seed)

    def place_badly(self: Guide) -> None:
        place(self)
        assert self.cuts
        self.cuts = {step: cut * random.uniform(0.8, 1.1) for step, cut in self.cuts.items()}
        self.widths = {step: width * random.uniform(0.7, 1.1) for step, width in self.widths.items()}
        self.beyond *= random.uniform(0.5, 1.5)

    monkeypatch.setattr(Guide, "place_contour", place_badly)
    found = _delta(RARE, 0.7, nats=20)
    assert found.contains(truth)
    assert found.rad() > truth.rad()


ONE_CHOICE: dict[str, Callable[[Guide], object]] = {
    "cuts": lambda guide: {step: 1.15 * cut for step, cut in guide.cuts.items()},
    "beyond": lambda guide: 1 + 0.5 * (guide.beyond - 1),
    "count": lambda guide: guide.count // 2,
    "h": lambda guide: 1.5 * guide.h,
    "nats": lambda guide: 0.4 * guide.nats,
    "above": lambda guide: guide.theta + 0.3 * (guide.above - guide.theta),
}


@pytest.mark.parametrize("choice", [thorough(choice) for choice in ONE_CHOICE])
def test_each_bad_choice_is_covered_by_its_own_bound(choice: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each bad choice is covered by the bound of the error that it makes large.

    Only one error is large, so the bounds of other errors cannot hide a wrong one.
    """
    truth, place = _delta(RARE, 0.7, nats=30), Guide.place_contour

    def place_badly(self: Guide) -> None:
        place(self)
        assert self.cuts
        setattr(self, choice, ONE_CHOICE[choice](self))

    monkeypatch.setattr(Guide, "place_contour", place_badly)
    found = _delta(RARE, 0.7, nats=20)
    assert found.contains(truth)
    assert found.rad() > truth.rad()


@pytest.mark.parametrize(
    "choices",
    [
        {"cuts": dict.fromkeys(RARE, 3.0), "flip": True},
        {"cuts": dict.fromkeys(RARE, 3.0), "mu_squared": 1},
        {"h": -1.0},
    ],
)
def test_choices_outside_the_range_of_the_proof_decide_nothing(
    choices: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checker decides nothing if a choice is outside the range of its proof.

    A threshold that divides the outcomes is for sampled steps in the direction add, and distances are positive.
    """
    monkeypatch.setattr(Guide, "place_contour", lambda self: vars(self).update(choices))
    monkeypatch.setattr(Guide, "h", 1.0, raising=False)
    with pytest.raises(NotDecided, match="range of the proof"):
        _delta(RARE, 0.7)


def test_a_claim_inside_the_smallest_enclosure_is_not_decided() -> None:
    steps = RUNS["with a plain step"]
    middle = _delta(steps, 1.0, nats=60).mid().str(45, radius=False)
    truth = Fraction(middle)
    found = check_delta(steps, 1.0, truth, "add")
    assert found.status == "not_decided"
    assert found.lower is not None
    assert found.upper is not None
    assert Fraction(found.lower) <= truth <= Fraction(found.upper)
    assert check_delta(steps, 1.0, truth * (1 + Fraction(1, 10**18)), "add").status == "proved"
    assert check_delta(steps, 1.0, truth * (1 - Fraction(1, 10**18)), "add").status == "refuted"


def test_zero_is_proved_where_no_loss_is_larger() -> None:
    """The checker proves delta = 0 where no loss is larger than eps.

    Removing a record from N steps at rate q lowers no likelihood by more than the factor (1 - q)^N.
    """
    steps = [sampled_step(1.0, 0.25, 3)]
    assert check_delta(steps, 0.8631, 0.0, "remove").status == "proved"
    assert check_delta([sampled_step(1.0, 0.25)], 0.2876, 0.0, "remove").status == "refuted"


@pytest.mark.parametrize(
    ("steps", "epsilon", "delta"),
    [([sampled_step(2.0, 0.01, 500)], 12.0, 1e-300), ([sampled_step(50.0, 1e-3, 10**9)], 3.0, 1e-7)],
)
def test_small_tails_and_long_runs(steps: list[Step], epsilon: float, delta: float) -> None:
    """The checker proves a number just above the truth and refutes one just below, within a factor of 1 + 1e-9."""
    found = check_delta(steps, epsilon, delta, "add")
    assert found.lower is not None
    assert found.upper is not None
    middle = (Fraction(found.lower) + Fraction(found.upper)) / 2
    assert check_delta(steps, epsilon, middle * (1 + Fraction(1, 10**9)), "add").status == "proved"
    assert check_delta(steps, epsilon, middle * (1 - Fraction(1, 10**9)), "add").status == "refuted"


def test_power_at_a_small_rate() -> None:
    """The power of one Gaussian with mu = 1 at alpha = 1e-12 is Phi(Phi^-1(alpha) + 1), by mpmath."""
    with mpmath.workdps(40):
        threshold = mpmath.findroot(lambda x: mpmath.ncdf(-x) - mpmath.mpf(1e-12), 7)
        power = Fraction(str(mpmath.ncdf(1 - threshold)))
    run, slightly = [sampled_step(1.0, 1.0)], Fraction(1, 10**15)
    assert check_power(run, 1e-12, power * (1 + slightly), "add").status == "proved"
    assert check_power(run, 1e-12, power * (1 - slightly), "add").status == "refuted"
    assert check_power(run, 0.0, 0.0, "add").status == check_power(run, 1.0, 1.0, "add").status == "proved"


@pytest.mark.parametrize(
    "steps", [[sampled_step(1.0, 1e-6, 10), sampled_step(1e4, 1.0)], [sampled_step(1e-4, 0.5, 10)]]
)
def test_out_of_reach_is_not_decided_with_a_reason(steps: list[Step]) -> None:
    found = check_delta(steps, 0.5, 1e-6, "add")
    assert found.status == "not_decided"
    assert found.reason


@pytest.mark.parametrize(
    ("noise", "shifts", "weights", "count"),
    [(0, (1,), (1,), 1), (1, (-1,), (1,), 1), (1, (0, 1), (1,), 1), (1, (1,), (2,), 1), (1, (1,), (1,), 0)],
)
def test_a_step_is_a_pair_of_laws(noise: int, shifts: tuple[int, ...], weights: tuple[int, ...], count: int) -> None:
    with pytest.raises(ValueError, match="positive"):
        Step(Fraction(noise), tuple(map(Fraction, shifts)), tuple(map(Fraction, weights)), count)


def test_precision_is_given_back() -> None:
    ctx.prec = 77
    check_delta(RUNS["sampled"], 1.0, 1e-3, "add")
    assert ctx.prec == 77


def test_the_checker_is_short_and_imports_only_balls() -> None:
    lines = 0
    for path in FOLDER.glob("*.py"):
        source = path.read_text()
        tree = ast.parse(source)
        texts = [node for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)]
        prose = {line for node in texts for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)}
        skipped = {
            tokenize.COMMENT,
            tokenize.NL,
            tokenize.NEWLINE,
            tokenize.INDENT,
            tokenize.DEDENT,
            tokenize.ENDMARKER,
        }
        tokens = tokenize.generate_tokens(io.StringIO(source).readline)
        code = {
            line for token in tokens if token.type not in skipped for line in range(token.start[0], token.end[0] + 1)
        }
        lines += len(code - prose)
        modules = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        foreign = {name.split(".")[0] for name in modules} - {"flint", "privacy_bounds"}
        assert foreign <= {"__future__", "collections", "dataclasses", "fractions", "functools", "statistics", "typing"}
        assert all(name.startswith("privacy_bounds.checker") for name in modules if name.startswith("privacy_bounds"))
    assert 0 < lines <= LARGEST


def test_a_verdict_shows_its_enclosure() -> None:
    found = check_delta(RUNS["sampled"], 1.0, 3e-3, "add")
    assert found == CheckerVerdict("proved", "the upper bound is at most the claim", found.lower, found.upper)
    assert Fraction(found.lower or "9") <= Fraction(found.upper or "0") <= Fraction(3, 1000)
