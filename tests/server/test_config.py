import pytest

from neuropil.errors import InputError
from neuropil.server.config import ServerConfig


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "::"])  # noqa: S104
def test_a_server_for_other_machines_has_a_token(host: str):
    with pytest.raises(InputError) as caught:
        ServerConfig(host=host).with_token(None)
    assert str(caught.value) == (
        f"a server that other machines can reach must have a token, but got --host {host} without one: "
        "set NEUROPIL_TOKEN or give --token; --without-token answers everyone."
    )
    assert ServerConfig(host=host, without_token=True).with_token(None).token is None
    assert ServerConfig(host=host).with_token("secret").token == "secret"  # noqa: S105


def test_a_token_that_is_given_counts_more_than_that_of_the_environment():
    assert ServerConfig(token="own").with_token("other").token == "own"  # noqa: S105, S106
    assert ServerConfig().with_token(None).token is None


@pytest.mark.parametrize("token", ["sécret", "a\nb"])
def test_a_token_fits_into_a_header(token: str):
    with pytest.raises(InputError) as caught:
        ServerConfig(token=token)
    assert str(caught.value) == "token must be ASCII letters, digits and signs, but got something else."
    with pytest.raises(InputError) as caught:
        ServerConfig().with_token(token)
    assert str(caught.value) == (
        "the environment variable NEUROPIL_TOKEN must be ASCII letters, digits and signs, but got something else."
    )


def test_an_empty_token_is_refused_by_where_it_came_from():
    with pytest.raises(InputError) as caught:
        ServerConfig(token="")
    assert str(caught.value) == "token must hold a token, but got an empty one: set one, or leave it out."
    with pytest.raises(InputError) as caught:
        ServerConfig(host="0.0.0.0").with_token("")  # noqa: S104
    assert str(caught.value) == (
        "the environment variable NEUROPIL_TOKEN must hold a token, but got an empty one: set one, or unset it."
    )
