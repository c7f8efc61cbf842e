"""What the output layer of a classifier or regressor is given: the features that it has computed of its inputs."""

from copy import deepcopy
from typing import cast

from torch import Tensor, nn


def with_output_inputs(model: nn.Module) -> tuple[nn.Module, list[Tensor]]:
    """The model, and a list to which each of its calls adds them. Its modules are new and its weights the same tensors:
    the list has nothing of what others, such as another thread, ask the given model meanwhile."""
    weights = {id(weight): weight for weight in (*model.parameters(), *model.buffers())}
    watched, found = deepcopy(model, weights), list[Tensor]()
    output = cast(nn.Module, watched.output)  # of some models a property, which is no submodule of that name
    output.register_forward_pre_hook(lambda _, given: found.append(given[0]))
    return watched, found
