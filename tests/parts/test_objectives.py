import os
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F

from neuropil.data.corpus.streams import TextStreams
from neuropil.errors import InputError
from neuropil.models.bert import BERTConfig, MaskedBERT
from neuropil.models.gpt2 import GPT2, GPT2Config
from neuropil.models.recurrent import CellName, RecurrentNetwork, RecurrentNetworkConfig
from neuropil.parts import objectives
from neuropil.parts.objectives import (
    Classification,
    MaskedToken,
    MultiLabel,
    NextToken,
    NextTokenInWindow,
    ProjectedModel,
    Regression,
    SequenceToSequence,
    Tagging,
)
from neuropil.protocols import END, PADDING, START, Learner, StatefulLearner
from neuropil.training.config import TrainingConfig
from neuropil.training.evaluation import evaluate
from neuropil.training.interruption import Interrupted
from neuropil.training.loop import fit


@pytest.fixture
def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Linear(4, 3)


def test_objectives_are_learners(net: nn.Module):
    for learner in (Classification(net), Regression(net)):
        assert isinstance(learner, Learner)
        (phase,) = learner.phases()
        assert dict(phase.parameters) == dict(net.named_parameters())


def test_a_classifier_is_measured_without_smoothing_and_penalty(net: nn.Module):
    batch = {"input": torch.randn(8, 4), "target": torch.randint(0, 3, (8,))}
    plain, regularised = Classification(net), Classification(net, label_smoothing=0.1, l1=0.01)
    cross_entropy = nn.functional.cross_entropy(net(batch["input"]), batch["target"])
    torch.testing.assert_close(plain.loss(batch), cross_entropy)
    torch.testing.assert_close(regularised.metrics(batch)["loss"].mean(), cross_entropy)
    smoothed = nn.functional.cross_entropy(net(batch["input"]), batch["target"], label_smoothing=0.1)
    torch.testing.assert_close(regularised.loss(batch), smoothed + 0.01 * net.get_parameter("weight").abs().sum())


def test_accuracy_counts_the_largest_logit():
    batch = {"input": torch.eye(3), "target": torch.tensor([0, 1, 0])}
    assert Classification(nn.Identity()).metrics(batch)["accuracy"].tolist() == [1, 1, 0]


def test_a_regressor_learns_in_units_of_scale_and_reports_in_the_targets_own():
    batch = {"input": torch.tensor([[100.0], [200.0]]), "target": torch.tensor([110.0, 240.0])}
    learner = Regression(nn.Identity(), scale=20.0)
    metrics = learner.metrics(batch)
    assert metrics["absolute_error"].tolist() == [10, 40]
    assert metrics["squared_error"].tolist() == [100, 1600]
    assert metrics["loss"].tolist() == [0.125, 2]
    assert learner.loss(batch).item() == 1.0625


def test_targets_of_one_axis_do_not_broadcast_into_all_pairs():
    batch = {"input": torch.arange(4.0)[:, None], "target": torch.arange(4)}
    assert Regression(nn.Identity()).loss(batch).item() == 0


def test_constant_targets_leave_the_loss_finite():
    batch = {"input": torch.zeros(4, 1), "target": torch.ones(4)}
    assert Regression(nn.Identity(), scale=batch["target"][:, None].std(0)).loss(batch).item() == 0.5


def test_several_outputs_have_each_their_scale():
    batch = {"input": torch.tensor([[1.0, 100.0]]), "target": torch.tensor([[2.0, 200.0]])}
    learner = Regression(nn.Identity(), scale=torch.tensor([1.0, 100.0]))
    assert learner.loss(batch).item() == 1
    assert learner.metrics(batch)["absolute_error"].item() == 50.5


def test_targets_with_too_many_axes_are_refused():
    with pytest.raises(InputError) as error:
        Regression(nn.Identity()).loss({"input": torch.zeros(2, 3), "target": torch.zeros(2, 3, 1)})
    assert str(error.value) == "Regression needs targets of shape [batch] or [batch, outputs], but got (2, 3, 1)."


