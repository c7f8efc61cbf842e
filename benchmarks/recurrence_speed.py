"""Recurrent layers beside PyTorch's own: a training step of LSTM and GRU, and minGRU's scan in both of its forms beside
`nn.GRU` at growing lengths. Goals: at least as fast as `nn.LSTM` and `nn.GRU` in a plain loop; minGRU at least three
times as fast as `nn.GRU` at 2,048 steps.

python -m benchmarks.recurrence_speed
"""

import statistics
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.timing import alternate, ratio
from neuropil.models.mingru import MinGRU, MinGRUConfig
from neuropil.models.recurrent import CellName, RecurrentNetwork, RecurrentNetworkConfig
from neuropil.parts.scan import Form, choose_form, depth, scan
from neuropil.training.precision import prepare_bfloat16

TOKENS, WIDTH, BATCH, TIME, ROUNDS = 96, 256, 32, 128, 9
LENGTHS, LENGTH_ROUNDS = (128, 512, 2_048, 8_192, 16_384), 5
THEIRS: dict[CellName, type[nn.LSTM] | type[nn.GRU]] = {"lstm": nn.LSTM, "gru": nn.GRU}
NUMBERS = 2**22
"""Of one tensor at every length: a longer sequence has fewer rows."""
STEPS, DOUBLING = "one after the other", "by doubling"
FORMS: dict[str, Form] = {STEPS: "steps", DOUBLING: "doubling"}
HEADER = ("steps", "rows", "nn.GRU", *(f"minGRU {name}" for name in FORMS), "depth", "default", "nn.GRU / minGRU")
ABOUT = (
    f"Milliseconds of a forward and a backward pass of {WIDTH} units over {NUMBERS // 2**20} million numbers, medians "
    f"of {LENGTH_ROUNDS} rounds that take turns (`python -m benchmarks.recurrence_speed`). Depth is the number of "
    "operations of the scan that wait for one another in each form; the ratio is that of the default form."
)


class PlainModel(nn.Module):
    """What a careful person builds around PyTorch's layers."""

    def __init__(self, cell: type[nn.LSTM] | type[nn.GRU]):
        super().__init__()
        self.embedding = nn.Embedding(TOKENS, WIDTH)
        self.recurrence = cell(WIDTH, WIDTH, batch_first=True)
        self.output = nn.Linear(WIDTH, TOKENS)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.output(self.recurrence(self.embedding(tokens))[0])


def main() -> None:
    prepare_bfloat16()
    for name, theirs in THEIRS.items():
        for dtype in (torch.float32, torch.bfloat16):
            print(
                f"{theirs.__name__} in {str(dtype).removeprefix('torch.')}, nn / neuropil: "
                f"{compared(name, theirs, dtype)}"
            )
    for cells in (HEADER, *rows()):
        print("\t".join(cells))


def rows() -> list[list[str]]:
    """minGRU beside `nn.GRU` at each length."""
    return [row(time) for time in LENGTHS]


def row(time: int) -> list[str]:
    batch = max(1, NUMBERS // (time * WIDTH))
    seconds = alternate(forward_and_backward(batch, time), LENGTH_ROUNDS)
    chosen = choose_form(batch * WIDTH, torch.device("cpu"))
    default = next(name for name, form in FORMS.items() if form == chosen)
    depths = " or ".join(f"{depth(time, form):,}" for form in FORMS.values())
    milliseconds = [f"{1e3 * statistics.median(each):.0f}" for each in seconds.values()]
    gain = statistics.median(a / b for a, b in zip(seconds["nn.GRU"], seconds[default], strict=True))
    return [f"{time:,}", f"{batch}", *milliseconds, depths, default, f"{gain:.1f}"]


def compared(name: CellName, theirs: type[nn.LSTM] | type[nn.GRU], dtype: torch.dtype) -> str:
    steps = training_steps(name, theirs, dtype)
    try:
        steps["nn"]()
    except RuntimeError:
        only = alternate({"neuropil": steps["neuropil"]}, ROUNDS)["neuropil"]
        return f"PyTorch's own cannot do it on this processor; neuropil takes {1000 * min(only):.0f} ms"
    seconds = alternate(steps, ROUNDS)
    return ratio(seconds["nn"], seconds["neuropil"])


def training_steps(
    name: CellName, theirs: type[nn.LSTM] | type[nn.GRU], dtype: torch.dtype
) -> dict[str, Callable[[], None]]:
    config = RecurrentNetworkConfig(
        cell=name, hidden_size=WIDTH, embedding_size=WIDTH, vocabulary_size=TOKENS, output_size=TOKENS, shape="aligned"
    )
    tokens = torch.randint(4, TOKENS, (BATCH, TIME + 1))

    def steps(model: nn.Module) -> Callable[[], None]:
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)

        def step() -> None:
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype, enabled=dtype != torch.float32):
                logits = model(tokens[:, :-1])
            F.cross_entropy(logits.float().flatten(0, 1), tokens[:, 1:].flatten()).backward()
            optimizer.step()

        return step

    return {"neuropil": steps(RecurrentNetwork(config)), "nn": steps(PlainModel(theirs))}


def forward_and_backward(batch: int, time: int) -> dict[str, Callable[[], None]]:
    x, weight = torch.randn(batch, time, WIDTH, requires_grad=True), torch.randn(WIDTH)
    ours, theirs = MinGRU(MinGRUConfig(input_size=WIDTH, hidden_size=WIDTH)), nn.GRU(WIDTH, WIDTH, batch_first=True)

    def scanned(form: Form) -> None:
        """As `ours(x).outputs` does in its default form."""
        steps = ours.linear(ours.drive(x))
        (scan(steps.a, steps.b, ours.initial(x).h, form=form) @ weight).sum().backward()

    return {
        "nn.GRU": lambda: (theirs(x)[0] @ weight).sum().backward(),
        **{name: partial(scanned, form) for name, form in FORMS.items()},
    }


if __name__ == "__main__":
    main()
