import torch

from neuropil.inspection.input_products import input_products
from neuropil.models.mlp import MLP, MLPConfig


def test_the_products_add_up_to_the_sums_of_the_first_layer():
    torch.manual_seed(0)
    model = MLP(MLPConfig(hidden_sizes=(7,), shape=(1, 8, 8))).eval()
    x = torch.randint(0, 256, (1, 1, 8, 8), dtype=torch.uint8)
    sums: list[torch.Tensor] = []
    handle = model.hidden[0].register_forward_hook(lambda *given: sums.append(given[2]))
    model(x)
    handle.remove()
    found = input_products(model, x)
    assert found.products.shape == (7, 1, 8, 8)
    torch.testing.assert_close(found.products.sum((1, 2, 3)) + found.bias, sums[0][0])
    torch.testing.assert_close(found.sums, sums[0][0])


def test_a_linear_model_has_the_units_of_its_output():
    model = MLP(MLPConfig(hidden_sizes=(), shape=(1, 8, 8), outputs=3))
    assert input_products(model, torch.zeros(1, 1, 8, 8)).products.shape == (3, 1, 8, 8)