def test_several_labels_are_right_where_the_sign_of_each_logit_is():
    logits = torch.tensor([[2.0, -1.0, 0.5], [-3.0, 1.0, -0.1]])
    batch = {"input": logits, "target": torch.tensor([[1.0, 0.0, 1.0], [0.0, 0.0, 1.0]])}
    metrics = MultiLabel(nn.Identity(), label_smoothing=0.3).metrics(batch)
    assert metrics["exact_match"].tolist() == [1, 0]
    torch.testing.assert_close(metrics["hamming_loss"], torch.tensor([0.0, 2 / 3]))
    expected = F.binary_cross_entropy_with_logits(logits, batch["target"], reduction="none").sum(-1)
    torch.testing.assert_close(metrics["loss"], expected)


# --- translation ----------------------------------------------------------------------------------------------------


class Copyist(nn.Module):
    """A writer whose hidden vectors depend on the source and on each token of the target alone."""

    def __init__(self, width: int = 5, vocabulary: int = 9):
        super().__init__()
        self.table, self.output = nn.Embedding(vocabulary, width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, source: Tensor, target: Tensor, project: bool = True) -> Tensor:
        valid = (source != PADDING).float()[..., None]
        hidden = self.table(target) + (self.table(source) * valid).sum(1, keepdim=True)
        return self.output(hidden) if project else hidden

    @property
    def output_weight(self) -> Tensor:
        return self.output.weight


def pairs(*lengths: tuple[int, int]) -> dict[str, Tensor]:
    """Tokens between a start and an end, filled up with padding."""

    def side(counts: Sequence[int]) -> Tensor:
        rows = [
            torch.cat([torch.tensor([START]), torch.randint(4, 9, (count,)), torch.tensor([END])]) for count in counts
        ]
        return nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PADDING)

    sources, targets = zip(*lengths, strict=True)
    return {"source": side(sources), "target": side(targets)}


@pytest.fixture
def writer() -> Copyist:
    torch.manual_seed(0)
    return Copyist()


def test_a_translator_is_a_learner_of_all_its_parameters(writer: Copyist):
    learner = SequenceToSequence(writer)
    assert isinstance(writer, ProjectedModel)
    assert isinstance(learner, Learner)
    (phase,) = learner.phases()
    assert dict(phase.parameters) == dict(writer.named_parameters())
    assert phase.name == "sequence to sequence"


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
def test_the_loss_of_a_translation_is_torchs_cross_entropy_of_the_tokens_that_follow(
    writer: Copyist, label_smoothing: float
):
    batch = pairs((3, 2), (1, 6), (4, 0))
    logits = writer(batch["source"], batch["target"][:, :-1])
    expected = nn.CrossEntropyLoss(ignore_index=PADDING, label_smoothing=label_smoothing)(
        logits.mT, batch["target"][:, 1:]
    )
    ours = SequenceToSequence(writer, label_smoothing).loss(batch)
    torch.testing.assert_close(ours, expected)
    parameters = list(writer.parameters())
    for gradient, other in zip(*(torch.autograd.grad(loss, parameters) for loss in (ours, expected)), strict=True):
        torch.testing.assert_close(gradient, other)


def test_a_translation_is_measured_for_each_target_without_smoothing(writer: Copyist):
    batch = pairs((3, 2), (1, 6), (4, 0))
    metrics = SequenceToSequence(writer, label_smoothing=0.3).metrics(batch)
    for row in range(3):
        length = int((batch["target"][row] != PADDING).sum())
        source, target = batch["source"][row : row + 1], batch["target"][row, :length]
        logits = writer(source, target[None, :-1])[0]
        torch.testing.assert_close(metrics["loss"][row], F.cross_entropy(logits, target[1:]))
        torch.testing.assert_close(metrics["token_accuracy"][row], (logits.argmax(-1) == target[1:]).float().mean())
    assert set(metrics) == {"loss", "token_accuracy"}


def test_padding_of_a_translation_counts_for_nothing(writer: Copyist):
    batch = pairs((3, 2), (1, 6))
    padded = {name: F.pad(tokens, (0, 4), value=PADDING) for name, tokens in batch.items()}
    learner = SequenceToSequence(writer, label_smoothing=0.1)
    torch.testing.assert_close(learner.loss(padded), learner.loss(batch))
    for name, values in learner.metrics(batch).items():
        torch.testing.assert_close(learner.metrics(padded)[name], values)
    parameters = list(writer.parameters())
    for gradient, other in zip(
        *(torch.autograd.grad(learner.loss(b), parameters) for b in (padded, batch)), strict=True
    ):
        torch.testing.assert_close(gradient, other)


