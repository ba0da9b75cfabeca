"""Approximations for comparison with certified bounds: asymptotic engines, and sampling (Monte Carlo)."""
