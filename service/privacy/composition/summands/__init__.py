"""Moment generating functions of single steps, with error bounds, and their values on inversion contours.

A *run* is a list of independent steps; a *summand* stands for N equal steps of it. L is the privacy loss of one step,
M(z) = E0 e^{zL} is its moment generating function, and K = sum N ln M(z) that of the run in logarithms. A *node* is a
point of a quadrature rule, and a *strip* a region around the real axis in which the integrand is analytic. *Mirrored*
mixtures have mirror-image laws under both hypotheses.
"""
