"""Reports of many persons by one local randomiser, released in a secret random order.

`pairs.py` has the dominating and the attained pairs of laws, with their proofs. `steps.py` has the resolved steps, and
`shuffled_reports.py` the mechanism.
"""