def test_tokens_weigh_the_same_in_the_loss_and_targets_in_the_metrics(writer: Copyist):
    batch = pairs((2, 1), (2, 7))
    learner = SequenceToSequence(writer)
    losses, lengths = learner.metrics(batch)["loss"], torch.tensor([2, 8])  # the end is predicted too, the start is not
    torch.testing.assert_close(learner.loss(batch), (losses * lengths).sum() / lengths.sum())


# --- tags -----------------------------------------------------------------------------------------------------------


def tagged(*lengths: int) -> dict[str, Tensor]:
    """Tokens of 4 … 9, and a tag of three for each; what stands past the end of a text is arbitrary."""
    torch.manual_seed(1)
    time = torch.arange(max(lengths))
    tokens = torch.randint(4, 10, (len(lengths), len(time))).masked_fill(
        time >= torch.tensor(lengths)[:, None], PADDING
    )
    return {"input": tokens, "target": torch.randint(0, 3, tokens.shape)}


@pytest.mark.parametrize("label_smoothing", [0.0, 0.2])
def test_the_loss_of_tags_is_torchs_cross_entropy_with_padding_ignored(label_smoothing: float):
    model, batch = nn.Embedding(10, 3), tagged(4, 1, 7)
    target = batch["target"].masked_fill(batch["input"] == PADDING, -100)
    expected = nn.CrossEntropyLoss(label_smoothing=label_smoothing)(model(batch["input"]).mT, target)
    ours = Tagging(model, label_smoothing).loss(batch)
    torch.testing.assert_close(ours, expected)
    for gradient, other in zip(
        *(torch.autograd.grad(loss, list(model.parameters())) for loss in (ours, expected)), strict=True
    ):
        torch.testing.assert_close(gradient, other)
    assert isinstance(Tagging(model), Learner)


def test_tags_are_measured_for_each_text_and_padding_counts_for_nothing():
    model, batch = nn.Embedding(10, 3), tagged(4, 1, 7)
    metrics = Tagging(model, label_smoothing=0.3).metrics(batch)
    for row, length in enumerate((4, 1, 7)):
        logits, target = model(batch["input"][row, :length]), batch["target"][row, :length]
        torch.testing.assert_close(metrics["loss"][row], F.cross_entropy(logits, target))
        torch.testing.assert_close(metrics["token_accuracy"][row], (logits.argmax(-1) == target).float().mean())
    wider = {name: F.pad(values, (0, 3), value=PADDING) for name, values in batch.items()}
    for name, values in Tagging(model).metrics(wider).items():
        torch.testing.assert_close(values, metrics[name])


def test_a_text_is_right_when_all_of_its_tags_are():
    model = nn.Embedding.from_pretrained(torch.eye(3).repeat(4, 1))  # the tag of token n is n modulo 3
    batch = {"input": torch.tensor([[4, 5], [6, PADDING]]), "target": torch.tensor([[1, 0], [0, 2]])}
    metrics = Tagging(model).metrics(batch)
    assert metrics["exact_accuracy"].tolist() == [0, 1]
    assert metrics["token_accuracy"].tolist() == [0.5, 1]


# --- masked tokens -------------------------------------------------------------------------------------------------


def test_the_loss_is_the_cross_entropy_at_the_chosen_places():
    torch.manual_seed(0)
    model = MaskedBERT(
        BERTConfig(width=8, heads=2, layers=1, feed_forward=8, context=9, vocabulary_size=20, pooler=False)
    ).eval()
    learner = MaskedToken(model)
    batch = {"input": torch.randint(20, (3, 9)), "target": torch.randint(20, (3, 9)), "scored": torch.rand(3, 9) < 0.3}
    logits, target = model(batch["input"])[batch["scored"]], batch["target"][batch["scored"]]
    torch.testing.assert_close(learner.loss(batch), F.cross_entropy(logits, target))
    metrics = learner.metrics(batch)
    torch.testing.assert_close(metrics["loss"], F.cross_entropy(logits, target, reduction="none"))
    assert torch.equal(metrics["accuracy"], (logits.argmax(-1) == target).float())
    assert set(learner.phases()[0].parameters) == set(dict(model.named_parameters()))


# --- next tokens: what is carried, what is cut, and what survives a kill -------------------------------------------


