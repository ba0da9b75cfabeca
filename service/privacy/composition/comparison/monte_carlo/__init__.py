"""Engine `monte_carlo`: draws of the total privacy loss of a run, with distribution-free confidence intervals."""
