"""Operating the service: each section of the guide has named tests, and its numbers are those of the code."""

from __future__ import annotations

import re
from typing import Final

import pytest

from service.access import key_ring, key_set_source
from service.api import limited_protocol, renderings, request_reading
from service.execution import redis_client, request_thread, work_limits, worker_admission, worker_pool, workers
from service.jobs import chunk_sizing, chunk_worker
from service.jobs import service as jobs
from service.jobs.celery import backend, blocking_redis
from service.server import serve, supervisor
from service.telemetry import audit, tracing
from tests.contract.pages import ROOT, page

TESTS: Final[dict[str, tuple[str, ...]]] = {
    "Authentication": ("tests/system/test_credentials.py", "tests/api/test_access_matrix.py"),
    "API keys": (
        "tests/access/test_keys.py",
        "tests/system/test_credentials.py::test_key_works_at_once_and_until_it_is_revoked",
        "tests/telemetry/test_metrics_of_workers.py",
    ),
    "Tokens": (
        "tests/access/test_tokens.py",
        "tests/api/test_access_matrix.py::test_matrix_of_routes_methods_and_tokens",
    ),
    "Container": (
        "tests/deploy/test_compose.py",
        "tests/contract/test_security.py",
        "tests/system/test_faulty_redis.py",
    ),
    "Production on one machine": (
        "tests/deploy/test_compose.py::test_production_needs_secrets_and_authentication",
        "tests/deploy/test_compose.py::test_example_of_variables_is_complete",
    ),
    "Kubernetes": ("tests/contract/test_kubernetes.py",),
    "Secrets in files": ("tests/execution/test_secret_files.py",),
    "Health": (
        "tests/api/test_http.py::test_health_endpoints_report_ready",
        "tests/api/test_jobs_unavailable.py",
        "tests/system/test_operator_port.py::test_draining_service_is_unready_and_answers",
        "tests/system/test_supervisor.py",
    ),
    "Doctor": ("tests/command/test_doctor.py",),
    "Operator port": ("tests/system/test_operator_port.py", "tests/telemetry/test_sockets.py"),
    "Why does a job not move?": (
        "tests/contract/test_pages.py::test_table_of_job_diagnoses_is_complete",
        "tests/jobs/test_diagnosis.py",
        "tests/system/test_operate_jobs.py",
    ),
    "Upgrades and rollback": (
        "tests/system/test_upgrades.py",
        "tests/system/test_cluster_upgrades.py",
        "tests/jobs/test_jobs_file.py::test_file_of_newer_version_is_left_unchanged",
        "tests/jobs/test_redis_store.py::test_layout_of_newer_version_is_rejected_with_sentence",
    ),
    "To 0.2.0": ("tests/system/test_credentials.py::test_what_starts_without_keys",),
    "Backup and restore": ("tests/command/test_backup.py", "tests/system/test_exhausted.py"),
    "Redis": (
        "tests/system/test_redis_access.py",
        "tests/jobs/test_redis_store.py",
        "tests/jobs/test_transport.py",
        "tests/execution/test_entry_mac.py::test_first_key_signs_and_all_keys_verify",
        "tests/contract/test_security.py::test_stored_jobs_leave_room_in_redis",
    ),
    "Retention and quotas": (
        "tests/jobs/test_repository.py",
        "tests/execution/test_memory_cache.py",
        "tests/telemetry/test_multiprocess_metrics.py",
    ),
    "What contains what clients sent": (
        "tests/api/test_ownership.py",
        "tests/api/test_http.py::test_log_has_one_event_per_request_and_no_bodies",
        "tests/jobs/test_jobs_file.py::test_file_is_readable_only_by_owner",
    ),
    "Decision log": ("tests/api/test_renderings.py", "tests/api/test_decisions.py"),
    "Groups and owners": ("tests/api/test_ownership.py",),
    "Limits on work": ("tests/execution/test_work_limits.py",),
    "Audit stream": ("tests/telemetry/test_audit.py",),
    "What one client cannot do to another": (
        "tests/execution/test_resource_budget.py",
        "tests/execution/test_fair_shares.py",
        "tests/execution/test_workers.py",
        "tests/api/test_stalled_uploads.py",
        "tests/system/test_shares.py",
    ),
    "Answers that are computed twice": ("tests/api/test_cross_check.py", "tests/execution/test_quarantine.py"),
    "Settings": ("tests/contract/test_pages.py::test_table_of_settings_is_complete",),
    "Metrics": ("tests/contract/test_pages.py::test_table_of_metrics_is_complete",),
    "Traces": ("tests/system/test_traces.py",),
    "Capacity": ("tests/deploy/test_capacity.py",),
    "Alerts": ("tests/deploy/test_monitoring.py",),
    "Report a defect": (),
    "Pages for people": ("tests/api/test_documentation_pages.py", "tests/api/test_explorer_page.py"),
}
"""Tests that hold what a section promises, by its heading."""

