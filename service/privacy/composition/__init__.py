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
The steps below describe how one epsilon at a delta is evaluated.

1. `planning/choose.py` takes the steps of the mechanism under the neighbouring relation and chooses an engine. The
   engines are closed forms for some kinds of steps, contour inversion where a density smooths the sum, and lattices
   otherwise. The plan has the cost and the curves.
2. `inversion/run_law.py` represents the run as a Gaussian step and `Summand` values, made by `summands/catalogue.py`.
   Far losses are truncated at one of few levels. A bound of the truncated mass is added to the error of both bounds.
3. `summands/trapezoid.py` and `summands/trapezoid_contour.py` evaluate M(z) = E0 e^{zL} of one step as a trapezoid sum
   over its outcome y, with bounds of quadrature, truncation and rounding. K(z) = ln E0 e^{zS} is the sum of N ln M(z).
4. `inversion/tilts.py` builds a grid of real tilts theta with K, K', K'' of the run. The tilt with K'(theta) = c is the
   saddle point of the threshold c.
5. `inversion/straight.py` sums e^{K(z) - (z-1)c}/(z(z-1)) over nodes of the vertical contour Re z = theta, which gives
   delta(c), or its complement left of the pole at 1. It bounds the aliases of the sum, the integral beyond the last
   node, the errors of K at the nodes, and rounding. `inversion/deformed/` does so on a deformed contour.
6. `inversion/epsilons.py` evaluates contours near the saddle point until epsilon is narrow: deeper truncation levels
   first, then deformed contours, then bisection with `inversion/evaluation.py`. On each contour,
   `inversion/readings/roots.py` searches the root of delta(c) = delta. With `inversion/readings/profile.py` it proves
   delta(left) >= delta >= delta(right).
7. `planning/contour_inversion.py` builds the run of 2 and wraps its curves. Results that are wider than the tolerance
   are intersected with lattices, and bounded below by sub-runs (`planning/sub_runs.py`).

Sweeps evaluate many runs together (`inversion/many.py`).

Other engines: `exact_sums/` for sums in closed form, `lattice/` for losses with atoms,
`adaptive_exponential/` for exponential mechanisms chosen adaptively, and `ground_truth/` in ball arithmetic.
`comparison/` has approximations that are offered beside bounds.
"""
