"""Recording attention: what is on the tape is what happened, what happened is what would have happened, and nothing
stays behind."""

import copy
import dataclasses
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from einops import rearrange
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from inspection.torch_warnings import without_prototype_warnings
from neuropil.errors import InputError
from neuropil.inspection import recording
from neuropil.inspection.recording import Tape, attention_modules, record
from neuropil.models.attention import PatchAttention, PatchAttentionConfig, ScoreName
from neuropil.models.transformer import Transformer, TransformerConfig
from neuropil.parts.multi_head import MultiHeadAttention
from neuropil.parts.objectives import SequenceToSequence
from neuropil.protocols import PADDING

HEADS = 4
NAMES = ["encoder.0.attention", "encoder.1.attention"] + [
    f"decoder.{i}.{kind}" for i in range(2) for kind in ("attention", "cross")
]


def made(**options: Any) -> Transformer:
    torch.manual_seed(0)
    config = TransformerConfig(
        width=16, heads=HEADS, layers=2, feed_forward=24, source_vocabulary_size=20, target_vocabulary_size=20
    )
    model = Transformer(dataclasses.replace(config, **options))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    return model


def tokens(*lengths: int) -> Tensor:
    time = max(lengths)
    return torch.randint(4, 20, (len(lengths), time)).masked_fill(
        torch.arange(time) >= torch.tensor(lengths)[:, None], PADDING
    )


# --- the weights are those of the formula -----------------------------------------------------------------------------


def by_formula(model: Transformer, source: Tensor, target: Tensor) -> dict[str, Tensor]:
    """softmax(Q Kᵀ / √w) of every attention, in double precision, from what flows into it."""
    model, found = copy.deepcopy(model).double(), {}

    def hook(name: str) -> Callable[..., None]:
        def store(module: nn.Module, args: tuple[Tensor, ...], options: dict[str, Any]) -> None:
            assert isinstance(module, MultiHeadAttention)
            query, key = args[0], args[-1]
            (of_query, of_key, _), (q_bias, k_bias, _) = (
                module.projection.weight.chunk(3),
                module.projection.bias.chunk(3),
            )
            q, k = (
                rearrange(x @ weight.T + bias, "batch time (head width) -> batch head time width", head=module.heads)
                for x, weight, bias in ((query, of_query, q_bias), (key, of_key, k_bias))
            )
            scores = q @ k.mT / module.head_width**0.5
            if options.get("mask") is not None:
                scores = scores.masked_fill(~options["mask"], -torch.inf)
            if options.get("causal"):
                scores = scores.masked_fill(torch.ones(scores.shape[-2:]).triu(1).bool(), -torch.inf)
            found[name] = scores.softmax(-1)

        return store

    for name in NAMES:
        model.get_submodule(name).register_forward_pre_hook(hook(name), with_kwargs=True)
    with torch.no_grad():
        model(source, target)
    return found


indices = st.none() | st.lists(st.integers(-2, 12), max_size=5)


@settings(deadline=None, max_examples=40)
@given(
    layers=st.sampled_from(["*", "decoder.*", "*.cross", "encoder.1.attention", ["encoder.*", "decoder.0.cross"]]),
    heads=indices,
    queries=indices,
    lengths=st.lists(st.tuples(st.integers(1, 6), st.integers(1, 6)), min_size=1, max_size=3),
    norm=st.sampled_from(["post", "pre"]),
)
def test_weights_are_those_of_the_formula_for_the_layers_heads_and_queries_that_were_asked_for(
    layers: str | list[str],
    heads: list[int] | None,
    queries: list[int] | None,
    lengths: list[tuple[int, int]],
    norm: str,
):
    model = made(norm=norm).eval()
    source, target = (tokens(*side) for side in zip(*lengths, strict=True))
    with record(model, layers=layers, heads=heads, queries=queries) as tape:
        model(source, target)
    expected = by_formula(model, source, target)
    patterns = {"*": NAMES, "decoder.*": NAMES[2:], "*.cross": NAMES[3::2]}.get(str(layers), [str(layers)])
    assert list(tape.attention) == (patterns if isinstance(layers, str) else [*NAMES[:2], "decoder.0.cross"])
    for name, weights in tape.attention.items():
        whole = expected[name]
        kept_heads = range(HEADS) if heads is None else [head for head in range(HEADS) if head in heads]
        rows = range(whole.shape[2]) if queries is None else [row for row in range(whole.shape[2]) if row in queries]
        assert weights.shape == (len(lengths), len(kept_heads), len(rows), whole.shape[3])
        torch.testing.assert_close(weights.double(), whole[:, list(kept_heads)][:, :, list(rows)], atol=1e-5, rtol=0)
        assert not weights.requires_grad


