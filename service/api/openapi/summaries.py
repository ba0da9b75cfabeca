"""Summaries of the operations in the published document."""

from __future__ import annotations

from typing import Final

SUMMARIES: Final = {
    "bounds": "Compute bounds for one mechanism",
    "curves": "Compute trade-off curves",
    "calibrations": "Calibrate one number to targets",
    "sweeps": "Answer questions about many runs",
    "assessments": "Assess one run",
    "imports": "Import a mechanism from another library",
    "comparisons": "Compare several runs",
    "claims": "Check privacy claims",
    "certificates": "Prove one number independently",
    "gdp_gmip": "Convert between GDP and membership privacy",
    "membership_conversions": "Invert membership bounds of pure differential privacy",
    "attack_counts_audit": "Audit a mechanism by attack counts",
    "glir_audit": "Audit released gradients by likelihood ratios",
    "glrt_audit": "Simulate an attack with unknown direction",
    "pmp_exponential": "Compute PMP of the exponential mechanism",
    "pmp_finite": "Compute PMP of a finite mechanism",
    "pmp_gaussian": "Compute PMP of a Gaussian release",
    "pmp_simulations": "Simulate PMP on random parent sets",
    "submit_job": "Submit a job",
    "list_jobs": "List the jobs of the client",
    "estimate": "Estimate the cost of a request",
    "job": "Get a job",
    "cancel_job": "Cancel a job",
    "job_events": "Stream the progress of a job",
    "job_results": "Get the results of a job",
    "result": "Get a stored result",
    "decision": "Get a stored decision",
    "public_keys": "Get the public keys of signed statements",
    "catalogue": "List mechanisms, questions and resources",
    "sources": "List the software and its sources as BibTeX",
    "limits": "Get the limits of requests",
    "version": "Get the versions of software and engine",
    "livez": "Check that the process is alive",
    "readyz": "Check that the service is ready",
    "metrics": "Get metrics",
}
"""Summary by `operationId`."""
