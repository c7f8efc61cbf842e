"""A recurrence is written once, as a step, and run in the way that suits the cell, the length and the device.

    state_t = step(x_t, state_{t−1}),    y_t = h_t

A step has three parts, so that each can be had for itself: what the input adds (`drive`, one matrix product for all
steps at once), the gates that open and close (`gates`, of the drive and of h), and what they do to the state
(`update`).

Three ways to run a cell, which agree: a loop over the steps, which every cell can; PyTorch's fused kernel, where it has
one; and, where the new state is linear in the old one, a parallel scan.

Input and output may each be one or many. `Recurrence` takes what comes in with the states before, and gives what goes
out with the states after, so that every shape is a use of it:

    one to one                        h, states = recurrence.step(x)              from nothing: a feed-forward layer
    one to many                       … then recurrence(y, states), or step(y, states) again and again
    many to one                       recurrence(x).states[-1].h, or its outputs pooled
    many to many, step by step        recurrence(x).outputs
    many to many, after reading       … then another(y, states): encoder and decoder
"""

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias, cast

import torch
from jaxtyping import Bool, Float, Int64, Num, Shaped
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

from neuropil.errors import InputError
from neuropil.parts.parameters import Model, TypedModuleList
from neuropil.parts.scan import scan

Way: TypeAlias = Literal["loop", "fused", "scan"]

State: TypeAlias = Any
"""A NamedTuple of [batch unit] tensors, the first of which is h, what the cell puts out."""

Inputs: TypeAlias = Float[Tensor, "batch time input"]
Lengths: TypeAlias = Int64[Tensor, " batch"]
"""How many steps of each row are there; the rest is padding."""


class Hidden(NamedTuple):
    """The state of a cell that has no other."""

    h: Float[Tensor, "batch unit"]


class FusedKernel(NamedTuple):
    """A recurrence that PyTorch runs whole: its name there, and W_ih, W_hh, b_ih, b_hh."""

    name: Literal["lstm", "gru", "rnn_tanh", "rnn_relu"]
    weights: tuple[Tensor, Tensor, Tensor, Tensor]
    keep: tuple[float, ...] = ()
    """What to add to the sums of each gate so that a step leaves all of the state but h as it is."""


class LinearSteps(NamedTuple):
    """The steps h_t = a_t h_{t−1} + b_t of a whole sequence."""

    a: Float[Tensor, "batch time unit"]
    b: Float[Tensor, "batch time unit"]


class RunChoice(NamedTuple):
    way: Way
    reason: str


class CellOutput(NamedTuple):
    outputs: Float[Tensor, "batch time unit"]
    """h of every step; zero past a row's length."""
    state: State
    """After each row's own last step."""


class Cell(Model, ABC):
    input_size: int
    hidden_size: int
    begins: ClassVar[Any] = Hidden
    """The NamedTuple that its state is."""

    def initial(self, x: Num[Tensor, "batch *any"]) -> State:
        """The state before the first step of as many rows as `x` has: zero."""
        nothing = next(self.parameters()).new_zeros(len(x), self.hidden_size)
        return self.begins(*(nothing for _ in self.begins._fields))

    @abstractmethod
    def drive(self, x: Float[Tensor, "*any input"]) -> Float[Tensor, "*any drive"]:
        """What the input adds to the sums of the gates."""

    @abstractmethod
    def gates(self, drive: Float[Tensor, "*any drive"], h: Float[Tensor, "*any unit"]) -> Any:
        """A NamedTuple of [*any unit] tensors."""

    @abstractmethod
    def update(self, gates: Any, state: State) -> State: ...

    def kernel(self) -> FusedKernel | None:
        """PyTorch's own, with weights in its order, where it computes the same."""
        return None

    def linear(self, drive: Float[Tensor, "batch time drive"]) -> LinearSteps | None:
        """The steps, where none of them depends on the state but linearly."""
        return None

    @property
    def dtype(self) -> torch.dtype:
        """Of the weights and the state: under autocast products have fewer digits, sums over time have all."""
        return next(self.parameters()).dtype

    def step(self, x: Float[Tensor, "batch input"], state: State) -> State:
        return self.update(self.gates(self.drive(x).to(self.dtype), state.h), state)

    def forward(
        self,
        x: Float[Tensor, "batch time input"],
        state: State | None = None,
        lengths: Lengths | None = None,
        *,
        backward: bool = False,
        way: Way | None = None,
    ) -> CellOutput:
        """Run over sequences, from the zero state if none is given; `backward` reads each from its own end."""
        lengths = require_sequences(x, self.input_size, lengths)
        require_precision(x, self.dtype)
        state = self.initial(x) if state is None else require_state(state, len(x), self.hidden_size)
        if x.shape[1] == 0:
            return CellOutput(x.new_zeros(len(x), 0, self.hidden_size, dtype=self.dtype), state)
        x = backwards(x, lengths) if backward else x
        padding = None if lengths is None else ~valid_mask(lengths, x.shape[1]).unsqueeze(-1)
        if padding is not None:
            x = x.masked_fill(padding, 0)  # 0 · NaN is NaN: what stands there would reach the gradient of the weights
        state = map_states(lambda part: part.to(self.dtype), [state])[0]
        exporting = torch.compiler.is_exporting()
        run = WAYS[way or ("loop" if exporting else choose(self, x.shape[1], x.device, precision(x)).way)]
        if torch.compiler.is_compiling() and not exporting:
            run = cast(Run, torch.compiler.disable(run))  # traced, each step of a sequence would be compiled for itself
        outputs, last = run(self, x, state, lengths)
        if padding is not None:
            outputs = outputs.masked_fill(padding, 0)
        return CellOutput(backwards(outputs, lengths) if backward else outputs, last)


