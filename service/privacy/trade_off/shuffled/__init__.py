"""Trade-off curves of shuffled reports: means of independent terms, and counts of ones.

`mean_form.py` has the pairs of laws, `mean_atoms.py` lists them for few reports, and `mean_contour.py` encloses their
profiles for many. `ones.py` counts the ones among binary reports. `curves.py` and `profile_curve.py` have the curves.
"""
