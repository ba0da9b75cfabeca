"""Composition of the steps of a mechanism: certified curves of the sum of their privacy losses.

Terms
-----
run
    All steps of a mechanism, whose privacy losses add up.
step
    One release of a mechanism.
kind
    Family of laws of one step: Gaussian, sampled Gaussian, Laplace, mixture of Gaussians, two-point, chi-square.
part
    N equal steps of one kind in a run. Arrays of shape (parts, ...) have one row for each part.
profile
    The function delta(c).
jump
    Large loss of a step that uses the record and shows it.
core
    Sum of the losses without jumps. The core is nearly normal, and its standard deviation is much smaller than a jump.
score
    Normal quantile -Phi^-1 of a tail probability: the distance of a threshold in standard deviations.
wide
    An enclosure is wide if its relative width exceeds the width that the request needs.
tilt
    Real part theta of the points z of a contour, and the law with the density e^{theta S - K(theta)} under P0.
straight contour
    Line Re z = theta on which an inversion integral is evaluated.
deformed contour
    Curve that leaves that line towards larger or smaller Re z, so that fewer nodes serve a core and its jumps.
reflected
    With swapped hypotheses: the loss -S of P1 against P0, the remove direction. A `mirrored` mixture is another thing:
    both its hypotheses are mixtures, each the mirror image of the other.
grid
    Nodes of a trapezoid sum for M. A tilt grid holds tilts.
cell
    Interval of half a node distance around a node, or interval between two nodes of a lattice.
lattice
    Equally spaced losses to which a law is rounded upwards and downwards.

Symbols
-------
S is the loss of a run and L that of one step, in nats. P0 and P1, or H0 and H1, are the laws without and with the
record. w = e^L is the likelihood ratio. M(z) = E0 e^{zL} is the transform of one step, and K(z) = ln E0 e^{zS} that of
the run: K is the sum of N ln M. y is the outcome of a step under H0, s a real argument of M, and sigma a noise
multiplier. p is a sampling rate, q the half-width of a strip |Im y| <= q, and h the distance of nodes. c is a threshold
of S, and delta(c) = P1(S > c) - e^c P0(S > c).

From a mechanism to epsilon
---------------------------
The steps below describe how one epsilon at a delta is evaluated, for example that of 1000 sampled Gaussian steps.

1. `planning/choose.py`: `plan` takes the steps of the mechanism under the neighbouring relation (`steps_of`), and
   `_composition` chooses an engine. The engines are closed forms for some kinds of steps, contour inversion where a
   density smooths the sum, and lattices otherwise. A `Plan` has the cost and the curves, which are built on first use.
   Each step describes itself to the engines: `AbstractStep.part` returns a `SampledGaussianPart` here.
2. `planning/contour_inversion.py`: `invert` plans the contours. `_contour` makes the run with `described_run` of
   `summands/catalogue.py`, the registry of kinds: one Gaussian step, and a `Summand` for each other kind of step.
   `contour_pair` of `inversion/engine.py` makes two curves, `ContourTradeOff`, for add and for remove. They share the
   run (`inversion/run_law.py`). The transform of remove is K(1 - z), and the caller takes the larger epsilon.
3. The curve that answers is `DataProcessingBound(Intersected(ContourTradeOff, lattices))`, of `trade_off/combinators/`.
   Lattices, and lower bounds from sub-runs (`planning/sub_runs.py`), are evaluated only where an enclosure is wide.
4. `inversion/epsilons.py`: `evaluate_epsilon` evaluates contours near the saddle point until epsilon is narrow: deeper
   truncation levels first, then deformed contours, then bisection with `inversion/evaluation.py`. At each level
   (`RunLaw.levels`), `RunLaw.transform` is the run without far losses. `inversion/tilts.py` builds a grid of real tilts
   theta with its K, K', K''. The tilt with K'(theta) = c is the saddle point of the threshold c (`TiltGrid.for_delta`).
5. On each contour, `solve_profile` of `inversion/readings/roots.py` finds the root of delta(c) = delta by Newton's
   method, without bounds. `prove_root` then proves delta(left) >= delta >= delta(right) with enclosures of the profile
   (`inversion/readings/profile.py`). The profile falls, so epsilon lies between left and right.
6. `inversion/straight.py`: `StraightContour.integrals` sums e^{K(z) - (z-1)c}/(z(z-1)) over nodes of the vertical
   contour Re z = theta, which gives delta(c), or its complement left of the pole at 1. Its `margin` is the error
   bound. The margin has the errors of K at the nodes, the integral beyond the last node, the aliases of the sum,
   rounding, and the truncated mass. `inversion/deformed/` does so on a deformed contour.
7. `summands/trapezoid.py` and `summands/trapezoid_contour.py` evaluate M(z) = E0 e^{zL} of one step as a trapezoid sum
   over its outcome y, with bounds of quadrature, truncation and rounding. K(z) = ln E0 e^{zS} is the sum of N ln M(z).

Sweeps evaluate many runs together (`inversion/many.py`).

Other engines: `exact_sums/` for sums in closed form, `lattice/` for losses with atoms,
`adaptive_exponential/` for exponential mechanisms chosen adaptively, and `ground_truth/` in ball arithmetic.
`comparison/` has approximations that are offered beside bounds.
"""
