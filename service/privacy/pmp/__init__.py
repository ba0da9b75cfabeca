"""Practical membership privacy (PMP, Lowy et al. 2023): the attacker does not know which records were drawn.

The *parent set* X (also *population*) has N points, and the data D are a uniform n-subset of them, mostly n = N/2. The
*PMP parameter* is the smallest epsilon (nats) for which P(output | x in D) and P(output | x not in D) differ by a
factor of at most e^epsilon for every point x. (epsilon, delta)-PMP allows an excess of delta. u = 2^-53 is the unit of
rounding.
"""