VOCABULARY = 12


def model(cell: CellName = "lstm", **options: Any) -> RecurrentNetwork:
    torch.manual_seed(0)
    return RecurrentNetwork(
        RecurrentNetworkConfig(
            cell=cell,
            hidden_size=8,
            embedding_size=6,
            vocabulary_size=VOCABULARY,
            output_size=VOCABULARY,
            shape="aligned",
            **options,
        )
    )


def tokens(count: int = 400) -> torch.Tensor:
    return torch.randint(4, VOCABULARY, (count,), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("cell", ["rnn", "lstm", "gru", "mingru"])
def test_pieces_with_a_carried_state_give_the_losses_of_the_whole(cell: CellName):
    network = model(cell, layers=2).eval()
    text = tokens(101)
    carried = evaluate(NextToken(network), TextStreams(text, 1, 7))
    with torch.no_grad():
        logits = network(text[:-1].unsqueeze(0))[0]
    assert carried["loss"] == pytest.approx(F.cross_entropy(logits, text[1:]).item(), abs=1e-6)
    assert carried["accuracy"] == pytest.approx((logits.argmax(-1) == text[1:]).float().mean().item())
    assert evaluate(NextToken(network, carry_state=False), TextStreams(text, 1, 7))["loss"] != pytest.approx(
        carried["loss"], abs=1e-4
    )


def test_every_token_of_a_padded_last_row_weighs_the_same():
    network = model().eval()
    text = tokens(50)
    (batch,) = TextStreams(text, 3, 100).epoch(0)
    losses = NextToken(network).metrics(batch)["loss"]
    assert losses.shape == (49,)
    torch.testing.assert_close(NextToken(network).loss(batch), losses.mean())


def test_no_gradient_goes_back_beyond_its_piece():
    network = model("gru")
    learner = NextToken(network)
    first, second, *_ = TextStreams(tokens(), 2, 5, seed=0).epoch(0)
    learner.loss(first)
    learner.loss(second).backward()
    seen = network.embedding.weight.grad
    assert seen is not None
    touched = set(seen.abs().sum(1).nonzero().flatten().tolist())
    assert touched == set(second["input"].flatten().tolist())


def test_a_row_that_begins_forgets_and_the_others_go_on():
    network = model().eval()
    learner = NextToken(network)
    first, second, *_ = TextStreams(tokens(), 2, 5, seed=0).epoch(0)
    learner.loss(first)
    mixed = learner.loss(dict(second) | {"begins": torch.tensor([True, False])})
    with torch.no_grad():
        fresh = F.cross_entropy(network(second["input"][:1])[0], second["target"][0])
        whole = network(torch.cat([first["input"], second["input"]], 1)[1:])[0, 5:]
    torch.testing.assert_close(mixed, (fresh + F.cross_entropy(whole, second["target"][1])) / 2)


class StoppedAt(NextToken):
    """Sends its own process the signal of Ctrl-C in the middle of an update."""

    left = -1

    def loss(self, batch):
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGINT)
        return super().loss(batch)


@pytest.mark.parametrize("cell", ["lstm", "mingru"])
def test_a_run_that_stops_in_the_middle_of_a_text_comes_out_as_if_it_had_not(tmp_path: Path, cell: CellName):
    config = TrainingConfig(epochs=2, accumulate=2)
    train, validation = TextStreams(tokens(), 4, 6, seed=0), TextStreams(tokens(60), 2, 6)

    def learn(folder: Path, stop: int) -> dict[str, torch.Tensor]:
        learner = StoppedAt(model(cell, dropout=0.2))
        learner.left = stop
        fit(learner, train, validation, config, seed=0, folder=folder, show_progress=False)
        return learner.model.state_dict()

    whole = learn(tmp_path / "whole", -1)
    with pytest.raises(Interrupted):
        learn(tmp_path / "cut", 9)
    resumed = learn(tmp_path / "cut", -1)
    assert all(torch.equal(value, resumed[name]) for name, value in whole.items())


