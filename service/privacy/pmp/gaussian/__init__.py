"""Practical membership privacy (PMP) of a sum or mean with Gaussian noise on a random n-subset of N points.

P and Q are the laws of the output with and without a point x, mixtures over subsets. r is the distance of two points in
standard deviations of the noise. Proposition 12 of Lowy et al. 2023 gives an upper bound, and sets of outcomes on a
line give a lower bound.
"""
