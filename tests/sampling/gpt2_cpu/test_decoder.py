"""Decoding by a kernel that reads every weight once, beside the model itself."""

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast, get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from neuropil.errors import InputError
from neuropil.models.gpt2 import GPT2, GPT2Config
from neuropil.parts.blocks import HIDDEN
from neuropil.parts.multi_head import remove_heads
from neuropil.sampling.gpt2_cpu.decoder import FastDecoder, Precision

PRECISIONS: tuple[Precision, ...] = get_args(Precision)


def gpt2(**options: Any) -> GPT2:
    """Large weights, so that everything in it matters to the logits."""
    sizes: dict[str, Any] = {
        "width": 24,
        "heads": 3,
        "layers": 2,
        "feed_forward": 40,
        "context": 32,
        "vocabulary_size": 50,
    } | options
    torch.manual_seed(0)
    model = GPT2(GPT2Config(**sizes)).eval()
    for parameter in model.parameters():
        parameter.data += 0.2 * torch.randn_like(parameter)
    return model


def texts(model: GPT2, length: int) -> Tensor:
    return torch.randint(model.config.vocabulary_size, (1, length), generator=torch.Generator().manual_seed(1))


def logits(decoder: FastDecoder, tokens: Tensor, prompt: int) -> Tensor:
    """After the prompt and after every token that follows it."""
    state = decoder.begin()
    steps = [tokens[:, :prompt], *tokens[:, prompt:].split(1, dim=1)]
    return torch.stack([decoder.step(step, state) for step in steps], dim=1)


@torch.no_grad()
def rounded(model: GPT2, precision: Precision) -> GPT2:
    """The same model with every matrix rounded as its name says, by the definition."""
    matrices = [model.tokens.weight, *(p for name, p in model.blocks.named_parameters() if p.ndim == 2)]
    for matrix in matrices if model.config.tied else [*matrices, model.output.weight]:
        if precision == "bfloat16":
            matrix.copy_(matrix.bfloat16().float())
        elif precision == "int8" and matrix.numel():
            scale = matrix.abs().max(dim=1, keepdim=True).values / 127
            matrix.copy_(torch.round(matrix / scale) * scale)
        elif precision == "int4":
            for group in groups_of(matrix.shape[1]):
                matrix[:, group] = in_four_bits(matrix[:, group])
    return model


def round_what_enters(model: GPT2, how: Callable[[Tensor], Tensor]) -> None:
    """Every matrix."""
    model.norm.register_forward_hook(lambda module, entered, x: how(cast(Tensor, x)))
    for block in model.blocks:
        attention, feed_forward = block.attention, block.feed_forward
        for module in (attention.projection, attention.output, feed_forward.inner, feed_forward.outer):
            module.register_forward_pre_hook(lambda module, entered: how(entered[0]))


def in_bfloat16(x: Tensor) -> Tensor:
    return x.bfloat16().float()


def in_eight_bits(x: Tensor) -> Tensor:
    """Every group by itself, from -127 to 127."""
    x = x.clone()
    for group in groups_of(x.shape[-1]):
        scale = x[..., group].abs().amax(-1, keepdim=True) / 127
        x[..., group] = torch.round(x[..., group] / scale.where(scale > 0, 1)) * scale
    return x


