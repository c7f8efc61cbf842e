import contextlib
import gc
import io
import os
from collections import Counter
from collections.abc import Generator
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, settings

from neuropil.errors import InputError
from neuropil.training.precision import prepare_bfloat16
from typechecking import calls, tell_of_modules

tell_of_modules()

# Tests run in several processes on few cores.
torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))

# `make test` tries the same examples on every machine; `make test-all` looks for new ones.
# How fast a machine is, and how busy, changes no outcome.
untimed = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("repeated", derandomize=True, **untimed)
settings.register_profile("searching", print_blob=True, **untimed)
settings.load_profile("repeated")

# --- bfloat16, on any processor ---------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def bfloat16() -> None:
    """For every test that multiplies in bfloat16: it runs also where the processor needs a limit for that."""
    try:
        prepare_bfloat16()
    except InputError as error:
        pytest.skip(str(error))


def pytest_sessionstart() -> None:
    """Test files compute while they are collected, after which a limit comes too late."""
    with contextlib.suppress(InputError), contextlib.redirect_stderr(io.StringIO()):
        prepare_bfloat16()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is imported stays: to search it for garbage again and again would take a quarter of the processor's time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.set_threshold(100_000, 20, 20)  # tests make many small objects, and few cycles
        gc.enable()


# --- what the tests cost: the lines that CONTRIBUTING explains --------------------------------------------------------

MINUTES, SECONDS_OF_A_SYSTEM = 10, 15
spent = Counter[str]()
"""Processor seconds of each test, with the fixtures that it was the first to need and the processes that it started."""
started = pytest.StashKey[float]()
workers: list[float] = []


def processor_seconds() -> float:
    """Of this process, and of the children that it has waited for."""
    return sum(os.times()[:4])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    item.stash[started] = processor_seconds()
    calls.clear()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    report.user_properties.append(("processor_seconds", processor_seconds() - item.stash[started]))
    return report


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    seconds: Any = dict(report.user_properties)["processor_seconds"]
    spent[report.nodeid] = seconds  # the last report of a test has the sum


def pytest_sessionfinish(session: pytest.Session) -> None:
    config: Any = session.config
    if hasattr(config, "workeroutput"):
        config.workeroutput["processor_seconds"] = processor_seconds()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    workers.append(node.workeroutput["processor_seconds"] if hasattr(node, "workeroutput") else 0.0)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    total = sum(workers) + sum(os.times()[:2]) if workers else processor_seconds()
    if total > 60:
        terminalreporter.section("the ten slowest tests, in processor seconds")
        for name, seconds in spent.most_common(10):
            terminalreporter.write_line(f"{seconds:6.1f}  {name}")
    terminalreporter.write_line(
        f"{total / 60:.1f} processor minutes for {len(spent)} tests; `make test` may take {MINUTES} on two cores, "
        f"and the fast tests of a new system {SECONDS_OF_A_SYSTEM} processor seconds."
    )
