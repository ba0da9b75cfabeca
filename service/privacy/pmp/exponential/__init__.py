"""PMP of the exponential mechanism, which draws one of m objects w with probability p(w|D).

p(w|D) is proportional to exp(sum over D of theta_wi), with the *logits* theta_wi = -epsilon loss_wi/(2 Delta). Subsets
are *adjacent* if they differ in one point, and a *swap* replaces a point by another one. "objects x points" is the
shape (m, 2n). PMP is practical membership privacy: the attacker does not know which records were drawn.
"""
