"""Figures of the server in Prometheus's text format, version 0.0.4."""

import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Mapping
from pathlib import Path

Labels = tuple[tuple[str, str], ...]
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)
"""Upper bounds of the buckets of a histogram of times."""


class Counts:
    """A counter for each combination of labels."""

    kind = "counter"

    def __init__(self, name: str, help: str):
        self.name, self.help = name, help
        self.lock, self.values = threading.Lock(), dict[Labels, float]()

    def add(self, amount: float = 1, **labels: str) -> None:
        key = tuple(labels.items())
        with self.lock:
            self.values[key] = self.values.get(key, 0) + amount

    def lines(self) -> list[str]:
        with self.lock:
            return [f"{self.name}{_labels(key)} {_number(value)}" for key, value in self.values.items()]


class Gauge:
    """Values that are looked up when they are asked for."""

    kind = "gauge"

    def __init__(self, name: str, help: str, read: Callable[[], Mapping[Labels, float]]):
        self.name, self.help, self.read = name, help, read

    def lines(self) -> list[str]:
        return [f"{self.name}{_labels(key)} {_number(value)}" for key, value in self.read().items()]


class Times:
    """A histogram of seconds."""

    kind = "histogram"

    def __init__(self, name: str, help: str):
        self.name, self.help = name, help
        self.lock, self.counts, self.sums = threading.Lock(), dict[Labels, list[int]](), dict[Labels, float]()

    def observe(self, seconds: float, **labels: str) -> None:
        key = tuple(labels.items())
        with self.lock:
            self.counts.setdefault(key, [0] * (len(SECONDS) + 1))[bisect_left(SECONDS, seconds)] += 1
            self.sums[key] = self.sums.get(key, 0.0) + seconds

    def mean(self, default: float, **labels: str) -> float:
        key = tuple(labels.items())
        with self.lock:
            return self.sums[key] / sum(self.counts[key]) if key in self.counts else default

    def lines(self) -> list[str]:
        found: list[str] = []
        with self.lock:
            for key, counts in self.counts.items():
                total = 0
                for bound, count in zip((*map(_number, SECONDS), "+Inf"), counts, strict=True):
                    total += count
                    found.append(f"{self.name}_bucket{_labels((*key, ('le', bound)))} {total}")
                found.append(f"{self.name}_sum{_labels(key)} {_number(self.sums[key])}")
                found.append(f"{self.name}_count{_labels(key)} {total}")
        return found


class Figures:
    """All that is counted."""

    def __init__(self) -> None:
        self.requests = Counts("neuropil_requests_total", "Requests by endpoint and HTTP status")
        self.request_seconds = Times("neuropil_request_seconds", "Seconds from a request to the end of its answer")
        self.prompt_tokens = Counts("neuropil_prompt_tokens_total", "Tokens of prompts and inputs")
        self.generated_tokens = Counts("neuropil_generated_tokens_total", "Tokens that were generated")
        self.first_token = Times("neuropil_first_token_seconds", "Seconds from a request to its first token")
        self.token_seconds = Times("neuropil_token_seconds", "Seconds between two tokens of a text")
        self.text_seconds = Times("neuropil_text_seconds", "Seconds that a text had a slot")
        self.cancelled = Counts("neuropil_cancelled_total", "Requests whose client went before the end")
        self.failures = Counts("neuropil_failures_total", "Requests that failed by a fault of the server")
        memory = Gauge("process_resident_memory_bytes", "Resident memory", lambda: {(): resident_memory()})
        started = time.time()
        start = Gauge(
            "process_start_time_seconds", "Start of the process, in seconds since 1970", lambda: {(): started}
        )
        self.gauges = [memory, start]

    def text(self) -> str:
        counted = (self.requests, self.prompt_tokens, self.generated_tokens, self.cancelled, self.failures)
        timed = (self.request_seconds, self.first_token, self.token_seconds, self.text_seconds)
        lines: list[str] = []
        for each in (*counted, *timed, *self.gauges):
            lines += [f"# HELP {each.name} {each.help}.", f"# TYPE {each.name} {each.kind}", *each.lines()]
        return "\n".join(lines) + "\n"


def resident_memory() -> int:
    """Bytes, by what Linux says; 0 elsewhere."""
    status = Path("/proc/self/status")
    if not status.exists():
        return 0
    lines = status.read_text(encoding="utf-8").splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))


def _labels(labels: Labels) -> str:
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels) + "}" if labels else ""


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(float(value))
