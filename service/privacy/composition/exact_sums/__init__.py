"""Curves of compositions whose total privacy loss has an explicit law: sums of positive terms in closed form.

The steps are (epsilon, delta)-DP steps or equal Laplace steps. The worst case of an (epsilon, delta)-DP step is a
*randomised response*: with probability delta it reveals everything, else its loss is +epsilon (a *true answer*) or
-epsilon. All terms are positive, so that results keep their relative accuracy.
"""
