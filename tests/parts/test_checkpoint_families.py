"""How a published model finds its family: by the finder that the front door registers."""

import pytest

from neuropil.parts import checkpoint_families
from neuropil.parts.checkpoint_families import CheckpointFamily, family_of, register
from neuropil.pretrained import checkpoint_family


@pytest.mark.parametrize("name", ["bert", "clip", "gpt2", "vit"])
def test_the_front_door_finds_every_family(name: str):
    assert family_of(name) is checkpoint_family(name)
    assert isinstance(family_of(name), CheckpointFamily)


def test_the_last_finder_counts(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(checkpoint_families, "_finders", [])
    found = checkpoint_family("gpt2")
    for finder in (checkpoint_family, lambda name: found):
        register(finder)
    assert family_of("bert") is found
