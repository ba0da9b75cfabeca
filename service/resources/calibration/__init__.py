"""Calibrations (`POST /v1/calibrations`): the least private value of one number at which every target is met.

The *number* is a field of the request, named by a JSON pointer (for example the noise multiplier). A *target* is a
question with a limit. A *group* is the set of targets that determine the number. The *height* of a target is its
distance from being met, positive while it is not met. The *witness* is the neighbouring number at which a target
provably fails.
"""