def test_a_source_of_nothing_but_padding_has_weights_of_zero():
    model = made().eval()
    with record(model) as tape:
        model(torch.full((1, 3), PADDING), tokens(2))
    assert not tape.attention["decoder.1.cross"].any()
    assert torch.equal(tape.attention["decoder.1.attention"].sum(-1), torch.ones(1, HEADS, 2))


def test_a_layer_is_remembered_as_it_ran_last_also_while_it_writes_token_by_token():
    model, source, target = made().eval(), tokens(5, 3), tokens(4, 4)
    with record(model, layers="decoder.*") as whole:
        model(source, target)
    with record(model, layers="decoder.*") as last, torch.no_grad():
        state = model.begin(source)
        for newest in target.split(1, dim=1):
            model.step(newest, state)
    for name, weights in last.attention.items():
        torch.testing.assert_close(weights, whole.attention[name][:, :, -1:], atol=1e-5, rtol=0)


def test_attention_without_any_head_is_not_on_the_tape():
    model = made(kept_heads=(HEADS, 0, 1, HEADS, 0, 0)).eval()
    with record(model) as tape:
        model(tokens(3), tokens(2))
    assert {name: weights.shape[1] for name, weights in tape.attention.items()} == {
        NAMES[0]: 4,
        NAMES[2]: 1,
        NAMES[3]: 4,
    }


@pytest.mark.parametrize("score", ["scaled_dot", "cosine", "gaussian", "additive"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.usefixtures("bfloat16")
def test_patches_are_recorded_as_one_head_whatever_their_score(score: ScoreName, dtype: torch.dtype):
    torch.manual_seed(0)
    model = PatchAttention(PatchAttentionConfig(width=8, key_width=8, score=score)).to(dtype).eval()
    pictures = torch.randint(0, 256, (3, 1, 8, 8), dtype=torch.uint8)
    plain = model(pictures)
    with record(model, queries=[0, 5, 99]) as tape:
        watched = model(pictures)
    assert torch.equal(plain, watched)
    assert list(tape.attention) == ["layers.0.attention", "layers.1.attention"]
    attention = copy.deepcopy(model).get_submodule("layers.0.attention").float()
    heard: list[Tensor] = []
    model.get_submodule("layers.0.attention").register_forward_pre_hook(lambda _, args: heard.append(args[0]))
    model(pictures)
    query, key, _ = attention.get_submodule("projection")(heard[0].float()).split((8, 8, 8), dim=-1)
    expected = attention.score(query, key).softmax(-1)[:, None, [0, 5]]  # type: ignore[operator]  # a module's attribute
    assert tape.attention["layers.0.attention"].shape == (3, 1, 2, 16)
    torch.testing.assert_close(
        tape.attention["layers.0.attention"], expected, atol=1e-5 if dtype == torch.float32 else 0.01, rtol=0
    )


# --- the model computes what it would have computed -------------------------------------------------------------------


def test_a_recorded_training_step_has_the_same_loss_and_gradients_bit_for_bit():
    batch = {"source": tokens(6, 3), "target": tokens(4, 5)}
    model = made(dropout=0.3).train()
    learner = SequenceToSequence(model, label_smoothing=0.1)

    def step() -> list[Tensor]:
        torch.manual_seed(1)
        model.zero_grad()
        loss = learner.loss(batch)
        loss.backward()
        return [
            loss.detach(),
            *(parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None),
        ]

    plain = step()
    with record(model) as tape:
        watched = step()
    assert len(tape.attention) == len(NAMES)
    assert len(plain) == 1 + len(list(model.parameters()))
    assert all(torch.equal(one, other) for one, other in zip(plain, watched, strict=True))


@pytest.mark.usefixtures("bfloat16")
def test_under_autocast_the_output_is_the_same_bit_for_bit_and_weights_are_in_single_precision():
    model, source, target = made().eval(), tokens(6, 3), tokens(4, 5)
    with torch.autocast("cpu", torch.bfloat16):
        plain = model(source, target)
        with record(model) as tape:
            watched = model(source, target)
    assert plain.dtype == torch.bfloat16
    assert torch.equal(plain, watched)
    expected = by_formula(model, source, target)
    for name, weights in tape.attention.items():
        assert weights.dtype == torch.float32
        torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))
        torch.testing.assert_close(weights.double(), expected[name], atol=0.05, rtol=0)  # bfloat16 has three digits


