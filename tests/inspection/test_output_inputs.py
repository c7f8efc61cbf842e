"""What output layers are given, while others use the same model."""

from threading import Barrier, Thread

import torch
from torch import Tensor, nn

from neuropil.inspection.output_inputs import with_output_inputs
from neuropil.models.mlp import MLP, MLPConfig
from neuropil.models.text_classifier import RecurrentTextClassifier, RecurrentTextClassifierConfig

NET = MLP(MLPConfig(hidden_sizes=(7,), shape=(4,), outputs=3)).eval()


@torch.no_grad()
def test_the_output_layer_makes_the_output_of_them_and_the_model_is_left_alone():
    x = torch.randn(5, 4)
    watched, found = with_output_inputs(NET)
    assert torch.equal(watched(x), NET(x))
    (features,) = found
    assert torch.equal(NET.output(features), NET(x))
    assert len(found) == 1
    assert not NET.output._forward_pre_hooks


def test_the_weights_are_the_same_tensors():
    watched, _ = with_output_inputs(NET)
    assert all(own is other for own, other in zip(watched.parameters(), NET.parameters(), strict=True))
    assert all(own is other for own, other in zip(watched.buffers(), NET.buffers(), strict=True))


@torch.no_grad()
def test_they_are_found_where_the_output_layer_belongs_to_a_part():
    config = RecurrentTextClassifierConfig(vocabulary_size=9, bigrams=8, hidden_size=4, embedding_size=4)
    model, tokens = RecurrentTextClassifier(config).eval(), torch.tensor([[5, 6, 7], [8, 5, 0]])
    watched, found = with_output_inputs(model)
    watched(tokens)
    torch.testing.assert_close(model.output(found[0]), model.network(tokens))


def test_a_thread_finds_nothing_of_what_another_asks():
    """Both are inside the model at once: each waits there for the other."""
    both, found = Barrier(2), dict[int, list[Tensor]]()

    class Meeting(nn.Module):
        def __init__(self):
            super().__init__()
            self.output = nn.Linear(2, 1)

        def forward(self, x: Tensor) -> Tensor:
            both.wait(10)
            y = self.output(x)
            both.wait(10)
            return y

    model = Meeting()

    def ask(number: int) -> None:
        watched, found[number] = with_output_inputs(model)
        watched(torch.full((3, 2), float(number)))

    threads = [Thread(target=ask, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(2):
        assert [given.tolist() for given in found[number]] == [[[number, number]] * 3]
