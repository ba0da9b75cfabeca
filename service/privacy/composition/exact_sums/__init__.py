"""Curves of compositions whose total privacy loss has an explicit law: sums of positive terms in closed form.

The steps are (epsilon, delta)-DP steps (*randomised responses*, with a loss of +epsilon or -epsilon) or equal Laplace
steps. All terms are positive, so that results keep their relative accuracy.
"""
