"""Sweeps (`POST /v1/sweeps`): the same questions at many values of some numbers of a run.

A *point* is one combination of the varied numbers, and gives a separate request for bounds. A *block* is a range of
points that are evaluated together. A *chunk* is the range of points that a job computes in one piece.
"""
