from collections.abc import Sequence

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from neuropil.errors import InputError
from neuropil.parts.objectives import Classification, Regression, Tagging, Translation, Writer
from neuropil.protocols import END, PADDING, START, Learner


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


# --- translation -----------------------------------------------------------------------------------------------------------


class Copyist(nn.Module):
    """A writer whose hidden vectors depend on the source and on each token of the target alone."""

    def __init__(self, width: int = 5, vocabulary: int = 9):
        super().__init__()
        self.table, self.output = nn.Embedding(vocabulary, width), nn.Linear(width, vocabulary, bias=False)

    def hidden(self, source: Tensor, target: Tensor) -> Tensor:
        there = (source != PADDING).float()[..., None]
        return self.table(target) + (self.table(source) * there).sum(1, keepdim=True)

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
    learner = Translation(writer)
    assert isinstance(writer, Writer)
    assert isinstance(learner, Learner)
    (phase,) = learner.phases()
    assert dict(phase.parameters) == dict(writer.named_parameters())
    assert phase.name == "translation"


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
def test_the_loss_of_a_translation_is_torchs_cross_entropy_of_the_tokens_that_follow(
    writer: Copyist, label_smoothing: float
):
    batch = pairs((3, 2), (1, 6), (4, 0))
    logits = F.linear(writer.hidden(batch["source"], batch["target"][:, :-1]), writer.output_weight)
    expected = nn.CrossEntropyLoss(ignore_index=PADDING, label_smoothing=label_smoothing)(
        logits.mT, batch["target"][:, 1:]
    )
    ours = Translation(writer, label_smoothing).loss(batch)
    torch.testing.assert_close(ours, expected)
    parameters = list(writer.parameters())
    for gradient, other in zip(*(torch.autograd.grad(loss, parameters) for loss in (ours, expected)), strict=True):
        torch.testing.assert_close(gradient, other)


def test_a_translation_is_measured_for_each_target_without_smoothing(writer: Copyist):
    batch = pairs((3, 2), (1, 6), (4, 0))
    metrics = Translation(writer, label_smoothing=0.3).metrics(batch)
    for row in range(3):
        length = int((batch["target"][row] != PADDING).sum())
        source, target = batch["source"][row : row + 1], batch["target"][row, :length]
        logits = F.linear(writer.hidden(source, target[None, :-1]), writer.output_weight)[0]
        torch.testing.assert_close(metrics["loss"][row], F.cross_entropy(logits, target[1:]))
        torch.testing.assert_close(metrics["token_accuracy"][row], (logits.argmax(-1) == target[1:]).float().mean())
    assert set(metrics) == {"loss", "token_accuracy"}


def test_padding_of_a_translation_counts_for_nothing(writer: Copyist):
    batch = pairs((3, 2), (1, 6))
    padded = {name: F.pad(tokens, (0, 4), value=PADDING) for name, tokens in batch.items()}
    learner = Translation(writer, label_smoothing=0.1)
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
    learner = Translation(writer)
    losses, lengths = learner.metrics(batch)["loss"], torch.tensor([2, 8])  # the end is predicted too, the start is not
    torch.testing.assert_close(learner.loss(batch), (losses * lengths).sum() / lengths.sum())


# --- tags --------------------------------------------------------------------------------------------------------------------------


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
