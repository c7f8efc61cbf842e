"""A run's spiking network as a file of NIR (Neuromorphic Intermediate Representation), for other simulators and chips.

    Input → Affine → LIF → … → Affine → LI → Output       LI: membrane readout;  LIF: spike-count readout

    τ dv/dt = v_leak − v + I                              LIF: v > θ: a spike, v = v_reset;  no refractory period
    v_k = v_∞ + (v_{k−1} − v_∞) λ                         exponential Euler, v_∞ = v_leak + I_k,  λ = e^{−dt/τ}

Here a spike through the weight w raises v by w; there it is a current that flows for one step, and adds (1 − λ) I. So

    first layer        I = size (W x + b), with the standardisation of x in both: the same
    readout            I_k = W s_k / (1 − λ) + b / c: with v from 0 on, c = (1/K) Σ_k (1 − λ^k) is what one unit adds to
                       the mean of v over K steps, so the mean is the same
    spiking layers     I_k = size λ/(1 − λ) (W s_k + b): here what step k adds to v leaks and is compared with θ in step
                       k + 1, there in step k, so each of them is a step ahead, and the file has a step less to run

and what differs is in the spiking layers behind the first. Here a neuron that spikes loses what the same step adds to
it, there it begins with that at v_reset; and from the third layer on, biases begin before the first spikes can arrive,
there with them. A network with one hidden layer and the membrane readout has no such layer, and is exact; of others it
is measured on data how often the file gives the same answer.

The file is read again and simulated, and compared with PyTorch in double precision, before it gets its name. Times in
it are in seconds, and its metadata have `dt`, `steps`, `readout` (the mean or the sum of the outputs over the steps)
and the `classes`.
"""

import copy
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from jaxtyping import Float

from neuropil.errors import RunError
from neuropil.extras import require_extra
from neuropil.files import replacing
from neuropil.models.spiking.classifier import CurrentCoding, SpikingClassifier
from neuropil.runs.export import TOLERANCE, inputs_of_model

if TYPE_CHECKING:
    import nir
    from torch import nn

    from neuropil.models.lif import Constants
    from neuropil.runs.run import Run

MOST_INPUTS = 256
"""On which the file is compared with the model."""
MS = 1e-3


class NIRExport(NamedTuple):
    path: Path
    nodes: dict[str, tuple[str, list[int]]]
    """The kind of each, and the shape of what leaves it."""
    dt: float
    """In seconds."""
    steps: int
    exact: bool
    num_inputs: int
    """On which the file was compared with PyTorch."""
    same_answers: int
    """Those for which the most probable class is the same."""
    difference: float
    """The largest of the logits, in units of the largest if that is above 1."""

    @property
    def summary(self) -> str:
        simulated = f"Simulated for {self.steps} steps of {self.dt / MS:g} ms, the file"
        if self.exact:
            spikes = f"fires the spikes of PyTorch for all of {self.num_inputs} inputs"
            return f"{simulated} {spikes}; logits differ by {self.difference:.1g} at most."
        answers = f"gives the class of PyTorch for {self.same_answers} of {self.num_inputs} inputs"
        return f"{simulated} {answers}: in NIR a neuron keeps the input of the step in which it spikes."


def export_nir(run: "Run", path: Path, inputs: Any = None) -> NIRExport:
    """`inputs` are what `run.predict` takes; by default some of the run's data."""
    require_extra("nir", "an export to NIR")
    import nir

    model = _exportable(run)
    x = inputs_of_model(run, inputs, "nir")["x"][:MOST_INPUTS].cpu()
    graph = _graph(model)
    graph.metadata["classes"] = list(run.predictor.schema.classes)
    with replacing(path) as part:
        nir.write(part, graph)
        return _compare(run, model, x, nir.read(part))._replace(path=path)


def _exportable(run: "Run") -> SpikingClassifier:
    """The model in double precision, so that rounding decides about no spike."""
    model = run.model
    if not isinstance(model, SpikingClassifier):
        fix = "train a spiking_classifier, or export it as ONNX"
        raise RunError("NIR holds spiking networks", got=f"a run of {run.name}", fix=fix)
    config = model.config
    if config.coding != "current":
        got = f"--coding {config.coding}"
        raise RunError("inputs coded as spikes have no node in NIR", got=got, fix="train with --coding current")
    if config.neuron.tau_ref > 0:
        got = f"--tau-ref {config.neuron.tau_ref:g}"
        raise RunError("neurons in NIR have no refractory period", got=got, fix="train with --tau-ref 0")
    if config.steps <= _num_driven_by_spikes(model):
        got = f"{config.steps} for {len(config.hidden_sizes)} hidden layers"
        raise RunError(
            "inputs must be presented for enough steps to reach the output", got=got, fix="train with more --steps"
        )
    return copy.deepcopy(model).double().eval()


def _num_driven_by_spikes(model: SpikingClassifier) -> int:
    """Spiking layers behind the first."""
    return len(model.hidden) - 1 + (model.config.readout == "spikes")


# --- the graph --------------------------------------------------------------------------------------------------------


