"""Meaning and remedies of each type of problem: the texts of the pages `/problems/...`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class ProblemText:
    """Texts about one type of problem.

    `meaning` explains what happened, and `remedies` what the caller can do, most likely remedy first. Code stands
    between backquotes.
    """

    meaning: str
    remedies: tuple[str, ...]


_SMALLER: Final = "Send fewer questions, fewer points or fewer false positive rates."
_TOLERANCE: Final = "Send a larger `tolerance`: wide bounds cost less than narrow ones."
_JOB: Final = (
    "Send the request to `POST /v1/jobs`, or with the header `Prefer: respond-async`. Jobs have larger limits."
)
_RETRY: Final = "Send the request again after the time in the header `Retry-After`."
_LIMITS: Final = "`GET /v1/limits` lists all limits of the service."
_REPORT: Final = (
    "If it happens again, report it to the operator of the service with the `request_id`. The logs contain the cause."
)

TEXTS: Final[Mapping[str, ProblemText]] = {
    "/problems/authentication-unavailable": ProblemText(
        "The service cannot read the keys with which it checks credentials. The credentials may be valid.",
        (_RETRY, _REPORT),
    ),
    "/problems/body-too-large": ProblemText(
        "The body of the request is longer than the service reads.",
        (
            "Send equal neighbouring phases of a schedule or history as one phase with more steps.",
            "Send arrays as an `.npz` archive if the resource accepts one. Archives have a larger limit.",
            _LIMITS,
        ),
    ),
    "/problems/compute-budget-exceeded": ProblemText(
        "The estimated cost of the request is above the limit. The service computed nothing. `estimated_cost` and "
        "`limit` are in work units of about one microsecond.",
        (_JOB, _SMALLER, _TOLERANCE, "Send the request to `POST /v1/estimates`: it returns the cost and the reason."),
    ),
    "/problems/decision-not-found": ProblemText(
        "The service has no decision with this id. It forgets decisions together with their results.",
        (
            "Send the assessment again, with its policy.",
            "Check that the id is complete: it is the digest of a decision.",
        ),
    ),
    "/problems/headers-too-large": ProblemText(
        "The headers of the request, names and values together, are longer than the service reads.",
        ("Remove headers that the service does not need, for example cookies.", _LIMITS),
    ),
    "/problems/http-error": ProblemText(
        "The request is not acceptable for a reason that HTTP itself defines. The `status` names the reason.",
        ("Compare the request with the description of its path at `/docs`.",),
    ),
    "/problems/http-version-not-supported": ProblemText(
        "The request line names a version of HTTP other than 1.1 and 1.0.",
        ("Send the request with HTTP/1.1. A proxy before the service can translate HTTP/2 and HTTP/3.",),
    ),
    "/problems/idempotency-key-reused": ProblemText(
        "The header `Idempotency-Key` was sent before with another request. The earlier job is unchanged.",
        ("Choose a new key for a new job.", "Repeat a key only with exactly the same request."),
    ),
    "/problems/internal-error": ProblemText(
        "The service failed in a way that it does not expect. The request is not the reason.",
        ("Send the request again.", _REPORT),
    ),
    "/problems/invalid-parameter": ProblemText(
        "A query parameter, a part of the path or a header has a value outside its range, or the path has no such "
        "query parameter.",
        ("Read `detail`: it names the parameter and its range.", "Find all parameters of the path at `/docs`."),
    ),
    "/problems/invalid-request": ProblemText(
        "The body is valid JSON, but not a valid request. Each entry of `errors` has a `pointer` to a position in the "
        "body and the rule that this position breaks.",
        (
            "Correct every position in `errors`. A misspelled name comes with the most similar name.",
            "Compare the body with the examples at `/docs`, or with the fields at `GET /v1/catalogue`.",
        ),
    ),
    "/problems/job-not-found": ProblemText(
        "The service has no job with this id. It forgets a job some time after the job has ended.",
        (
            "List your jobs with `GET /v1/jobs`.",
            "Send the request again. A request that was answered before is often answered from the cache.",
        ),
    ),
    "/problems/jobs-unavailable": ProblemText(
        "The storage of the jobs does not answer, or it has no room. Accepted jobs are kept. Requests that are "
        "answered at once still work.",
        (_RETRY, "Send the request without `Prefer: respond-async`, if its cost is below the limit."),
    ),
    "/problems/malformed-http": ProblemText(
        "The bytes on the connection are not an HTTP request, or the client sent too many requests before it read an "
        "answer.",
        ("Use a client library for HTTP.", "Read answers before you send further requests on the same connection."),
    ),
    "/problems/malformed-json": ProblemText(
        "The body is not JSON (RFC 8259).",
        (
            "Check quotes, commas and brackets at the position that `detail` or `errors` names.",
            "Send numbers as JSON numbers. JSON has no `NaN` and no `Infinity`; send a finite number.",
        ),
    ),
    "/problems/method-not-allowed": ProblemText(
        "The path exists, but does not take this method.",
        ("Use one of the methods that the header `Allow` lists.", "Computations take `POST` with a JSON body."),
    ),
    "/problems/missing-scope": ProblemText(
        "The credentials are valid, but do not include the scope that the path needs. The header `WWW-Authenticate` "
        "names the scope.",
        (
            "Use credentials with this scope.",
            "Get a key with this scope from the operator of the service.",
        ),
    ),
    "/problems/not-acceptable": ProblemText(
        "The resource has no representation in any media type of the header `Accept`.",
        (
            "Accept one of the media types in `supported`.",
            "Send no `Accept` header, or `Accept: application/json`: every resource answers in JSON.",
            "Signed statements need a service with a signing key.",
        ),
    ),
    "/problems/not-found": ProblemText(
        "There is nothing at this path.",
        ("Find all paths at `/docs`, and all resources at `GET /v1/catalogue`.", "Paths have no slash at their end."),
    ),
    "/problems/numerical-failure": ProblemText(
        "A check of the computation failed. The service returns no number, since no bound is certain.",
        (
            "Send the request with another `method`: `ground_truth` computes with other algorithms.",
            _REPORT,
        ),
    ),
    "/problems/out-of-domain": ProblemText(
        "A value is allowed by the schema, but the theorem behind the answer does not cover it.",
        ("Change the value at `pointer` to the domain in `detail`.",),
    ),
    "/problems/out-of-memory": ProblemText(
        "The computation needs more memory than a worker process may use. Other requests are not affected.",
        (_SMALLER, _TOLERANCE, _LIMITS),
    ),
    "/problems/out-of-time": ProblemText(
        "The computation reached its time limit and was stopped.",
        (_JOB, _SMALLER, _TOLERANCE),
    ),
    "/problems/overloaded": ProblemText(
        "Too many computations wait for a worker. The service drops requests of the caller with the most first.",
        (_RETRY, "Send fewer requests at once.", "Send many equal questions as one request to `POST /v1/sweeps`."),
    ),
    "/problems/request-timeout": ProblemText(
        "The headers and the body of the request did not arrive within the time limit.",
        ("Send the request again on a new connection.", "Send a smaller body, or use a faster connection."),
    ),
    "/problems/result-not-found": ProblemText(
        "The service has no result with this digest. Unused results expire.",
        ("Send the request again. The same request on the same engine version has the same digest.",),
    ),
    "/problems/result-quarantined": ProblemText(
        "Two independent engines computed this result, and their bounds have no common point. One of them is wrong, so "
        "the service serves neither.",
        (
            "Do not use copies of this result that you received before.",
            "Report the digest of the result to the operators of the service.",
            "Send the request again after an upgrade of the engine.",
        ),
    ),
    "/problems/shutting-down": ProblemText(
        "This instance of the service is shutting down, for example for an upgrade.",
        (_RETRY, "Behind a load balancer, the next attempt reaches another instance."),
    ),
    "/problems/too-many-connections": ProblemText(
        "The number of open connections is at its limit, in total or for one address.",
        ("Close connections that you do not need, and reuse the others.", _RETRY),
    ),
    "/problems/unauthenticated": ProblemText(
        "The path needs credentials, and the request has none, or has credentials that are not valid.",
        (
            "Send an API key or a token in the header `Authorization`, after the word `Bearer` and a space.",
            "Check that the key is complete, and that it has neither expired nor been revoked.",
            "Get a key from the operator of the service. On the page, put the key into the field for it.",
        ),
    ),
    "/problems/unsupported-combination": ProblemText(
        "Every value is valid by itself, but no theorem covers the combination.",
        (
            "Choose one of the alternatives in `supported`.",
            "Read `detail`: it names the missing theorem or property.",
        ),
    ),
    "/problems/unsupported-media-type": ProblemText(
        "The header `Content-Type` names a format that the resource does not read.",
        ("Send JSON with the header `Content-Type: application/json`, without compression.",),
    ),
    "/problems/uri-too-long": ProblemText(
        "The path and the query together are longer than the service reads.",
        ("Send the data in the body of a `POST` request.", _LIMITS),
    ),
    "/problems/work-limit-exceeded": ProblemText(
        "The caller has used up the work that the operator allows in one window of time. The service computed nothing. "
        "`estimated_cost` is the cost of this request, and `limit` the work of a whole window. Both are in work units "
        "of about one microsecond.",
        (
            _RETRY,
            "Read the header `RateLimit` of earlier responses: it has the remaining units, and the seconds until they "
            "return.",
            "Send closed forms, and requests that were answered before. They cost almost nothing.",
            _SMALLER,
            "Request a higher limit from the operator of the service (`PRIVACY_BOUNDS_WORK_LIMIT`).",
        ),
    ),
    "/problems/worker-died": ProblemText(
        "The process of the computation ended before it answered. Other requests are not affected.",
        ("Send the request again.", _REPORT),
    ),
}
"""Text of every type of problem, by its address."""
