import pytest

from neuropil.errors import InputError
from neuropil.http import listening
from neuropil.http.listening import address_of, bind


def test_a_port_that_is_taken_is_refused_or_passed_over():
    with bind("127.0.0.1", 0, first=0, what="the server") as taken:
        port = taken.getsockname()[1]
        assert address_of(taken, "127.0.0.1") == f"http://127.0.0.1:{port}"
        with pytest.raises(InputError) as caught:
            bind("127.0.0.1", port, first=0, what="the server")
        assert str(caught.value) == (
            f"the server needs a free port, but got port {port}, which is in use: "
            "choose another with --port, or leave --port out."
        )
        with bind("127.0.0.1", None, first=port, what="the server") as free:
            assert free.getsockname()[1] > port


def test_where_all_of_the_usual_ports_are_in_use_they_are_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(listening, "PORTS_TO_TRY", 1)
    with bind("127.0.0.1", 0, first=0, what="the lab") as taken:
        first = taken.getsockname()[1]
        with pytest.raises(InputError) as caught:
            bind("127.0.0.1", None, first=first, what="the lab")
    assert str(caught.value) == (
        f"the lab needs a free port, but got ports {first} to {first}, which are in use: give a free one with --port."
    )


@pytest.mark.parametrize("host", ["192.0.2.1", "a..b"])
def test_an_address_of_another_machine_is_refused_as_such(host: str):
    with pytest.raises(InputError) as caught:
        bind(host, 0, first=0, what="the server")
    assert str(caught.value) == (
        f"the server needs an address of this machine to listen at, but got --host {host}: "
        "leave --host out, or give 0.0.0.0 for all addresses."
    )


def test_a_port_that_is_none_is_refused():
    with pytest.raises(InputError) as caught:
        bind("127.0.0.1", 65536, first=0, what="the server")
    assert str(caught.value) == (
        "the server needs a port that it may listen at, but got port 65536, which is not to be had "
        "(bind(): port must be 0-65535.): choose another with --port, or leave --port out."
    )