@pytest.mark.usefixtures("bfloat16")
def test_while_a_gradient_is_taken_under_autocast_the_gradients_are_the_same_too():
    source, target = tokens(6, 3), tokens(4, 5)

    def gradients(model: nn.Module) -> list[Tensor]:
        with torch.autocast("cpu", torch.bfloat16):
            loss = model(source, target).float().square().mean()
        return list(torch.autograd.grad(loss, list(model.parameters())))

    model = made().eval()
    plain = gradients(model)
    with record(model):
        watched = gradients(model)
    assert all(torch.equal(one, other) for one, other in zip(plain, watched, strict=True))


COMPILED = """
import sys

import torch
from torch import nn

from neuropil.inspection import record
from neuropil.models.transformer import Transformer, TransformerConfig
from neuropil.parts.multi_head import MultiHeadAttention


def compiled(model):
    return torch.compile(model, fullgraph=True, backend=sys.argv[1])


def near(tape, eager):
    assert tape.attention.keys() == eager.attention.keys() != set()
    for name, weights in eager.attention.items():
        torch.testing.assert_close(tape.attention[name], weights, atol=1e-5, rtol=0)


torch.manual_seed(0)
sizes = dict(source_vocabulary_size=20, target_vocabulary_size=20)
config = TransformerConfig(width=16, heads=4, layers=1, feed_forward=24, **sizes)
model, source, target = Transformer(config).eval(), torch.randint(4, 20, (2, 6)), torch.randint(4, 20, (2, 5))
source[1, 4:] = 0
whole = compiled(model)
with torch.no_grad():
    plain = whole(source, target)
    for turn in range(10):  # more often than PyTorch is willing to compile again
        with record(whole, heads=[turn % 4], queries=[1]) as tape:
            assert torch.equal(plain, whole(source, target))
    with record(model, heads=[1], queries=[1]) as eager:
        model(source, target)
near(tape, eager)

layer, x = MultiHeadAttention(8, 2, dropout=0.3).train(), torch.randn(2, 5, 8)
learning = compiled(layer)


def gradients():
    torch.manual_seed(1)
    return torch.autograd.grad(learning(x, causal=True).square().sum(), list(learning.parameters()))


plain = gradients()
with record(learning) as tape:
    watched = gradients()
assert all(torch.equal(one, other) for one, other in zip(plain, watched, strict=True))
with record(layer) as eager:
    layer(x, causal=True)
near(tape, eager)

layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False).eval()
reading = compiled(encoder)
with torch.no_grad():
    plain = reading(x)
    with record(reading) as tape:
        assert torch.equal(plain, reading(x))
    with record(encoder) as eager:
        encoder(x)
near(tape, eager)
"""


@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.slow)])
def test_compiled_models_are_recorded_without_a_break_and_without_compiling_again(backend: str):
    """In a program of its own: here every annotation is executed, which no compiler can read."""
    answer = subprocess.run([sys.executable, "-c", COMPILED, backend], capture_output=True, text=True, check=False)
    assert (answer.returncode, answer.stdout) == (0, ""), answer.stderr


# --- memory -----------------------------------------------------------------------------------------------------------


class Created(TorchDispatchMode):
    """How many numbers the operators put into new memory: the most at once, and altogether."""

    def __init__(self) -> None:
        super().__init__()
        self.largest = self.total = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        output = func(*args, **(kwargs or {}))
        given = {x.untyped_storage().data_ptr() for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)}
        for x in tree_leaves(output):
            if isinstance(x, Tensor) and x.untyped_storage().data_ptr() not in given:
                self.largest, self.total = max(self.largest, x.numel()), self.total + x.numel()
        return output


