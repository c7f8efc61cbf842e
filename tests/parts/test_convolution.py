import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from neuropil.models.cnn import CNN, CNNConfig
from neuropil.parts.convolution import ConvolutionStack, stack_for
from neuropil.parts.parameters import count_parameters, parameter_rows


@settings(deadline=None, max_examples=30)
@given(
    channels=st.integers(1, 3),
    height=st.integers(1, 40),
    width=st.integers(1, 40),
    depth=st.integers(1, 2),
    kernel=st.sampled_from([1, 3, 5]),
    least=st.sampled_from([6, 12, 24]),
    at_once=st.booleans(),
)
def test_a_stack_ends_in_the_grid_that_it_says(
    channels: int, height: int, width: int, depth: int, kernel: int, least: int, at_once: bool
):
    sizes = stack_for((channels, height, width), 2, depth=depth, kernel=kernel, least=least, at_once=at_once)
    stack = ConvolutionStack(sizes).eval()
    features = stack(torch.randn(2, channels, height, width))
    assert features.shape == (2, sizes.width, *sizes.grid)
    assert min(sizes.grid) <= 7
    assert sizes.blocks[0].stride == (
        2 if at_once and len(sizes.blocks) > depth - 1 and sizes.blocks[0].width > 2 else 1
    )


def test_it_is_what_the_cnn_begins_with():
    torch.manual_seed(0)
    config = CNNConfig(shape=(3, 30, 26), width=4, depth=2, kernel=5)
    cnn, stack = CNN(config).eval(), ConvolutionStack(config.stack).eval()
    stack.load_state_dict(
        {name: value for name, value in cnn.state_dict().items() if name.startswith(("stem", "blocks"))}
    )
    x = torch.randn(2, 3, 30, 26)
    expected = cnn.blocks(torch.relu(cnn.stem_norm(cnn.stem(x))))
    torch.testing.assert_close(stack(x), expected)


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 64, 48)])
def test_its_parameters_are_counted(shape: tuple[int, int, int]):
    holder = torch.nn.Module()
    holder.cnn = ConvolutionStack(stack_for(shape, 4, depth=2))
    rows = list(parameter_rows(holder))
    assert all(row.count == count_parameters(holder.get_submodule(row.name)) for row in rows)
    assert sum(row.count for row in rows) == count_parameters(holder)


@pytest.mark.parametrize(("side", "stride"), [(8, 1), (23, 1), (24, 2), (47, 2), (48, 4), (400, 4)])
def test_the_stem_makes_only_large_pictures_smaller(side: int, stride: int):
    sizes = stack_for((1, side, 2 * side), 4)
    assert sizes.stem_stride == stride
