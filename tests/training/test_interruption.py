import signal
import threading
from pathlib import Path

import pytest

from neuropil.training.interruption import Interrupted, StopRequest


def test_the_first_signal_is_noted_the_second_stops_and_the_usual_handlers_come_back():
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with StopRequest() as stop:
        assert not stop.requested
        signal.raise_signal(signal.SIGTERM)
        assert stop.requested
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_another_thread_leaves_the_signals_alone():
    found = list[bool]()

    def enter() -> None:
        with StopRequest() as stop:
            found.append(stop.requested)

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert found == [False]


def test_it_says_where_a_run_was_stopped():
    assert str(Interrupted(Path("runs/a"))) == "stopped"
    assert str(Interrupted(Path("runs/a"), 7)) == "stopped at step 7"
