"""Claims (`POST /v1/claims`): verdicts on claimed privacy numbers of a run, with an attack for each unsafe claim."""
