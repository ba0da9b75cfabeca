"""Assessments (`POST /v1/assessments`): answers, hazards and the verdict of a policy about one training run.

A *hazard* is a known way in which such a run is less private than described. The *judged* run is the described run with
the changes of all present hazards. A *rule* of a policy is a question with a limit. An *assumption* is what a number
rests on; an *attestation* is the client's statement on whether it holds. Attackers weaker than the worst case are
*relaxed*.
"""
