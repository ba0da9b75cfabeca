"""Composition of the steps of a mechanism: certified curves of the sum of their privacy losses.

The way of one epsilon at a delta:

1. `planning/choose.py` asks the mechanism for its steps under the neighbouring relation and picks an engine by
   properties of their losses (a density? bounded? how many atoms?). The plan has the cost of the engine and the curves.
2. `inversion/run.py` has the run as a Gaussian step and `Summand` values, made by `summands/catalogue.py`. Far losses
   are truncated at one of few levels; the truncated mass is bounded and goes to the upper end.
3. `inversion/tilts.py` has a grid of real tilts s with K(s), K'(s) and K''(s) of the run, where K(s) = ln E0 e^{sS} and
   S is the sum of losses under H0. The tilt with K'(s) = c is the saddle point of the threshold c.
4. `inversion/straight.py` sums e^{K(z) - zc} over nodes of the vertical contour Re z = s. It bounds what lies between
   the nodes, beyond the last one, and the rounding. `inversion/deformed/` does the same on a deformed contour.
5. `inversion/evaluation.py` evaluates delta at an epsilon on the contours that serve it, until it is narrow enough;
   `inversion/epsilons.py` searches the root in epsilon, and proves a threshold on each side of it.

The other engines: `exact_sums/` for sums known in closed form, `lattice/` for losses with atoms,
`adaptive_exponential/` for exponential mechanisms chosen adaptively, `ground_truth/` in ball arithmetic to many digits,
and `comparison/` for approximations that are offered beside bounds.
"""
