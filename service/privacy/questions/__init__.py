"""Questions about a trade-off curve: epsilon, delta, mu of Gaussian DP, membership and reconstruction.

A curve f gives the smallest type II error beta = f(alpha) at each false positive rate alpha; power = 1 - beta. The
*profile* is delta(eps) = sup_alpha power(alpha) - e^eps alpha. L is a log-likelihood ratio in nats. The *prior* p is
the probability of membership. The *safe* bound of an answer never states more privacy than there is. u = 2^-53 is the
unit of rounding.
"""