def groups_of(columns: int) -> list[list[int]]:
    """Places with the same quarter among 64, in each 512."""
    groups: dict[tuple[int, int], list[int]] = {}
    for column in range(columns):
        groups.setdefault((column // 512, column % 64 // 4), []).append(column)
    return [*groups.values()]


def in_four_bits(group: Tensor) -> Tensor:
    """Each row by the best of a few scales, by which its largest number becomes about -8."""
    largest = group.gather(1, group.abs().argmax(1, keepdim=True))
    scales = [(largest / level).bfloat16().float() for level in (-8.5, -8.0, -7.5, -7.0)]
    ways = torch.stack([torch.round(group / scale).clamp(-8, 7) * scale for scale in scales])
    best = (ways - group).square().sum(2).argmin(0)
    return ways[best, torch.arange(len(group))]


@given(
    heads=st.integers(1, 4),
    head_width=st.integers(2, 9),
    layers=st.integers(1, 3),
    feed_forward=st.integers(1, 40),
    vocabulary=st.integers(2, 60),
    activation=st.sampled_from(list(HIDDEN)),
    tied=st.booleans(),
    prompt=st.integers(1, 9),
    precision=st.sampled_from(PRECISIONS),
    removed=st.sets(st.integers(0, 3)),
)
@settings(deadline=None, max_examples=60)
def test_logits_are_those_of_the_model_with_weights_of_that_precision(
    heads, head_width, layers, feed_forward, vocabulary, activation, tied, prompt, precision, removed
):
    model = gpt2(
        width=heads * head_width,
        heads=heads,
        layers=layers,
        feed_forward=feed_forward,
        vocabulary_size=vocabulary,
        activation=activation,
        tied=tied,
    )
    remove_heads(model, {"blocks.0.attention": {head for head in removed if head < heads}})
    tokens = texts(model, 12)
    ours = logits(FastDecoder(model, precision), tokens, prompt)
    with torch.no_grad():
        expected = rounded(model, precision)(tokens)[:, prompt - 1 :]
        if precision == "float32":
            torch.testing.assert_close(ours, expected, atol=1e-4, rtol=1e-4)
            return
        round_what_enters(model, in_bfloat16 if precision == "bfloat16" else in_eight_bits)
        also = model(tokens)[:, prompt - 1 :]
    # A last bit may decide where an activation is rounded to, which changes no more than rounding them all does; and
    # not every processor rounds them to bfloat16.
    assert (ours - also).norm() <= 1e-4 * also.norm() + 2 * (also - expected).norm()


@pytest.mark.parametrize("precision", PRECISIONS)
def test_greedy_tokens_are_those_of_reading_everything_again(precision: Precision):
    model = gpt2(context=128, vocabulary_size=300)
    decoder, tokens = FastDecoder(model, precision), texts(model, 5)
    state, entering, written = decoder.begin(), tokens, tokens
    for _ in range(100):
        after = decoder.step(entering, state)
        assert torch.equal(after, decoder.step(written, decoder.begin()))
        entering = after.argmax(-1, keepdim=True)
        written = torch.cat([written, entering], 1)


def test_the_kernel_is_what_decodes_here():
    assert FastDecoder(gpt2())._kernel is not None


@pytest.mark.parametrize("precision", PRECISIONS)
def test_the_number_of_threads_changes_no_bit(precision: Precision):
    model = gpt2(width=96, heads=3)
    decoder, tokens, before = FastDecoder(model, precision), texts(model, 10), torch.get_num_threads()
    try:
        results = []
        for threads in (1, 2):
            torch.set_num_threads(threads)
            results.append(logits(decoder, tokens, 1))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(*results)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_threads_that_share_a_decoder_get_the_answers_of_one(precision: Precision):
    decoder = FastDecoder(gpt2(width=240, feed_forward=400), precision)
    prompts = [texts(gpt2(), length) for length in range(20, 28)]
    alone = [decoder.step(prompt, decoder.begin()) for prompt in prompts]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda prompt: decoder.step(prompt, decoder.begin()), prompts * 5))
    for answer, expected in zip(together, alone * 5, strict=True):
        torch.testing.assert_close(answer, expected)


def test_float32_weights_are_the_models_own_memory_and_the_others_need_no_model():
    model = gpt2(tied=False)
    parameters = {parameter.data_ptr() for parameter in model.parameters()}
    held = {
        precision: {
            matrix.weights.ctypes.data
            for layer in decoder.layers
            for matrix in (layer.projection, layer.output, layer.inner, layer.outer, decoder.tokens, decoder.output)
        }
        for precision in PRECISIONS
        for decoder in [FastDecoder(model, precision)]
    }
    assert held["float32"] <= parameters
    assert not held["bfloat16"] & parameters
    assert not held["int8"] & parameters
    assert not held["int4"] & parameters


def test_a_transposed_weight_is_laid_out_by_rows_in_the_model_itself():
    model = gpt2()
    tokens, inner = texts(model, 8), model.blocks[0].feed_forward.inner
    expected = logits(FastDecoder(model), tokens, 3)
    inner.weight.data = inner.weight.data.T.contiguous().T
    decoder = FastDecoder(model)
    assert decoder.layers[0].inner.weights.ctypes.data == inner.weight.data_ptr()
    torch.testing.assert_close(logits(decoder, tokens, 3), expected)


def test_what_is_no_number_stays_so():
    model = gpt2()
    model.blocks[0].feed_forward.inner.bias.data[0] = torch.nan
    assert logits(FastDecoder(model), texts(model, 3), 1).isnan().all()


