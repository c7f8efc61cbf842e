import pytest

from neuropil.http.access import Access, from_another_site


@pytest.mark.parametrize(
    ("access", "own", "other"),
    [
        (Access("127.0.0.1"), True, False),
        (Access("192.0.2.7"), True, False),
        (Access("0.0.0.0", token="secret"), True, True),  # noqa: S104, S106
        (Access("0.0.0.0", unguarded=True), True, True),  # noqa: S104
    ],
)
def test_a_host_name_is_ours_or_the_token_guards(access: Access, own: bool, other: bool):
    assert access.allows_host("127.0.0.1:8321") == access.allows_host("[::1]:1") == own
    assert access.allows_host("evil.example:8321") == access.allows_host("[") == other


def test_only_the_token_is_known_where_there_is_one():
    assert Access("127.0.0.1").knows([])
    guarded = Access("127.0.0.1", token="sécret")  # noqa: S106
    assert guarded.knows(["", "sécret"])
    assert not guarded.knows(["", "sécre"])


@pytest.mark.parametrize(
    ("method", "headers", "foreign"),
    [
        ("GET", {"host": "127.0.0.1:1"}, False),
        ("POST", {"host": "127.0.0.1:1", "origin": "http://127.0.0.1:1"}, False),
        ("GET", {"host": "127.0.0.1:1", "origin": "http://127.0.0.1:2"}, True),
        ("GET", {"host": "127.0.0.1:1", "origin": "null"}, True),
        ("GET", {"host": "127.0.0.1:1", "sec-fetch-site": "cross-site"}, False),
        ("POST", {"host": "127.0.0.1:1", "sec-fetch-site": "cross-site"}, True),
    ],
)
def test_pages_of_other_sites_are_known_by_what_a_browser_says(method: str, headers: dict[str, str], foreign: bool):
    assert from_another_site(method, headers) == foreign
