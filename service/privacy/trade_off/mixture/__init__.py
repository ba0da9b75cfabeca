"""Curves of mixtures: one of several curves is drawn with given weights, and the attacker learns which one.

A *level* c is a log-likelihood ratio in nats. At the best rates, the curves of all parts have the slope -e^c with one
common level c. *Rows* are arrays with one column for each level or rate. The *profile* is delta(eps), and `swapped`
profiles belong to exchanged hypotheses.
"""