NUMBERS: Final[tuple[tuple[str, str, float, float], ...]] = (
    ("Authentication", "exit with code 2", serve.PROBLEM_EXIT_CODE, 2),
    ("API keys", "within two seconds", 2 * key_ring.REFRESH_SECONDS, 2),
    ("API keys", "valid for five minutes", key_ring.LONGEST_STALE_SECONDS, 5 * 60),
    ("Tokens", "every ten minutes", key_set_source.REFRESH_SECONDS, 10 * 60),
    ("Tokens", "at most every ten seconds", key_set_source.RETRY_SECONDS, 10),
    ("Tokens", "valid for a day", key_set_source.LONGEST_STALE_SECONDS, 86_400),
    ("Health", "waits half a second", supervisor.FIRST_BACKOFF_SECONDS, 0.5),
    ("Health", "up to 30 seconds", supervisor.LONGEST_BACKOFF_SECONDS, 30),
    ("Operator port", "exit code 3", serve.UNABLE_TO_LISTEN_EXIT_CODE, 3),
    ("Why does a job not move?", "After three tries", chunk_sizing.MAX_TRIES, 3),
    ("Upgrades and rollback", "seen for 15 seconds", chunk_worker.WORKER_TIMEOUT_SECONDS, 15),
    ("Redis", "for ten minutes", backend.SHOWN_SECONDS, 10 * 60),
    ("Redis", "opens 16 connections", redis_client.PREOPENED_CONNECTIONS, 16),
    ("Redis", "up to 16 more for jobs", blocking_redis.CONNECTIONS, 16),
    ("Limits on work", "under way | 100 |", work_limits.HIT_UNITS, 100),
    ("Limits on work", "a chart | 300 000 |", renderings.DRAWING_COST, 300_000),
    ("Limits on work", "below 50 000 units", work_limits.LARGE_UNITS, 50_000),
    ("Limits on work", "within 0.2 seconds", work_limits.SEND_SECONDS, 0.2),
    ("Audit stream", "20 000 lines wait", audit.MOST_RECORDS, 20_000),
    ("What one client cannot do to another", "32 bodies", request_reading.LARGEST_BODIES_AT_ONCE, 32),
    ("What one client cannot do to another", "follow jobs | 128 |", jobs.MAX_STREAMS, 128),
    ("What one client cannot do to another", "than a quarter of its memory", worker_pool.MAX_RETAINED_SHARE, 0.25),
    ("What one client cannot do to another", "cost below 0.25 s", worker_admission.SHORT_WORK_SECONDS, 0.25),
    ("What one client cannot do to another", "longer than a second there", workers.RESERVE_SECONDS, 1),
    ("What one client cannot do to another", "above 8 KiB", request_thread.INLINE_BODY_BYTES, 8 * 1024),
    ("Traces", "at most two seconds", tracing.CLOSING_SECONDS, 2),
)
"""Section, words in it, and the number of the code that has the stated value."""


def text_of(heading: str) -> str:
    """Return the text of the section `heading` of the page on operation, with single spaces."""
    return " ".join(re.split(r"\n##+ ", page("operating").split(f"# {heading}\n", 1)[1], maxsplit=1)[0].split())


def test_every_section_has_named_tests() -> None:
    assert re.findall(r"(?m)^##+ (.*)$", re.sub(r"(?ms)^```.*?^```$", "", page("operating"))) == list(TESTS)
    for heading, tests in TESTS.items():
        for each in tests:
            file, _, function = each.partition("::")
            code = (ROOT / file).read_text("utf-8")
            assert re.search(rf"(?m)^(?:async )?def {function or 'test_'}", code), f"{heading}: {each}"


@pytest.mark.parametrize(("heading", "words", "value", "stated"), NUMBERS, ids=[row[1] for row in NUMBERS])
def test_stated_numbers_are_those_of_the_code(heading: str, words: str, value: float, stated: float) -> None:
    assert words in text_of(heading)
    assert value == stated


def test_security_page_states_the_dropped_bytes() -> None:
    assert "At most 64 MiB of a body" in (ROOT / "SECURITY.md").read_text("utf-8")
    assert limited_protocol.LARGEST_DROPPED_BYTES == 64 * 2**20
