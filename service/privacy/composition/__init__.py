"""Composition of the steps of a mechanism: certified curves of the sum of their privacy losses.

The steps below describe how one epsilon at a delta is evaluated. S is the sum of the losses. P0 and P1 are its laws
without and with the record, and delta(c) = P1(S > c) - e^c P0(S > c).

1. `planning/choose.py` requests the steps of the mechanism under the neighbouring relation and chooses an engine. The
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
   are intersected with lattices, and bounded below by parts of the run (`planning/sub_runs.py`).

Sweeps evaluate many runs together (`inversion/many.py`).

The other engines complete the set: `exact_sums/` for sums in closed form, `lattice/` for losses with atoms,
`adaptive_exponential/` for exponential mechanisms chosen adaptively, and `ground_truth/` in ball arithmetic.
`comparison/` has approximations that are offered beside bounds.
"""