def test_what_is_carried_can_be_saved_and_recalled():
    first, second, *_ = TextStreams(tokens(), 2, 5, seed=0).epoch(0)
    learner, other = NextToken(model()), NextToken(model())
    assert isinstance(learner, StatefulLearner)
    assert learner.state_dict() == {}
    other.load_state_dict({})
    learner.loss(first)
    assert set(learner.state_dict()) == {"0.h", "0.c"}
    other.load_state_dict(learner.state_dict())
    assert torch.equal(learner.loss(second), other.loss(second))


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("at_once", [1, 70, 2**22])
def test_windows_have_the_losses_of_all_logits_at_once(tied: bool, at_once: int, monkeypatch: pytest.MonkeyPatch):
    torch.manual_seed(0)
    network = GPT2(
        GPT2Config(width=8, heads=2, layers=1, feed_forward=8, context=9, vocabulary_size=VOCABULARY, tied=tied)
    ).eval()
    monkeypatch.setattr(objectives, "LOGITS_AT_ONCE", at_once)
    learner = NextTokenInWindow(network)
    batch = {"input": torch.randint(VOCABULARY, (3, 9)), "target": torch.randint(VOCABULARY, (3, 9))}
    scored = torch.rand(3, 9) < 0.5
    logits = network(batch["input"])
    expected = F.cross_entropy(logits.flatten(0, 1), batch["target"].flatten())
    torch.testing.assert_close(learner.loss(batch), expected)
    ours = torch.autograd.grad(learner.loss(batch), list(network.parameters()))
    for gradient, wanted in zip(ours, torch.autograd.grad(expected, list(network.parameters())), strict=True):
        torch.testing.assert_close(gradient, wanted)
    metrics = learner.metrics(batch | {"scored": scored})
    torch.testing.assert_close(
        metrics["loss"], F.cross_entropy(logits[scored], batch["target"][scored], reduction="none")
    )
    assert torch.equal(metrics["accuracy"], (logits[scored].argmax(-1) == batch["target"][scored]).float())


# --- weights in the loss --------------------------------------------------------------------------------------------


class WeightedCase(NamedTuple):
    learner: Any
    batch: dict[str, Tensor]
    steps: tuple[int, ...]
    """The shape of the weights of steps; none, where examples have no steps."""


def weighted_cases() -> dict[str, WeightedCase]:
    """Every objective, with a batch of four examples."""
    torch.manual_seed(0)
    rows = {"input": torch.randn(4, 4), "target": torch.tensor([0, 2, 1, 2])}
    words = tagged(4, 1, 7, 2)
    window = {"input": torch.randint(0, 20, (4, 6)), "target": torch.randint(0, 20, (4, 6))}
    scored = {**window, "scored": torch.rand(4, 6) < 0.6}
    stream = {**window, "begins": torch.ones(4, dtype=torch.bool)}
    stream["target"] = window["target"].masked_fill(torch.rand(4, 6) < 0.3, PADDING)
    gpt2 = GPT2(GPT2Config(width=8, heads=2, layers=1, context=6, vocabulary_size=20, dropout=0.0))
    bert = MaskedBERT(
        BERTConfig(width=8, heads=2, layers=1, feed_forward=8, context=9, vocabulary_size=20, pooler=False)
    )
    recurrent = RecurrentNetworkConfig(
        hidden_size=8, embedding_size=6, vocabulary_size=20, output_size=20, shape="aligned"
    )
    return {
        "classification": WeightedCase(Classification(nn.Linear(4, 3), 0.1), rows, ()),
        "multi-label": WeightedCase(
            MultiLabel(nn.Linear(4, 3), 0.1), {**rows, "target": torch.eye(3)[rows["target"]]}, ()
        ),
        "regression": WeightedCase(Regression(nn.Linear(4, 1), scale=3.0), rows, ()),
        "tagging": WeightedCase(Tagging(nn.Embedding(10, 3), 0.1), words, (7,)),
        "translation": WeightedCase(SequenceToSequence(Copyist(), 0.1), pairs((3, 2), (1, 6), (4, 0), (2, 3)), (7,)),
        "window": WeightedCase(NextTokenInWindow(gpt2.eval()), window, (6,)),
        "scored window": WeightedCase(NextTokenInWindow(gpt2.eval()), scored, (6,)),
        "masked": WeightedCase(MaskedToken(bert.eval()), scored, (6,)),
        "stream": WeightedCase(NextToken(RecurrentNetwork(recurrent)), stream, (6,)),
    }


CASES = [*weighted_cases()]


def loss_and_gradients(learner: Any, batch: dict[str, Tensor]) -> list[Tensor]:
    loss = learner.loss(batch)
    return [loss, *torch.autograd.grad(loss, list(learner.model.parameters()), allow_unused=True)]


