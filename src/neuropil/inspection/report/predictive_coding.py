"""Report of predictive coding: inference, closeness to back-propagation, generation and completion."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import torch
from einops import rearrange
from jaxtyping import Bool, Float, UInt8
from torch import Tensor

from neuropil.data.examples.dataset import Examples, Schema
from neuropil.inspection.pictures.predictive_coding import (
    completed,
    cosines_over_settling,
    generated,
    gradient_while_settling,
    settling,
)
from neuropil.inspection.report.page import Block, Picture, Section, Table, Text
from neuropil.models.predictive_coding.connection import approach
from neuropil.models.predictive_coding.network import (
    Chosen,
    Free,
    PredictiveCoding,
    PredictiveCodingConfig,
    Rates,
    States,
)
from neuropil.randomness import initialised, seeded

Rows: TypeAlias = Float[Tensor, "batch _"]

EXAMPLES = 128
MOST_CLASSES, MOST_FEATURES = 20, 30
COMPLETED = 10
WATCHED = 100
"""Inference steps that are drawn."""
INFERENCE_STEPS = (0, 1, 5, 20, 100)
DEPTHS, WIDTH, COMPARED = (2, 4, 8), 32, 64
SPREADS = (1.0, 10.0)
COSINE_STEPS = (1, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1000)
ERROR_TAUS, ERROR_STEPS, ERROR_EXAMPLES = (0.0, 1.0, 3.0, 10.0, 30.0), 400, 16
AT_REST = 0.1
"""Share of the first gradient of the energy at which states count as settled."""
ROUNDING = 1e-13
"""Of double precision: a smaller share of a change is none."""


@torch.no_grad()
def inside_sections(model: PredictiveCoding, test: Examples) -> list[Section]:
    was_training = model.training
    model.eval()
    few = test.take(torch.randperm(len(test), generator=seeded("few"))[:EXAMPLES])
    sections = [
        settling_section(model, few, test),
        *([error_nodes_section(model, few.take(torch.arange(min(ERROR_EXAMPLES, len(few)))))] if model.top > 1 else []),
        backpropagation_section(few.take(torch.arange(min(COMPARED, len(few))))),
        generation_section(model, test.schema),
    ]
    sections += [completion_section(model, few)] if test.schema.kind == "image" else []
    model.train(was_training)
    return sections


# --- settling ---------------------------------------------------------------------------------------------------------


def settling_section(model: PredictiveCoding, few: Examples, test: Examples) -> Section:
    device = model.standardize.mean.device
    x, target = model.encode(few.inputs.to(device)), model.encode_target(few.targets.to(device))
    inner, known = [True] * (model.top - 1), upper_half(model.config.shape).flatten().to(device)
    every, expecting = model.connections, model.expecting
    half, free = model.begin(x * known, None), [~known, *inner, True]
    traces = {
        "learning: both ends clamped": energies(model, model.begin(x, target), [False, *inner, False], every),
        "inference: the input clamped": energies(model, model.begin(x, None), [False, *inner, True], every),
        "completion: half the input clamped": energies(model, half, free, expecting, model.stable_rates(expecting)),
    }
    falling = {name: trace.sum(1) for name, trace in traces.items() if trace[0].sum() > 1e-6}
    parts = dict(zip(connection_names(model), next(iter(traces.values())).T, strict=True))
    words = (
        "The energy is half the sum of the squared prediction errors. Inference is gradient descent of the states on "
        "it: the error that a clamped target causes spreads over the layers."
    )
    figure = settling(falling, parts, title="Where the error goes while it learns")
    blocks: list[Block] = [Text(words), Picture.of(figure, alt="energy while the network settles")]
    if test.schema.classes and model.down:
        rows = [[steps, f"{100 * accuracy:.2f} %"] for steps, accuracy in accuracies(model, test)]
        table = Table(["inference steps", "test accuracy"], rows)
        blocks += [Text("The answer before and during inference:"), table]
    return Section("Inference", blocks)


def energies(
    model: PredictiveCoding, states: States, free: Free, connections: Chosen, rates: Rates = None
) -> Float[Tensor, "step connection"]:
    """Mean energy of each connection's errors, before the first step and after each."""
    path = [states, *model.settling(states, free, WATCHED, rates=rates, connections=connections)]
    found = [[0.5 * error.square().sum(-1).mean() for error in model.errors(each, connections)] for each in path]
    return torch.tensor(found)