def choose(cell: Cell, time: int, device: torch.device, dtype: torch.dtype | None = None) -> RunChoice:
    """How `cell` is run over `time` steps on `device`, by products in `dtype` if not in that of its weights."""
    name = type(cell).__name__
    if time == 1:
        return RunChoice("loop", "there is only one step")
    if type(cell).linear is not Cell.linear:
        return RunChoice("scan", f"the new state of {name} is linear in the old one")
    kernel = cell.kernel()
    if kernel is None:
        return RunChoice("loop", f"PyTorch has no kernel for this {name}, and its state is not linear")
    if device.type not in ("cpu", "cuda"):
        return RunChoice("loop", f"PyTorch's kernel for {name} does not run on {device.type}")
    if dtype is not None and dtype != cell.dtype and not _runs(kernel.name, device, dtype):
        here = f"in {_name(cell.dtype)}, as none runs in {_name(dtype)} on this {device.type}"
        return RunChoice("fused", f"PyTorch has a kernel for {name}, {here}")
    return RunChoice("fused", f"PyTorch has a kernel for {name}")


def precision(x: Tensor) -> torch.dtype:
    """In which products with x are computed."""
    return torch.get_autocast_dtype(x.device.type) if _autocasts(x) else x.dtype


def _autocasts(x: Tensor) -> bool:
    return x.device.type != "meta" and torch.is_autocast_enabled(x.device.type)


@functools.cache
def _runs(name: str, device: torch.device, dtype: torch.dtype) -> bool:
    """Whether PyTorch's kernel runs under autocast here: it depends on the processor, and only trying tells."""
    parts = {"lstm": 4, "gru": 3}.get(name, 1)
    x = torch.zeros(1, 2, 1, device=device)
    weights = [torch.zeros(parts, *size, device=device) for size in ((1,), (1,), (), ())]
    first = x[:, :1]
    try:
        with torch.no_grad(), torch.autocast(device.type, dtype):
            before = (first, first) if name == "lstm" else first
            getattr(torch, name)(x, before, weights, True, 1, 0.0, False, False, True)
    except RuntimeError:
        return False
    return True


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _loop(cell: Cell, x: Inputs, state: State, lengths: Lengths | None) -> tuple[Tensor, State]:
    def step(state: State, drive: Tensor, valid: Tensor | None = None) -> tuple[State, tuple[Tensor]]:
        after = cell.update(cell.gates(drive, state.h), state)
        return after if valid is None else _where(valid, after, state), (after.h,)

    valid = () if lengths is None else (valid_mask(lengths, x.shape[1]),)
    last, (outputs,) = over_time(step, state, cell.drive(x).to(cell.dtype), *valid)
    return outputs, last


