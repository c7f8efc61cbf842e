from typing import Any

import pytest
import torch
from einops import rearrange
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from neuropil.errors import InputError
from neuropil.inspection import record
from neuropil.models.attention import PatchAttention, PatchAttentionConfig, ScoreName, SelfAttention, make_score
from neuropil.parts.attention import ScaledDot, attend
from neuropil.parts.positions import PositionName
from real_data import accuracy_after_learning_digits


def test_the_layer_is_its_equations():
    """Q = z W_q + B_q, K = z W_k + B_k, V = z W_v + B_v, softmax(Q Kᵀ / √e) V, with e and d₂ of their own."""
    torch.manual_seed(0)
    layer, z = SelfAttention(width=6, key_width=3, value_width=5).double(), torch.randn(2, 4, 6, dtype=torch.float64)
    Q, K, V = (
        z @ W.T + B
        for W, B in zip(layer.projection.weight.split((3, 3, 5)), layer.projection.bias.split((3, 3, 5)), strict=True)
    )
    sim = torch.softmax(Q @ K.mT / 3**0.5, dim=-1)
    torch.testing.assert_close(layer(z), sim @ V)
    with record(layer) as tape:
        layer(z)
    torch.testing.assert_close(tape.attention["attention"][:, 0], sim)


@settings(deadline=None, max_examples=25)
@given(d=st.integers(1, 7), e=st.integers(1, 7), d2=st.integers(1, 7), m=st.integers(1, 9), seed=st.integers(0, 999))
def test_with_values_of_any_width_the_layer_is_torchs_attention(d: int, e: int, d2: int, m: int, seed: int):
    torch.manual_seed(seed)
    layer, z = SelfAttention(d, e, d2).double(), torch.randn(3, m, d, dtype=torch.float64)
    torch.nn.init.normal_(layer.projection.bias)
    Q, K, V = layer.projection(z).split((e, e, d2), dim=-1)
    theirs = F.scaled_dot_product_attention(Q, K, V)
    assert theirs.shape == (3, m, d2)
    torch.testing.assert_close(layer(z), theirs)


@pytest.mark.parametrize("embedding", ["linear", "none"])
@pytest.mark.parametrize("value_width", [None, 12, 5])
def test_the_network_over_raw_or_embedded_patches_is_its_equations(embedding: str, value_width: int | None):
    """Patches of 2 × 3 × 3 pixels have d = 18; where d₂ is another width, attention(z) takes the place of z."""
    torch.manual_seed(0)
    widths = {"width": 12, "key_width": 4, "value_width": value_width, "embedding": embedding}
    if embedding == "none" and value_width:
        del widths["width"]
    config = PatchAttentionConfig(shape=(2, 6, 7), patch=3, layers=2, classes=3, dropout=0.0, **widths)
    model, x = PatchAttention(config).double(), torch.rand(4, 2, 6, 7, dtype=torch.float64)
    d, d2 = 12 if embedding == "linear" else 18, value_width or 12
    patches = F.unfold(F.pad(x, (0, 2)), 3, stride=3).mT
    z = (model.embed(patches) if embedding == "linear" else patches) + model.positions.table
    assert z.shape == (4, 6, d)
    for layer in model.layers:
        residual = z.shape[-1] == d2
        entering = F.layer_norm(z, (d2,)) if residual else z
        Q, K, V = layer.get_submodule("attention.projection")(entering).split((4, 4, d2), dim=-1)
        attended = F.scaled_dot_product_attention(Q, K, V)
        z = z + attended if residual else attended
        z = z + layer.get_submodule("network")(F.layer_norm(z, (d2,)))
    torch.testing.assert_close(model(x), model.output(F.layer_norm(z, (d2,)).mean(1)))


def test_the_embedding_width_is_idle_where_nothing_has_it():
    idle = {"width": "raw patches whose values have a width"}
    assert PatchAttentionConfig(embedding="none", value_width=5).idle_options() == idle
    assert PatchAttentionConfig(embedding="none", width=8).idle_options() == {}
    assert PatchAttentionConfig(value_width=5).idle_options() == {}


def test_the_bias_of_the_keys_changes_no_weight():
    """q·(k + b) = q·k + q·b, and q·b is the same for every key."""
    layer, z = SelfAttention(6, 3, 5).double(), torch.randn(2, 4, 6, dtype=torch.float64)
    before = layer(z)
    with torch.no_grad():
        layer.projection.bias[3:6] += 10
    torch.testing.assert_close(layer(z), before)


