import pytest

from neuropil.errors import InputError
from neuropil.http.listening import address_of, bind


def test_a_port_that_is_taken_is_refused_or_passed_over():
    with bind("127.0.0.1", 0, first=0, what="the server") as taken:
        port = taken.getsockname()[1]
        assert address_of(taken, "127.0.0.1") == f"http://127.0.0.1:{port}"
        with pytest.raises(InputError) as caught:
            bind("127.0.0.1", port, first=0, what="the server")
        assert str(caught.value) == (
            f"the server needs a port that it may listen at, but got 127.0.0.1 {port} "
            "([Errno 98] Address already in use): choose another with --port, or leave --port out."
        )
        with bind("127.0.0.1", None, first=port, what="the server") as free:
            assert free.getsockname()[1] > port
