"""Recurrent layers in blocks, which add to what they read in place of replacing it.

    x ← x + Cell(N(x))
    x ← x + W₂ φ(W₁ N(x) + b₁) + b₂          for each step by itself; φ is gelu

N is layer normalisation. The second line gives a layer what some cells lack: minGRU's gates and candidates are linear in the input alone.
"""

from collections.abc import Callable, Sequence
from typing import cast

from jaxtyping import Float, Num
from torch import Tensor, nn

from neuropil.parts.parameters import ParameterRow, linear_row
from neuropil.parts.recurrence import Cell, Lengths, Recurred, State, require_states, there

EXPANSION = 2
"""Hidden units of a block's feed-forward net for each unit of its cell."""


class Block(nn.Module):
    def __init__(self, build: Callable[[int, int], Cell], units: int, dropout: float):
        super().__init__()
        self.cell_norm, self.cell = nn.LayerNorm(units), build(units, units)
        self.feed_forward_norm = nn.LayerNorm(units)
        self.feed_forward = nn.Sequential(
            nn.Linear(units, EXPANSION * units), nn.GELU(), nn.Linear(EXPANSION * units, units)
        )
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, x: Float[Tensor, "batch time unit"], state: State, lengths: Lengths | None
    ) -> tuple[Float[Tensor, "batch time unit"], State]:
        ran = self.cell(self.cell_norm(x), state, lengths)
        return self._after_cell(x, ran.outputs), ran.state

    def step(self, x: Float[Tensor, "batch unit"], state: State) -> tuple[Float[Tensor, "batch unit"], State]:
        state = self.cell.step(self.cell_norm(x), state)
        return self._after_cell(x, state.h), state

    def _after_cell(self, x: Float[Tensor, "*any unit"], h: Float[Tensor, "*any unit"]) -> Float[Tensor, "*any unit"]:
        x = x + self.dropout(h)
        return x + self.dropout(self.feed_forward(self.feed_forward_norm(x)))


class RecurrentBlocks(nn.Module):
    """Used as `Recurrence` is, in one direction."""

    def __init__(
        self, build: Callable[[int, int], Cell], inputs: int, units: int, layers: int = 1, dropout: float = 0.0
    ):
        super().__init__()
        self.width = units
        self.enter = nn.Linear(inputs, units)
        self.blocks = nn.ModuleList(Block(build, units, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(units)

    @property
    def cells(self) -> list[Cell]:
        return [block.cell for block in self._blocks]

    def initial(self, x: Num[Tensor, "batch *any"]) -> tuple[State, ...]:
        return tuple(cell.initial(x) for cell in self.cells)

    def forward(
        self,
        x: Float[Tensor, "batch time input"],
        states: Sequence[State] | None = None,
        lengths: Lengths | None = None,
    ) -> Recurred:
        states = self.initial(x) if states is None else states
        require_states(states, len(self.blocks))
        padding = None if lengths is None else ~there(lengths, x.shape[1]).unsqueeze(-1)
        # What stands in the padding must not even be multiplied by zero: it may be no number.
        x, after = self.enter(x if padding is None else x.masked_fill(padding, 0)), []
        for block, state in zip(self._blocks, states, strict=True):
            x, state = block(x, state, lengths)
            after.append(state)
        x = self.norm(x)
        return Recurred(x if padding is None else x.masked_fill(padding, 0), tuple(after))

    def step(
        self, x: Float[Tensor, "batch input"], states: Sequence[State]
    ) -> tuple[Float[Tensor, "batch unit"], tuple[State, ...]]:
        require_states(states, len(self.blocks))
        x, after = self.enter(x), []
        for block, state in zip(self._blocks, states, strict=True):
            x, state = block.step(x, state)
            after.append(state)
        return self.norm(x), tuple(after)

    def parameter_rows(self, name: str) -> list[ParameterRow]:
        rows = [linear_row(f"{name}.enter", self.enter.in_features, self.enter.out_features)]
        for path, module in self.named_modules(prefix=name):
            if isinstance(module, Cell):
                rows += [ParameterRow(path, row.formula, row.sizes) for row in module.parameter_table()]
            elif isinstance(module, nn.LayerNorm):
                rows.append(ParameterRow(path, "2*n", {"n": self.width}))
            elif isinstance(module, nn.Sequential):
                rows.append(ParameterRow(path, "2*n*m + n + m", {"n": self.width, "m": EXPANSION * self.width}))
        return rows

    @property
    def _blocks(self) -> list[Block]:
        return [cast(Block, block) for block in self.blocks]
