"""Composition of the steps of a mechanism: certified curves of the sum of their privacy losses.

The way of one epsilon at a delta. S is the sum of the losses, P0 and P1 its laws without and with the record, and
delta(c) = P1(S > c) - e^c P0(S > c):

1. `planning/choose.py` asks the mechanism for its steps under the neighbouring relation and picks an engine: closed
   forms by the kind of a step, inversion where a density smooths the sum, lattices else. The plan has cost and curves.
2. `inversion/run.py` has the run as a Gaussian step and `Summand` values, made by `summands/catalogue.py`. Far losses
   are truncated at one of few levels; a bound of the truncated mass is added to the error of both ends.
3. `inversion/tilts.py` has a grid of real tilts theta with K, K', K'' of the run, where K(z) = ln E0 e^{zS}. The tilt
   with K'(theta) = c is the saddle point of the threshold c.
4. `inversion/straight.py` sums e^{K(z) - (z-1)c}/(z(z-1)) over nodes of the vertical contour Re z = theta, which is
   delta(c). It bounds what lies between the nodes, beyond the last one, and the rounding. `inversion/deformed/` does
   the same on a deformed contour.
5. `inversion/epsilons.py` takes contours near the saddle point until epsilon is narrow. On each,
   `inversion/readings/roots.py` searches the root of delta(c) = delta, and proves by `inversion/readings/profile.py`
   that delta(left) >= delta >= delta(right). Where no contour has a root, it bisects with `inversion/evaluation.py`.
6. `planning/contour_inversion.py` intersects with lattices what is still wider than the tolerance.

The other engines: `exact_sums/` for sums known in closed form, `lattice/` for losses with atoms,
`adaptive_exponential/` for exponential mechanisms chosen adaptively, `ground_truth/` in ball arithmetic to many digits,
and `comparison/` for approximations that are offered beside bounds.
"""