@pytest.mark.parametrize("plain_torch", [False, True])
def test_at_4096_tokens_memory_is_bounded_by_what_was_asked(plain_torch: bool):
    torch.manual_seed(0)
    time, width, heads, queries = 4096, 16, 2, 8
    module = nn.MultiheadAttention(width, heads, batch_first=True) if plain_torch else MultiHeadAttention(width, heads)
    x = torch.randn(1, time, width)

    def run() -> Created:
        with torch.no_grad(), Created() as created:
            module(x, x, x, need_weights=False) if plain_torch else module(x, causal=True)
        return created

    unwatched = run()
    with record(module, heads=[1], queries=range(queries)) as tape:
        watched = run()
    weights = tape.attention["attention"]
    assert weights.shape == (1, 1, queries, time)
    assert watched.largest == unwatched.largest == 3 * time * width  # the projections: no square of the time anywhere
    asked, one_head = queries * time, time * (width // heads)
    projections = 2 * time * width if plain_torch else 0  # PyTorch's module keeps its own to itself
    assert watched.total - unwatched.total < 12 * asked + 4 * one_head + projections
    q, k = (x @ part.T for part in next(module.parameters()).detach().chunk(3)[:2])  # biases are 0
    allowed = torch.ones(queries, time, dtype=torch.bool) if plain_torch else torch.ones(queries, time).tril().bool()
    scores = q[:, :queries, width // 2 :] @ k[..., width // 2 :].mT / (width // heads) ** 0.5
    torch.testing.assert_close(weights[:, 0], scores.masked_fill(~allowed, -torch.inf).softmax(-1), atol=1e-5, rtol=0)


def test_rows_are_computed_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch):
    model, source, target = made().eval(), tokens(9, 7), tokens(8, 8)
    with record(model) as whole:
        model(source, target)
    monkeypatch.setattr(recording, "NUMBERS_AT_ONCE", 2 * HEADS * 9 * 3)  # three rows of the largest layer
    with record(model) as pieces:
        model(source, target)
    for name, weights in whole.attention.items():
        torch.testing.assert_close(pieces.attention[name], weights, atol=1e-6, rtol=0)


# --- nothing stays behind ---------------------------------------------------------------------------------------------


def attributes(model: nn.Module) -> list[dict[str, Any]]:
    return [dict(vars(module)) for module in model.modules()]


def torchs_own() -> nn.Module:
    with without_prototype_warnings():
        return nn.Transformer(8, 2, 1, 1, 16, batch_first=True)


@pytest.mark.parametrize("make", [made, torchs_own])
def test_after_the_block_the_model_is_as_it_was_even_if_the_block_failed(make: Callable[[], nn.Module]):
    model = make()
    before = attributes(model)
    with record(model):
        assert attributes(model) != before
    assert attributes(model) == before
    with pytest.raises(KeyError), record(model):
        raise KeyError
    assert attributes(model) == before
    assert not recording._Observer.running


def test_a_pattern_that_is_refused_leaves_the_model_as_it_was():
    model = made()
    before = attributes(model)
    with pytest.raises(InputError), record(model, layers=["encoder.*", "nothing"]):
        pass
    assert attributes(model) == before


@pytest.mark.parametrize("plain_torch", [False, True])
def test_a_recording_within_another_takes_nothing_from_it(plain_torch: bool):
    module = nn.MultiheadAttention(8, 2, batch_first=True) if plain_torch else MultiHeadAttention(8, 2)
    x, y = torch.randn(2, 4, 8), torch.randn(2, 3, 8)
    before = attributes(module)
    with record(module) as outer:
        with record(module, heads=[1]) as inner:
            module(x, x, x)
        assert outer.attention["attention"].shape == (2, 2, 4, 4)
        assert torch.equal(inner.attention["attention"], outer.attention["attention"][:, 1:])
        module(y, y, y)
        assert outer.attention["attention"].shape == (2, 2, 3, 3)
        assert inner.attention["attention"].shape == (2, 1, 4, 4)
    assert attributes(module) == before


def test_a_tape_is_empty_until_the_model_runs_and_stays_after_the_block():
    model = made().eval()
    with record(model, layers=[]) as nothing, record(model) as tape:
        assert tape == Tape()
        model(tokens(3), tokens(2))
    assert len(tape.attention) == len(NAMES)
    assert nothing == Tape()
    tape.attention.clear()
    model(tokens(3), tokens(2))
    assert tape == Tape()


# --- what cannot be ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "layers", "message"),
    [
        (nn.Linear(2, 2), "*", "record watches models with attention, but got a Linear without any."),
        (
            made(),
            "decoder.1.cros",
            "layers must name attention modules of the model, but got 'decoder.1.cros': did you mean "
            "'decoder.1.cross'?",
        ),
        (
            made(),
            ["*", "xyz"],
            f"layers must name attention modules of the model, but got 'xyz': choose from {', '.join(NAMES)}.",
        ),
    ],
    ids=["no attention", "misspelt", "far from any"],
)
def test_what_cannot_be_recorded_is_named(model: nn.Module, layers: str | list[str], message: str):
    with pytest.raises(InputError) as error, record(model, layers=layers):
        pass
    assert str(error.value) == message


def test_attention_is_found_by_name():
    assert list(attention_modules(made())) == NAMES
    assert list(attention_modules(MultiHeadAttention(8, 2))) == ["attention"]
