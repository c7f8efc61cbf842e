"""How gradients travel back and the signal forward through a run's model, layer by layer and step by step."""

from typing import Any

from neuropil.config import Config, option
from neuropil.inspection.gradients import diagnose
from neuropil.inspection.signal import diagnose_signal
from neuropil.lab.sessions import Sessions
from neuropil.runs.pages.layers import LayerProbe, LayerProfiles, Weights
from neuropil.runs.run import Run

PROBES: Sessions[LayerProbe] = Sessions(limit=4)


class LayersRequest(Config):
    weights: Weights = option("trained", "weights of the run, or those before training")
    scale: float = option(1.0, "factor on every matrix and kernel", low=0.01, high=100)
    examples: int = option(16, "examples of the batch, the first of it", low=1, high=1024)


def open_view(run: Run) -> dict[str, Any]:
    """Without the data, which may take a while to read."""
    return {"system": run.name, **LayersRequest().to_dict()}


def read(run: Run, request: LayersRequest) -> dict[str, Any]:
    changed = run.weights.stat().st_mtime_ns
    probe = PROBES.get(f"{run.folder.resolve()} {changed}", lambda: LayerProbe(run))
    return shown(probe.profiles(request.weights, request.scale, request.examples))


def shown(found: LayerProfiles) -> dict[str, Any]:
    signal = {layer.name: layer for layer in found.signal.layers}
    gradients, forward = dict(found.gradients.flow()), dict(found.signal.flow())
    ran = [layer.name for layer in found.signal.layers]
    layers = []
    for layer in sorted(
        found.gradients.layers, key=lambda layer: ran.index(layer.name) if layer.name in ran else len(ran)
    ):
        outputs = signal.get(layer.name)
        layers.append(
            {
                "name": layer.name,
                "weights": layer.has_weights,
                "parameter_norm": layer.parameter_norm,
                "gradient_norm": layer.gradient_norm,
                "flow": gradients.get(layer.name),
                "dead_share": layer.dead_share,
                "spread": forward.get(layer.name),
                "mean": None if outputs is None else outputs.mean,
                "activation": None if outputs is None else outputs.activation,
                "saturated_share": None if outputs is None else outputs.saturated_share,
                "silent_share": None if outputs is None else outputs.silent_share,
            }
        )
    return {
        "loss": found.gradients.loss,
        "at_outputs": all(
            each.activation_gradient_norm is not None for each in found.gradients.layers if each.has_weights
        ),
        "layers": layers,
        "gradient_words": diagnose(found.gradients),
        "signal_words": diagnose_signal(found.signal),
        "steps": {layer.name: list(layer.steps) for layer in found.signal.layers if len(layer.steps) > 1},
        "time": {name: profile.norms for name, profile in found.time.items()},
        "time_words": {name: diagnose(profile) for name, profile in found.time.items()},
    }


ACTIONS = {"open": open_view, "read": read}
