"""Moment generating functions of single steps, with error bounds, and their values on inversion contours.

A *run* is a list of independent steps; a *summand* stands for N equal steps of it. L is the privacy loss of one step in
nats, and S is the sum of all losses of the run. E0 is the expectation under H0, the law without the record. M(z) = E0
e^{zL} is the moment generating function of one step, and K(z) = ln E0 e^{zS} is the sum of N ln M(z). A *node* is a
point of a quadrature rule, and a *strip* a region around the real axis in which the integrand is analytic. *Mirrored*
mixtures have mirror-image laws under both hypotheses.
"""
