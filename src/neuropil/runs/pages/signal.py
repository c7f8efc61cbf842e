"""A page on the forward signal of a finished run, written beside its report."""

from pathlib import Path

from neuropil.inspection.pictures.signal import signal_flow, signal_over_steps
from neuropil.inspection.report.page import Block, Picture, Report, Section, Table, Text, percent, write_report
from neuropil.inspection.signal import SignalProfile, diagnose_signal, profile_signal
from neuropil.runs.pages.gradients import trained_on_batch
from neuropil.runs.run import Run


def signal_of(run: Run) -> SignalProfile:
    """Of one batch of training data, as the model predicts: without dropout, with the running values of batch norm."""
    model, loss = trained_on_batch(run)
    model.eval()
    return profile_signal(model, loss)


def write_signal(run: Run) -> tuple[Path, list[str]]:
    """The signal in each layer of a trained model: the page's path, and what it says in words."""
    profile = signal_of(run)
    sentences = diagnose_signal(profile)
    sections = [Section("In words", [Text(sentence) for sentence in sentences]), layer_section(profile)]
    if steps := {layer.name: layer.steps for layer in profile.layers if len(layer.steps) > 1}:
        alt = "spread of each recurrent layer at each time step"
        words = "How much the states of different sequences differ at each step, from the first that is read."
        sections.append(Section.illustrated("Over time", words, signal_over_steps(steps), alt))
    summary = "What one batch of training data becomes on its way through each layer."
    path = run.folder / "signal.html"
    write_report(path, Report(f"neuropil · signal of {run.folder.name}", summary, sections))
    return path, sentences


def layer_section(profile: SignalProfile) -> Section:
    words = (
        "The spread of a layer is how much its units differ between examples: the standard deviation of each, as root "
        "mean square over units. It is that of the outputs before an activation; in the next layer's inputs one sees "
        "what the activation, normalisation and residual sum made of it. A unit is saturated where the slope of its "
        "activation is below a tenth of the largest, and silent if it puts out the same for every example."
    )
    rows = [
        [
            layer.name,
            "–" if layer.input_spread is None else f"{layer.input_spread:.3g}",
            f"{layer.mean:.3g}",
            f"{layer.spread:.3g}",
            f"{layer.largest:.3g}",
            layer.activation or "–",
            "–" if layer.saturated_share is None else percent(layer.saturated_share),
            "–" if layer.silent_share is None else percent(layer.silent_share),
        ]
        for layer in profile.layers
    ]
    header = ["layer", "spread of inputs", "mean", "spread", "largest", "activation", "saturated", "silent"]
    blocks: list[Block] = [Table(header, rows)]
    if len(profile.flow()) > 1:
        alt = "spread and saturation of each layer, from the input to the output"
        blocks.insert(0, Picture.of(signal_flow({"": profile}), alt))
    return Section.of("Per layer", words, *blocks)
