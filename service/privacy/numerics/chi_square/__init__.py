"""Noncentral chi-square laws: certified tails, quantiles and densities.

The variable is X = |Z + c|^2 with a standard normal vector Z in d dimensions (*degrees of freedom*) and |c|^2 = nc
(*noncentrality*). A *saddle* w is the point at which the inversion contour crosses the real axis. u = 2^-53 is the unit
of rounding.
"""
