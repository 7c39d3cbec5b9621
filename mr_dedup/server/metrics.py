"""The metrics of a server, for Prometheus."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from mr_dedup.index.http_messages import Stats

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)


class Metrics:
    """Requests by path, method and status, their durations, and the size of the index."""

    def __init__(self) -> None:
        """Start at zero."""
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "mr_dedup_http_requests", "responses sent", ("path", "method", "status"),
            registry=self._registry,
        )  # fmt: skip
        self._seconds = Histogram(
            "mr_dedup_http_request_seconds", "seconds from the header of a request to its response",
            ("path",), buckets=_SECONDS, registry=self._registry,
        )  # fmt: skip
        self.in_progress = Gauge(
            "mr_dedup_http_requests_in_progress", "requests in progress", registry=self._registry
        )
        self._gauges = {
            name: Gauge(f"mr_dedup_index_{name}", description, registry=self._registry)
            for name, description in (
                ("documents", "documents in the index"),
                ("memory_documents", "documents in the log that are not yet in a segment"),
                ("segments", "segments"),
                ("log_bytes", "bytes of the log"),
                ("disk_bytes", "bytes of all files"),
                ("merge_failed", "1 if the last merge of segments failed"),
            )
        }

    def count_request(self, path: str, method: str, status: int, seconds: float) -> None:
        """Count a response."""
        self._requests.labels(path, method, str(status)).inc()
        self._seconds.labels(path).observe(seconds)

    def text(self, stats: Stats) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        for name in ("documents", "memory_documents", "log_bytes", "disk_bytes"):
            self._gauges[name].set(getattr(stats, name))
        self._gauges["segments"].set(len(stats.segments))
        self._gauges["merge_failed"].set(stats.merge_failure is not None)
        return generate_latest(self._registry)
