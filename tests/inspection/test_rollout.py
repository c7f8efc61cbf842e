import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from neuropil.errors import InputError
from neuropil.inspection import record
from neuropil.inspection.rollout import patch_maps, rollout
from neuropil.models.clip import CLIP
from neuropil.models.clip import SIZES as CLIP_SIZES
from neuropil.models.vit import SIZES, ViT


def weights(layers: int, batch: int, heads: int, places: int, seed: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [
        torch.randn(batch, heads, places, places, generator=generator, dtype=torch.double).softmax(-1)
        for _ in range(layers)
    ]


@given(st.integers(1, 5), st.integers(1, 3), st.integers(1, 4), st.integers(1, 9), st.integers(0, 99))
@settings(deadline=None, max_examples=40)
def test_rows_are_shares_that_sum_to_one(layers: int, batch: int, heads: int, places: int, seed: int):
    rolled = rollout(weights(layers, batch, heads, places, seed))
    assert (rolled >= 0).all()
    torch.testing.assert_close(rolled.sum(-1), torch.ones(batch, places, dtype=torch.double))


@given(st.integers(1, 4), st.integers(1, 3), st.integers(1, 6), st.integers(0, 99))
@settings(deadline=None, max_examples=20)
def test_it_is_the_sum_over_all_paths(layers: int, heads: int, places: int, seed: int):
    """Written out: a vector that starts at one place is passed on, layer by layer, half kept and half mixed."""
    given_weights = weights(layers, 2, heads, places, seed)
    rolled = rollout(given_weights).numpy()
    for picture in range(2):
        for start in range(places):
            x = np.eye(places)[start]
            for layer in given_weights:
                mixed = np.mean([layer[picture, head].numpy() @ x for head in range(heads)], axis=0)
                x = 0.5 * mixed + 0.5 * x
            np.testing.assert_allclose(rolled[picture, :, start], x)


def test_a_place_that_looks_only_at_itself_stays_itself():
    only_self = torch.eye(4).expand(1, 2, 4, 4)
    assert torch.equal(rollout([only_self] * 3)[0], torch.eye(4))


def test_what_is_no_self_attention_is_refused():
    with pytest.raises(InputError) as error:
        rollout([torch.rand(1, 2, 3, 4)])
    assert (
        str(error.value) == "roll-out needs the weights from every place to every place, but got 3 queries and 4 keys."
    )
    with pytest.raises(InputError) as error:
        rollout([])
    assert str(error.value) == "roll-out needs the weights of at least one layer, but got none."


@pytest.mark.parametrize(("height", "width"), [(8, 8), (12, 6), (2, 16)])
def test_looks_of_a_vit_are_the_first_row_on_the_grid_of_any_size(height: int, width: int):
    torch.manual_seed(0)
    model = ViT(SIZES["tiny"]).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.2 * torch.randn_like(parameter)
    pictures = torch.randint(0, 256, (3, 1, height, width), dtype=torch.uint8)
    looks = patch_maps(model, pictures)
    with torch.no_grad(), record(model) as tape:
        model(pictures)
    whole = rollout(tape.attention.values())
    assert looks.rollout.shape == (3, height // 2, width // 2)
    torch.testing.assert_close(looks.rollout.flatten(1), whole[:, 0, 1:])
    assert list(looks.heads) == [f"blocks.{layer}.attention" for layer in range(4)]
    last = looks.heads["blocks.3.attention"]
    assert last.shape == (3, 4, height // 2, width // 2)
    torch.testing.assert_close(last.flatten(2), tape.attention["blocks.3.attention"][:, :, 0, 1:])
    assert (last.sum((2, 3)) < 1).all()  # the rest is for itself


def test_looks_follow_a_patch_that_alone_matters():
    """One head of one layer, whose keys are large where the picture is bright."""
    model = ViT(SIZES["tiny"]).eval()
    bright = torch.zeros(1, 1, 8, 8, dtype=torch.uint8)
    bright[..., 4:6, 2:4] = 255
    with torch.no_grad():
        attention = model.blocks[0].attention
        model.patches.projection.weight.fill_(0.01)
        model.patches.projection.weight[::2].neg_()  # survives the norm
        attention.projection.weight.zero_()
        attention.projection.bias.zero_()
        attention.projection.weight[64:80] = 3 * model.patches.projection.weight[:, 0, 0, 0].sign()  # keys of head 0
        attention.projection.bias[:16] = 3.0  # its queries
    first = patch_maps(model, bright).heads["blocks.0.attention"][0, 0]
    assert divmod(int(first.argmax()), 4) == (2, 1)


def test_looks_of_clip_are_those_of_the_tower_that_sees():
    torch.manual_seed(0)
    model = CLIP(CLIP_SIZES["tiny"]).eval()
    looks = patch_maps(model, torch.randint(0, 256, (2, 1, 24, 24), dtype=torch.uint8))
    assert looks.rollout.shape == (2, 6, 6)
    assert list(looks.heads) == [f"blocks.{layer}.attention" for layer in range(4)]
