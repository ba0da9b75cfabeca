"""Steps on batches of a fixed size or of shuffled data, and the pairs of laws that follow for given neighbours.

A *pair* is the law of the release without the record and the law with it. N(m) is the normal law with mean m and
variance 1 in units of the noise, sigma is the noise on the sum of gradients of length at most 1, and mu = 1/sigma. u is
a unit vector.
"""