def connection_names(model: PredictiveCoding) -> list[str]:
    layers = ["input", *(f"layer {number}" for number in range(1, model.top)), "target"]
    return [f"{layers[c.source]} → {layers[c.target]}" for c in model.connections]


def upper_half(shape: tuple[int, ...]) -> Bool[Tensor, "*shape"]:
    """Of a picture; of a table the first half of the features."""
    known = torch.zeros(shape, dtype=torch.bool)
    rows = known if len(shape) == 1 else rearrange(known, "channel height width -> height channel width")
    rows[: len(rows) // 2] = True
    return known


def accuracies(model: PredictiveCoding, test: Examples) -> list[tuple[int, float]]:
    device = model.standardize.mean.device
    found = []
    for steps in INFERENCE_STEPS:
        answers = [model.infer(part.to(device), steps)[model.top].argmax(-1).cpu() for part in test.inputs.split(512)]
        found.append((steps, (torch.cat(answers) == test.targets).double().mean().item()))
    return found


# --- error nodes in time ----------------------------------------------------------------------------------------------


def error_nodes_section(model: PredictiveCoding, few: Examples) -> Section:
    networks = {tau: with_error_tau(model, tau) for tau in ERROR_TAUS}
    found = {tau: gradients_while_settling(other, clamped(other, few)) for tau, other in networks.items()}
    settled = {tau: steps_to_rest(shares) for tau, (shares, _) in found.items()}
    reached = [energy for tau, (_, energy) in found.items() if settled[tau] is not None]
    spreads = sorted({c.nu for c in model.connections})
    rows = [
        [
            f"{tau:g}",
            *(f"{approach(nu, tau):.3g}" for nu in spreads),
            "–" if settled[tau] is None else f"{settled[tau]}",
            f"{energy:.5g}",
        ]
        for tau, (_, energy) in found.items()
    ]
    words = (
        "Error nodes may have dynamics of their own, τ dε/dt = x − μ − νε, with a time constant τ in inference steps "
        "(`--error-tau`); with τ = 0 they are always at equilibrium, ε = (x − μ) / ν. Both have the same fixed points. "
        f"{len(few)} test examples with both ends clamped, the error nodes silent at first: until the gradient of the "
        f"energy stays below {100 * AT_REST:.0f} % of the first it takes {_steps_in_words(settled)}. "
        f"{_agreement(reached)}"
    )
    how = (
        f"An error node goes the share c = 1 − exp(−ν/τ) of its way to equilibrium in each step. The dashed line is "
        f"{100 * AT_REST:.0f} % of the first gradient, at which the states count as settled; a dash where they did not "
        f"within {ERROR_STEPS} steps. Steps are stable below 2 (2/c − 1) over the curvature of the energy."
    )
    header = ["τ", *(f"c for ν = {nu:.3g}" for nu in spreads), "steps until settled", f"energy after {ERROR_STEPS}"]
    curves = {f"τ = {tau:g}" if tau else "equilibrium": shares for tau, (shares, _) in found.items()}
    figure = gradient_while_settling(curves, rest=AT_REST)
    alt = "gradient of the energy while states and error nodes settle"
    return Section.illustrated("Error nodes in time", words, figure, alt, Table(header, rows, how))


def with_error_tau(model: PredictiveCoding, tau: float) -> PredictiveCoding:
    """The same weights, with error nodes of this time constant, in double precision: near rest the gradient of the
    energy is a small difference of large numbers."""
    other = initialised(lambda: PredictiveCoding(model.config.override(error_tau=tau)), seed=0)
    other.load_state_dict(model.state_dict())
    return other.to(model.standardize.mean.device, torch.double).eval()


def clamped(model: PredictiveCoding, few: Examples) -> States:
    """What settling begins with where input and target are given."""
    device = model.standardize.mean.device
    return model.begin(model.encode(few.inputs.to(device)), model.encode_target(few.targets.to(device)))


def gradients_while_settling(model: PredictiveCoding, states: States) -> tuple[Float[Tensor, " step"], float]:
    """With both ends clamped: the norm of ∂F/∂x before the first step and after each, as a share of the first, and the
    mean energy at the end."""
    free, found = [False, *[True] * (model.top - 1), False], [_slope(model, states)]
    end = states
    for end in model.settling(states, free, ERROR_STEPS):
        found.append(_slope(model, end))
    return torch.stack(found) / found[0], model.energy(end).mean().item()


def _slope(model: PredictiveCoding, states: States) -> Tensor:
    hidden = [state.detach().requires_grad_() for state in states[1:-1]]
    with torch.enable_grad():
        energy = model.energy([states[0], *hidden, states[-1]]).sum()
        return torch.cat([slope.flatten() for slope in torch.autograd.grad(energy, hidden)]).norm()


def steps_to_rest(shares: Float[Tensor, " step"]) -> int | None:
    """From where on the gradient stays below `AT_REST`."""
    above = (shares > AT_REST).nonzero()
    steps = int(above[-1]) + 1 if len(above) else 0
    return steps if steps < len(shares) else None


def _steps_in_words(settled: Mapping[float, int | None]) -> str:
    taken = ((tau, f"more than {ERROR_STEPS}" if steps is None else f"{steps}") for tau, steps in settled.items())
    return ", ".join(f"{steps} with τ = {tau:g}" if tau else f"{steps} steps at equilibrium" for tau, steps in taken)


def _agreement(energies: Sequence[float]) -> str:
    if len(energies) < 2:
        return ""
    apart = (max(energies) - min(energies)) / min(energies) if min(energies) else 0.0
    return f"The energies of those that settled differ by {100 * apart:.2g} % at the end."


# --- beside back-propagation ------------------------------------------------------------------------------------------


def backpropagation_section(few: Examples) -> Section:
    schema, panels = few.schema, {}
    answers = "classes" if schema.classes else "numbers"
    common = PredictiveCodingConfig(direction="up", shape=schema.shape, outputs=schema.num_outputs, answers=answers)
    for spread in SPREADS:
        for depth in DEPTHS:
            config = common.override(hidden_sizes=(WIDTH,) * (depth - 1), nu_target=spread)
            model = initialised(lambda config=config: PredictiveCoding(config), seed=0)
            model.standardize.fit(few.inputs)
            if not schema.classes:
                model.target_scale.fit(few.targets)
            # Where an error has just arrived it is too small for single precision.
            panels[f"{depth} layers, ν = {spread:g}"] = cosines(model.double(), few)
    words = (
        "Networks of several depths at initialisation, predictions upwards: the cosine between each layer's weight "
        "change by the local rule, after so many inference steps, and the gradient by back-propagation of the same "
        "error. An error takes a step for each layer on its way down, so a lower layer does not change at first. "
        f"Below, ν = {SPREADS[-1]:g} at the target makes the error count for a hundredth. After {COSINE_STEPS[-1]:,} "
        f"steps the smallest cosine is {_smallest(panels, SPREADS[0])} with ν = {SPREADS[0]:g} and "
        f"{_smallest(panels, SPREADS[-1])} with ν = {SPREADS[-1]:g}."
    )
    figure = cosines_over_settling(COSINE_STEPS, panels, columns=len(DEPTHS))
    alt = "cosine between the changes of weights of each layer"
    return Section.illustrated("Beside back-propagation", words, figure, alt)


def _smallest(panels: Mapping[str, Float[Tensor, "step layer"]], spread: float) -> str:
    """Over layers and depths, at the end."""
    ends = torch.cat([each[-1] for name, each in panels.items() if name.endswith(f"ν = {spread:g}")])
    return f"{ends[~ends.isnan()].min():.3f}"


def cosines(model: PredictiveCoding, few: Examples) -> Float[Tensor, "step layer"]:
    """Of each upward connection's weights; where they do not change yet there is no number."""
    x, target = model.encode(few.inputs), model.encode_target(few.targets)
    exact = backpropagated(model, x, target)
    states, free = model.begin(x, target), [False, *[True] * (model.top - 1), False]
    found = []
    for before, after in pairwise((0, *COSINE_STEPS)):
        states = model.settle(states, free, after - before)
        rules = model.local_rules(states, model.errors(states))[::2]  # weights, without biases
        found.append(torch.stack([_cosine(rule, slope) for rule, slope in zip(rules, exact, strict=True)]))
    return torch.stack(found)


def backpropagated(model: PredictiveCoding, x: Rows, target: Rows) -> list[Tensor]:
    """The gradient of the mean squared error of the upward sweep by each connection's weights."""
    weights = [c.weight for c in model.connections]
    with torch.enable_grad():
        y = model.begin(x, None)[model.top]
        loss = 0.5 * ((target - y) / model.connections[-1].nu).square().sum(-1).mean()
        return list(torch.autograd.grad(loss, weights))


def _cosine(a: Tensor, b: Tensor) -> Tensor:
    """No number where nothing changes but by rounding."""
    return torch.where(a.norm() > ROUNDING * b.norm(), (a * b).sum() / (a.norm() * b.norm()), torch.nan)


# --- what it expects --------------------------------------------------------------------------------------------------


def generation_section(model: PredictiveCoding, schema: Schema) -> Section:
    device = model.standardize.mean.device
    if not schema.classes:
        middle, spread = model.target_scale.mean, model.target_scale.std
        targets = middle + spread * torch.linspace(-2, 2, 5, device=device)[:, None]
        return expected_table(model.generate(targets), [f"{value:.4g}" for value in targets[:, 0].tolist()], schema)
    names = schema.classes[:MOST_CLASSES]
    expected = model.generate(torch.arange(len(names), device=device))
    if schema.kind != "image":
        return expected_table(expected, names, schema)
    words = "A class is clamped, and all other states settle, the picture's too: what the network expects of the class."
    figure = generated([as_pixels(expected)], names)
    return Section.illustrated("What it generates", words, figure, "a generated picture for each class")


def expected_table(rows: Float[Tensor, "target feature"], names: Sequence[str], schema: Schema) -> Section:
    """Of a table: the features that go with each target, as the network sees it."""
    values = [(column.name, value) for column in schema.columns for value in column.values or ("",)]
    named = [f"{name} = {value}" if value else name for name, value in values]
    columns = (named or [f"feature {number}" for number in range(schema.shape[0])])[:MOST_FEATURES]
    cells = [[column, *(float(value) for value in rows[:, place].tolist())] for place, column in enumerate(columns)]
    words = f"{schema.target or 'The target'} is clamped, and all other states settle, the features' too."
    return Section("What it generates", [Text(words), Table(["feature", *names], cells)])


def completion_section(model: PredictiveCoding, few: Examples) -> Section:
    known, device = upper_half(model.config.shape), model.standardize.mean.device
    inputs = few.inputs.to(device)
    settled = model.complete(inputs, known.to(device))
    shown = slice(COMPLETED)
    whole = as_pixels(inputs[shown].float())
    figure = completed(whole, as_pixels(settled[shown]), whole, ~known[0].numpy())
    words = "The lower half of test pictures is masked. The upper half is clamped; the rest settles with all layers."
    if few.schema.classes:
        covered = model.decode(model.encode(inputs) * known.flatten().to(device))
        before, after = (int((model(each).argmax(-1).cpu() == few.targets).sum()) for each in (covered, settled))
        words += f" Of {len(few)} masked pictures it classifies {before} correctly, of the completed ones {after}."
    return Section.illustrated("What it completes", words, figure, "covered pictures, completed, and as they were")


def as_pixels(images: Float[Tensor, "image channel height width"]) -> list[UInt8[np.ndarray, "_ _ *colour"]]:
    pixels = images.cpu().clamp(0, 255).round().byte()
    shown = rearrange(pixels, "image channel height width -> image height width channel").numpy()
    return list(shown[..., 0] if shown.shape[-1] == 1 else shown)