@pytest.mark.parametrize(
    ("shape", "patch", "side", "grid"),
    [
        ((1, 8, 8), None, 2, (4, 4)),
        ((1, 28, 28), None, 4, (7, 7)),
        ((3, 32, 32), None, 4, (8, 8)),
        ((3, 224, 224), None, 28, (8, 8)),
        ((1, 1, 1), None, 2, (1, 1)),
        ((1, 5, 9), None, 2, (3, 5)),
        ((2, 7, 7), 3, 3, (3, 3)),
        ((1, 8, 8), 8, 8, (1, 1)),
    ],
)
def test_patches_adapt_to_the_size_of_the_picture(
    shape: tuple[int, ...], patch: int | None, side: int, grid: tuple[int, int]
):
    config = PatchAttentionConfig(shape=shape, patch=patch, width=8, key_width=4)
    assert (config.patch_side, config.grid) == (side, grid)
    model, x = PatchAttention(config), torch.randint(0, 256, (2, *shape), dtype=torch.uint8)
    assert model.patches(x).shape == (2, grid[0] * grid[1], shape[0] * side**2)
    assert model(x).shape == (2, 10)


@settings(deadline=None, max_examples=20)
@given(height=st.integers(1, 11), width=st.integers(1, 11), channels=st.integers(1, 3), patch=st.integers(1, 4))
def test_patches_hold_every_pixel_once_and_are_filled_up_with_zeros(height: int, width: int, channels: int, patch: int):
    model = PatchAttention(PatchAttentionConfig(shape=(channels, height, width), patch=patch, width=4, key_width=4))
    x = torch.rand(2, channels, height, width) + 1
    patches = model.patches(x)
    rows, _ = model.config.grid
    whole = rearrange(patches, "n (row column) (c a b) -> n c (row a) (column b)", row=rows, a=patch, b=patch)
    torch.testing.assert_close(whole[..., :height, :width], x)
    assert (patches == 0).sum() == patches.numel() - x.numel()
    # a patch is a window: F.unfold knows where they are
    padded = F.pad(x, (0, whole.shape[-1] - width, 0, whole.shape[-2] - height))
    torch.testing.assert_close(patches, F.unfold(padded, patch, stride=patch).mT)


@pytest.mark.parametrize("score", ["scaled_dot", "cosine", "gaussian", "additive"])
@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "none"])
@pytest.mark.parametrize("values", [{}, {"value_width": 5}, {"embedding": "none"}], ids=["", "own width", "raw"])
def test_every_option_gives_logits_and_gradients_and_can_be_recorded(
    score: ScoreName, positions: PositionName, values: dict[str, Any]
):
    torch.manual_seed(0)
    config = PatchAttentionConfig(score=score, positions=positions, width=8, key_width=4, layers=2, **values)
    model, x = PatchAttention(config).eval(), torch.randint(0, 256, (3, 1, 8, 8), dtype=torch.uint8)
    model.standardize.fit(x)
    with record(model) as tape:
        watched = model(x)
    assert torch.equal(watched, model(x))
    assert list(tape.attention) == ["layers.0.attention", "layers.1.attention"]
    for weights in tape.attention.values():
        assert weights.shape == (3, 1, 16, 16)
        torch.testing.assert_close(weights.sum(-1), torch.ones(3, 1, 16))
    watched.square().sum().backward()
    assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in model.parameters())
    assert sum(row.count for row in model.parameter_table()) == sum(
        parameter.numel() for parameter in model.parameters()
    )


def test_with_keys_of_one_length_the_gaussian_score_is_the_scaled_dot_product():
    query, value = torch.randn(2, 5, 6, dtype=torch.float64), torch.randn(2, 5, 3, dtype=torch.float64)
    key = F.normalize(torch.randn(2, 5, 6, dtype=torch.float64), dim=-1)
    smoothed = attend(query, key, value, score=make_score("gaussian", 6))
    torch.testing.assert_close(smoothed, attend(query, key, value, score=ScaledDot()))


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "none"])
def test_shuffled_patches_change_the_answer_only_where_there_are_positions(positions: PositionName):
    torch.manual_seed(0)
    model = PatchAttention(PatchAttentionConfig(positions=positions, width=16, key_width=8)).double().eval()
    patches = model.patches(torch.randint(0, 256, (4, 1, 8, 8), dtype=torch.uint8)) / 128
    change = (model.classify(patches[:, torch.randperm(16)]) - model.classify(patches)).abs().max().item()
    assert change < 1e-12 if positions == "none" else change > 1e-4


def test_it_learns_real_digits_from_bytes():
    torch.manual_seed(0)
    assert (
        accuracy_after_learning_digits(
            PatchAttention(PatchAttentionConfig(width=32, key_width=16, dropout=0.0)), 0.003, passes=10
        )
        > 0.8
    )


def test_what_has_no_patches_is_refused():
    with pytest.raises(InputError) as error:
        PatchAttentionConfig(shape=(64,))
    assert str(error.value) == "patches need pictures of channels, height and width, but got inputs of shape (64,)."
