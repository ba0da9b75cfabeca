"""Audits: attacks on released gradients or noisy answers, and what measured attacks prove about a mechanism.

H0 is the hypothesis that the record is not in the data (a *non-member*), H1 that it is (a *member*). A *query* is a
record under test. The *false positive rate* is P(says member | H0), and the *power* P(says member | H1). `counts.py`
bounds privacy parameters from counts. `glir.py` and `background.py` test gradients. `glrt.py` simulates an attack
without the direction.
"""
