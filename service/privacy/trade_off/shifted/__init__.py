"""Curves of two copies of one noise law at a distance mu (Gaussian, Laplace), and of mixtures of shifted Gaussians.

F is the distribution function of the noise. Errors are in units u = 2^-53. A *table* holds approximate values that
guide searches.
"""
