"""Curves of sampled steps, and of two independent steps by sums over cells of the loss of one step.

With sampling rate p, H0 is P0 and H1 is (1 - p) P0 + p P1 (direction *add*; *remove* swaps them). A *cell* is an
interval of the noise, with its masses w0 and w1 under both hypotheses, and bounds of the log-likelihood ratio l inside
it.
"""