def _graph(model: SpikingClassifier) -> "nir.NIRGraph":
    import nir

    config, firing, neuron = model.config, model.firing, model.firing.neuron
    steps = config.steps - _num_driven_by_spikes(model)
    share = -math.expm1(-neuron.dt / neuron.tau_m)  # 1 − λ
    layers = [_arrays(layer) for layer in [*model.hidden, model.output]]
    nodes: list[nir.NIRNode] = [_first(model, *layers[0]), _lif(neuron, len(layers[0][1]))]
    kick = firing.size * neuron.decay / share
    driven = layers[1:] if config.readout == "spikes" else layers[1:-1]
    for weight, bias in driven:
        nodes += [nir.Affine(kick * weight, kick * bias), _lif(neuron, len(bias))]
    if config.readout == "membrane":
        weight, bias = layers[-1]
        # c = (1/K) Σ_k (1 − λ^k)
        charged = -np.expm1(-np.arange(1, steps + 1) * neuron.dt / neuron.tau_m).mean()
        nodes += [nir.Affine(weight / share * steps / config.steps, bias / charged), _li(neuron, len(bias))]
    graph = nir.NIRGraph.from_list(*nodes)
    readout = "mean" if config.readout == "membrane" else "sum"
    graph.metadata = {"dt": MS * neuron.dt, "steps": steps, "readout": readout}
    return graph


def _arrays(layer: "nn.Module") -> tuple[np.ndarray, np.ndarray]:
    weight, bias = layer.parameters()
    return weight.detach().numpy(), bias.detach().numpy()


def _first(model: SpikingClassifier, weight: np.ndarray, bias: np.ndarray) -> "nir.Affine":
    """W (x − μ)/σ + b = (W/σ) x + b − (W/σ) μ"""
    import nir

    scaling, shape = cast(CurrentCoding, model.encode).standardize, model.config.shape
    mean, std = (each.expand(shape).flatten().numpy() for each in (scaling.mean, scaling.std))
    weight = weight / std
    return nir.Affine(model.firing.size * weight, model.firing.size * (bias - weight @ mean))


def _lif(neuron: "Constants", size: int) -> "nir.LIF":
    import nir

    constants = (MS * neuron.tau_m, 1.0, neuron.rest, neuron.threshold, neuron.reset)
    tau, r, leak, threshold, reset = (np.full(size, each) for each in constants)
    return nir.LIF(tau=tau, r=r, v_leak=leak, v_threshold=threshold, v_reset=reset)


def _li(neuron: "Constants", size: int) -> "nir.LI":
    import nir

    return nir.LI(tau=np.full(size, MS * neuron.tau_m), r=np.ones(size), v_leak=np.zeros(size))


# --- the file against PyTorch -----------------------------------------------------------------------------------------


def simulate_nir(
    graph: "nir.NIRGraph", x: Float[np.ndarray, "batch input"], dt: float, steps: int
) -> dict[str, Float[np.ndarray, "step batch unit"]]:
    """What leaves each node of a chain at every step, for inputs that are there all the time: exponential Euler, from
    v_leak on."""
    import nir

    after, name = dict(graph.edges), "input"
    left = {name: np.broadcast_to(x, (steps, *x.shape))}
    while (following := after[name]) != "output":
        node, given = graph.nodes[following], left[name]
        if isinstance(node, nir.Affine):
            left[following] = given @ node.weight.T + node.bias
        else:
            left[following] = _integrate(cast("nir.LIF | nir.LI", node), given, dt)
        name = following
    return left


def _integrate(node: "nir.LIF | nir.LI", given: Float[np.ndarray, "step batch unit"], dt: float) -> np.ndarray:
    """The spikes of LIF, the voltages of LI."""
    import nir

    decay, v = np.exp(-dt / node.tau), np.broadcast_to(node.v_leak, given.shape[1:])
    left = np.empty_like(given)
    for k, current in enumerate(given):
        # v_k = v_∞ + (v_{k−1} − v_∞) λ
        target = node.v_leak + node.r * current
        v = target + (v - target) * decay
        left[k] = v
        if isinstance(node, nir.LIF):
            left[k] = v > node.v_threshold
            v = np.where(left[k], node.v_reset, v)
    return left


def _compare(run: "Run", model: SpikingClassifier, x: Any, graph: "nir.NIRGraph") -> NIRExport:
    """The first layer must fire the same spikes whatever follows it; the answers must be the same where nothing behind
    it is driven by spikes and spikes itself."""
    dt, steps = float(graph.metadata["dt"]), int(graph.metadata["steps"])
    left = simulate_nir(graph, x.flatten(1).double().numpy(), dt, steps)
    outputs = list(left.values())[-1]
    answers = outputs.sum(0) if model.config.readout == "spikes" else outputs.mean(0)
    activity = model.activity(x)
    expected, spikes = activity.logits[-1].numpy(), activity.hidden[0].spikes[:steps].numpy()
    others = int((left["lif"] != spikes).sum())
    difference = float(np.abs(answers - expected).max() / max(1.0, np.abs(expected).max()))
    exact = _num_driven_by_spikes(model) == 0
    if others or not difference <= (TOLERANCE if exact else math.inf):
        got = f"{others:,} other spikes and a difference of {difference:.2g}"
        raise RunError(f"the exported network of {run.name} must answer as PyTorch's within {TOLERANCE:g}", got=got)
    nodes = {name: (type(graph.nodes[name]).__name__, list(values.shape[2:])) for name, values in left.items()}
    same = int((answers.argmax(1) == expected.argmax(1)).sum())
    return NIRExport(Path(), nodes, dt, steps, exact, len(x), same, difference)
