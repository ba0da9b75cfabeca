"""Metrics for Prometheus, structured logs as JSON lines, request ids, and listening sockets."""