@pytest.mark.parametrize("precision", PRECISIONS)
def test_without_numba_it_says_so_and_decodes_all_the_same(precision: Precision, monkeypatch: pytest.MonkeyPatch):
    model = gpt2()
    tokens = texts(model, 10)
    expected = logits(FastDecoder(model, precision), tokens, 4)
    monkeypatch.setitem(sys.modules, "neuropil.sampling.gpt2_cpu.kernel", None)
    with pytest.warns(RuntimeWarning) as notices:
        decoder = FastDecoder(model, precision)
    assert [str(notice.message) for notice in notices] == [
        "decoding is slower than it could be, because its kernel cannot be compiled: "
        "import of neuropil.sampling.gpt2_cpu.kernel halted; None in sys.modules"
    ]
    difference = (logits(decoder, tokens, 4) - expected).norm() / expected.norm()
    assert difference < (1e-5 if precision == "float32" else 0.02)  # where a last bit decides a rounding


def test_its_only_row_can_be_kept_or_dropped_but_not_repeated():
    state = FastDecoder(gpt2()).begin()
    state.reorder(torch.tensor([0]))
    state.reorder(torch.tensor([], dtype=torch.int64))
    with pytest.raises(InputError) as error:
        state.reorder(torch.tensor([0, 0]))
    assert (
        str(error.value)
        == "FastDecoder writes one text at a time, but got the rows [0, 0]: several are written by the model itself."
    )


@pytest.mark.parametrize(
    ("tokens", "present", "sentence"),
    [
        (
            torch.zeros(2, 3),
            None,
            "FastDecoder writes one text at a time, but got 2: several are written by the model itself.",
        ),
        (torch.zeros(1, 0), None, "a step reads at least one token, but got none."),
        (torch.tensor([[3, 50]]), None, "tokens are numbers from 0 to 49, but got 50."),
        (torch.tensor([[-1]]), None, "tokens are numbers from 0 to 49, but got -1."),
        (torch.zeros(1, 33), None, "the context length of this model is 32 tokens, but got 33: shorten the text."),
        (
            torch.zeros(1, 2),
            torch.tensor([[False, True]]),
            "one text alone is not filled up, but got places without a token: leave them out.",
        ),
    ],
)
def test_steps_that_make_no_sense_are_refused(tokens: Tensor, present: Tensor | None, sentence: str):
    decoder = FastDecoder(gpt2())
    state = decoder.begin()
    with pytest.raises(InputError) as error:
        decoder.step(tokens.long(), state, present)
    assert str(error.value) == sentence
    assert state.length == 0


def test_a_full_context_takes_no_further_token():
    model = gpt2()
    decoder, tokens = FastDecoder(model), texts(model, 32)
    state = decoder.begin()
    decoder.step(tokens, state)
    with pytest.raises(InputError) as error:
        decoder.step(tokens[:, :1], state)
    assert str(error.value) == "the context length of this model is 32 tokens, but got 33: shorten the text."


@pytest.mark.parametrize(
    ("precision", "sentence"),
    [
        (
            "float16",
            "precision must be float32, bfloat16, int8 or int4, but got float16: "
            "processors compute with it slowly, and what exceeds 65504 is lost; bfloat16 is as small.",
        ),
        ("bfloat", "precision must be float32, bfloat16, int8 or int4, but got bfloat: did you mean 'bfloat16'?"),
    ],
)
def test_other_precisions_are_refused(precision: str, sentence: str):
    with pytest.raises(InputError) as error:
        FastDecoder(gpt2(), precision)
    assert str(error.value) == sentence


def masked() -> GPT2:
    model = gpt2()
    model.blocks[1].attention.head_mask = torch.tensor([1.0, 0.0, 1.0])
    return model


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        (
            gpt2().to("meta"),
            "FastDecoder reads the processor's memory, but got a model on meta: move it there by model.cpu().",
        ),
        (
            gpt2().bfloat16(),
            "precision float32 takes the model's weights as they are, but got a model in bfloat16: use model.float().",
        ),
        (masked(), "FastDecoder reads every head, but got a mask of heads in block 1: remove the mask, or the heads."),
    ],
)
def test_models_that_it_cannot_read_are_refused(model: GPT2, sentence: str):
    with pytest.raises(InputError) as error:
        FastDecoder(model)
    assert str(error.value) == sentence