def over_time(
    step: Callable[..., tuple[Any, tuple[Tensor, ...]]], state: Any, *inputs: Shaped[Tensor, "batch time ..."]
) -> tuple[Any, list[Tensor]]:
    """The step `(state, *inputs) -> (state, outputs)` at each time: the last state, and each output at all times. An
    exported program keeps the loop, so that it reads sequences of any length."""
    if torch.compiler.is_exporting():
        from torch._higher_order_ops.scan import scan as loop

        parts, structure = tree_flatten(state)

        def flat(parts: list[Tensor], now: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
            after, outputs = step(tree_unflatten(parts, structure), *now)
            return tree_leaves(after), [output.clone() for output in outputs]  # which may be a part of the state

        last, stacked = loop(flat, [part.clone() for part in parts], [each.transpose(0, 1) for each in inputs])
        return tree_unflatten(last, structure), [output.transpose(0, 1) for output in stacked]
    each_time: list[tuple[Tensor, ...]] = []
    for now in zip(*(each.unbind(1) for each in inputs), strict=True):
        state, outputs = step(state, *now)
        each_time.append(outputs)
    return state, [torch.stack(output, 1) for output in zip(*each_time, strict=True)]


def _fused(cell: Cell, x: Inputs, state: State, lengths: Lengths | None) -> tuple[Tensor, State]:
    kernel = cell.kernel()
    if kernel is None:
        rule = f"{type(cell).__name__} must have a kernel of PyTorch's to run on"
        raise InputError(rule, got="none", fix="run it as a loop")
    function: Callable[..., tuple[Tensor, ...]] = getattr(torch, kernel.name)
    reduced, weights = _autocasts(x), list(kernel.weights)
    x = x.to(cell.dtype) if reduced else x
    if lengths is not None and kernel.keep:
        # What else is in the state at a row's end is in no output. One more input, which is 1 in the padding, carries
        # it through.
        x = torch.cat([x, (~valid_mask(lengths, x.shape[1])).unsqueeze(-1).to(x.dtype)], -1)
        kept = x.new_tensor(kernel.keep).repeat_interleave(cell.hidden_size)
        weights[0] = torch.cat([weights[0], kept.unsqueeze(1)], 1)
    first = [part.unsqueeze(0) for part in state]
    before = first if len(first) > 1 else first[0]
    with torch.autocast(x.device.type, enabled=reduced and _runs(kernel.name, x.device, precision(x))):
        outputs, *last = function(x, before, weights, True, 1, 0.0, cell.training, False, True)
    outputs, after = outputs.to(cell.dtype), type(state)(*(part.squeeze(0).to(cell.dtype) for part in last))
    return outputs, after if lengths is None else after._replace(h=_last(outputs, state.h, lengths))


def _scanned(cell: Cell, x: Inputs, state: State, lengths: Lengths | None) -> tuple[Tensor, State]:
    steps = cell.linear(cell.drive(x).to(cell.dtype))
    if steps is None:
        rule = f"the new state of {type(cell).__name__} must be linear in the old one for a scan"
        raise InputError(rule, got="another", fix="run it as a loop")
    outputs = scan(steps.a, steps.b, state.h)
    return outputs, type(state)(outputs[:, -1] if lengths is None else _last(outputs, state.h, lengths))


Run: TypeAlias = Callable[[Cell, Tensor, State, Lengths | None], tuple[Tensor, State]]
WAYS: dict[Way, Run] = {"loop": _loop, "fused": _fused, "scan": _scanned}


Build: TypeAlias = Callable[[int, int], Cell]
"""From the input size and the hidden size."""


class RecurrenceOutput(NamedTuple):
    outputs: Float[Tensor, "batch time width"]
    """Of the last layer; where there are two directions, forward and backward side by side."""
    states: tuple[State, ...]
    """One for each layer and direction: forward, backward, forward …"""


class Recurrence(nn.Module):
    """Layers of any cell, in one direction or in both; each reads what the one below puts out."""

    def __init__(
        self,
        build: Build,
        input_size: int,
        hidden_size: int,
        layers: int = 1,
        bidirectional: bool = False,
        dropout: float = 0.0,
    ):
        super().__init__()
        self.bidirectional, self.width = bidirectional, hidden_size * (2 if bidirectional else 1)
        sizes = [input_size, *[self.width] * (layers - 1)]
        self.forwards = TypedModuleList[Cell](build(size, hidden_size) for size in sizes)
        self.backwards = TypedModuleList[Cell](build(size, hidden_size) for size in sizes if bidirectional)
        self.dropout = nn.Dropout(dropout)

    @property
    def cells(self) -> list[Cell]:
        """In the order of the states."""
        if not self.bidirectional:
            return list(self.forwards)
        return [cell for pair in zip(self.forwards, self.backwards, strict=True) for cell in pair]

    def initial(self, x: Num[Tensor, "batch *any"]) -> tuple[State, ...]:
        return tuple(cell.initial(x) for cell in self.cells)

    def forward(
        self, x: Inputs, states: Sequence[State] | None = None, lengths: Lengths | None = None
    ) -> RecurrenceOutput:
        """Streaming: the states that one piece of a sequence ends with are those that the next begins with."""
        cells, directions = self.cells, 2 if self.bidirectional else 1
        states = self.initial(x) if states is None else states
        require_states(states, len(cells))
        after: list[State] = []
        for layer in range(len(self.forwards)):
            x = self.dropout(x) if layer else x
            here = range(layer * directions, (layer + 1) * directions)
            ran = [cells[i](x, states[i], lengths, backward=bool(i % directions)) for i in here]
            x = torch.cat([each.outputs for each in ran], -1) if self.bidirectional else ran[0].outputs
            after += [each.state for each in ran]
        return RecurrenceOutput(x, tuple(after))

    def step(
        self, x: Float[Tensor, "batch input"], states: Sequence[State] | None = None
    ) -> tuple[Float[Tensor, "batch width"], tuple[State, ...]]:
        """One step of all layers, for writing a token at a time; without states, from those before the first step."""
        if self.bidirectional:
            raise InputError("a step needs a recurrence of one direction", got="one that also reads from the end")
        states = self.initial(x) if states is None else states
        require_states(states, len(self.cells))
        after: list[State] = []
        for layer, (cell, state) in enumerate(zip(self.cells, states, strict=True)):
            after.append(cell.step(self.dropout(x) if layer else x, state))
            x = after[-1].h
        return x, tuple(after)


def map_states(function: Callable[[Tensor], Tensor], states: Sequence[State]) -> tuple[State, ...]:
    """The same states of changed tensors."""
    return tuple(type(state)(*map(function, state)) for state in states)


def reorder(states: Sequence[State], index: Int64[Tensor, " row"]) -> tuple[State, ...]:
    """The rows that `index` chooses, such as those that a beam keeps."""
    return map_states(lambda part: part.index_select(0, index), states)


def detach(states: Sequence[State]) -> tuple[State, ...]:
    """Where back-propagation through time is cut off."""
    return map_states(Tensor.detach, states)


def valid_mask(lengths: Lengths, time: int) -> Bool[Tensor, "batch time"]:
    """True where a row has a step."""
    return torch.arange(time, device=lengths.device) < lengths.unsqueeze(1)


def backwards(x: Float[Tensor, "batch time *any"], lengths: Lengths | None) -> Float[Tensor, "batch time *any"]:
    """Each row from its own end to its beginning; padding stays where it is."""
    if lengths is None:
        return x.flip(1)
    time = torch.arange(x.shape[1], device=x.device)
    mirrored = torch.where(valid_mask(lengths, x.shape[1]), lengths.unsqueeze(1) - 1 - time, time)
    return x.gather(1, mirrored.unsqueeze(-1).expand(x.shape))


def _last(
    outputs: Float[Tensor, "batch time unit"], first: Float[Tensor, "batch unit"], lengths: Lengths
) -> Float[Tensor, "batch unit"]:
    """h at each row's end."""
    at_end = outputs[torch.arange(len(outputs), device=outputs.device), lengths.clamp(min=1) - 1]
    return torch.where((lengths > 0).unsqueeze(1), at_end, first)


def _where(condition: Bool[Tensor, " batch"], state: State, otherwise: State) -> State:
    return type(state)(*(torch.where(condition.unsqueeze(1), a, b) for a, b in zip(state, otherwise, strict=True)))


def require_sequences(x: Tensor, inputs: int, lengths: Lengths | None) -> Lengths | None:
    """The lengths, or none where no row has any padding: whole batches run fastest."""
    if x.ndim != 3 or x.shape[-1] != inputs:
        raise InputError(f"a recurrence reads sequences of shape [batch, time, {inputs}]", got=f"{list(x.shape)}")
    unknown = torch.compiler.is_compiling() or (lengths is not None and lengths.is_meta)
    if lengths is None or unknown or len(lengths) == len(x) == 0:
        return lengths
    shortest, longest = (int(number) for number in lengths.aminmax()) if len(lengths) else (0, 0)
    if len(lengths) != len(x) or shortest < 0 or longest > x.shape[1]:
        raise InputError(f"lengths must be {len(x)} whole numbers from 0 to {x.shape[1]}", got=f"{lengths.tolist()}")
    return None if shortest == x.shape[1] else lengths


def require_precision(x: Tensor, dtype: torch.dtype) -> None:
    if x.dtype != dtype and not _autocasts(x):
        rule = f"this recurrence reads numbers in {_name(dtype)}"
        raise InputError(rule, got=_name(x.dtype), fix=f"convert them by x.to({dtype})")


def require_state(state: State, rows: int, units: int) -> State:
    for name, part in state._asdict().items():
        if part.shape != (rows, units):
            raise InputError(f"the state {name} of this cell has shape [{rows}, {units}]", got=f"{list(part.shape)}")
    return state


def require_states(states: Sequence[State], count: int) -> None:
    if len(states) != count:
        raise InputError(f"this recurrence has {count} states, one for each layer and direction", got=f"{len(states)}")
