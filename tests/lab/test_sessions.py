from neuropil.lab.sessions import Sessions


def test_the_least_recently_used_goes():
    sessions: Sessions[list[int]] = Sessions(limit=2)
    first = sessions.get("a", lambda: [1])
    sessions.get("b", lambda: [2])
    assert sessions.get("a", lambda: [9]) is first
    sessions.get("c", lambda: [3])
    assert list(sessions.kept) == ["a", "c"]
