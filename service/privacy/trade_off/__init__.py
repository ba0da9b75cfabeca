"""Trade-off curves: what the best attack can reach, as enclosures (`lower <= truth <= upper`).

H0 and H1 are the hypotheses of an attacker, L = ln dH1/dH0 is the log-likelihood ratio (loss) in nats. f(alpha) is the
smallest type II error at false positive rate alpha; power = 1 - f. The *profile* is delta(eps) = sup_alpha power(alpha)
- e^eps alpha. The direction *add* has the record absent under H0, *remove* swaps the hypotheses. g_mu is the curve of
N(0, 1) against N(mu, 1). A *level* c is a log-likelihood ratio at which the slope of f is -e^c. A *cell* is an interval
between two nodes. u = 2^-53 is the unit of rounding.
"""