def measured(learner: Any, batch: dict[str, Tensor]) -> float:
    return evaluate(learner, OneBatch(batch))["loss"]


class OneBatch:
    def __init__(self, batch: dict[str, Tensor]):
        self.batch = batch

    def __len__(self) -> int:
        return 1

    def epoch(self, number: int, start: int = 0) -> Iterator[dict[str, Tensor]]:
        yield self.batch


@pytest.mark.parametrize("case", CASES)
@settings(deadline=None, max_examples=12)
@given(counts=st.lists(st.integers(0, 3), min_size=4, max_size=4).filter(any))
def test_a_whole_weight_counts_as_so_many_copies_and_none_as_leaving_out(case: str, counts: list[int]):
    learner, batch, _ = weighted_cases()[case]
    copies = {name: values.repeat_interleave(torch.tensor(counts), 0) for name, values in batch.items()}
    weighted = {**batch, "weight": torch.tensor(counts).float()}
    if case in ("scored window", "masked") and not copies["scored"].any():
        return
    expected = loss_and_gradients(learner, copies)
    torch.testing.assert_close(loss_and_gradients(learner, weighted), expected, rtol=1e-4, atol=1e-6)
    assert measured(learner, weighted) == pytest.approx(measured(learner, copies), rel=1e-5)


@pytest.mark.parametrize("case", [name for name in CASES if weighted_cases()[name].steps])
def test_weights_of_steps_leave_steps_out_and_equal_ones_change_nothing(case: str):
    learner, batch, steps = weighted_cases()[case]
    plain = loss_and_gradients(learner, batch)
    equal = {**batch, "weight": torch.full((4, *steps), 2.5)}
    torch.testing.assert_close(loss_and_gradients(learner, equal), plain, rtol=1e-4, atol=1e-6)
    # Only the first step: what the batch cut to it says, as far as that step does not depend on later ones
    first = {**batch, "weight": torch.zeros(4, *steps).index_fill(1, torch.tensor(0), 1.0)}
    if "scored" not in batch and case != "masked":
        kept = 2 if case == "translation" else 1
        cut = {
            name: values[:, :kept] if values.ndim > 1 and name != "source" else values for name, values in batch.items()
        }
        torch.testing.assert_close(learner.loss(first), learner.loss(cut), rtol=1e-4, atol=1e-6)


def test_weights_of_classes_are_those_of_torch():
    torch.manual_seed(0)
    net, x, target = nn.Linear(4, 3), torch.randn(9, 4), torch.randint(0, 3, (9,))
    of_class = torch.tensor([0.5, 2.0, 3.0])
    ours = Classification(net).loss({"input": x, "target": target, "weight": of_class[target]})
    torch.testing.assert_close(ours, nn.CrossEntropyLoss(weight=of_class)(net(x), target))


def test_the_measured_loss_is_weighted_and_other_metrics_count_each_example_once():
    batch = {"input": torch.eye(3), "target": torch.tensor([0, 1, 0]), "weight": torch.tensor([1.0, 1.0, 10.0])}
    learner = Classification(nn.Identity())
    found = evaluate(learner, OneBatch(batch))
    right, wrong = (float(F.cross_entropy(torch.eye(3)[:1], torch.tensor([number]))) for number in (0, 1))
    assert found == pytest.approx({"loss": (2 * right + 10 * wrong) / 12, "accuracy": 2 / 3})


def test_a_batch_in_which_nothing_counts_has_no_loss_and_no_gradient():
    net = nn.Linear(4, 3)
    batch = {"input": torch.randn(2, 4), "target": torch.tensor([0, 1]), "weight": torch.zeros(2)}
    loss, *gradients = loss_and_gradients(Classification(net), batch)
    assert loss.item() == 0
    assert all(not gradient.any() for gradient in gradients)


def test_weights_of_another_shape_are_refused():
    batch = {"input": torch.randn(2, 4), "target": torch.tensor([0, 1]), "weight": torch.ones(3)}
    with pytest.raises(InputError) as error:
        Classification(nn.Linear(4, 3)).loss(batch)
    rule = "weights of a batch must be one for each example, or for each step: (2,)"
    assert str(error.value) == f"{rule}, but got (3,)."
