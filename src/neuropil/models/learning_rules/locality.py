"""What a weight must know to change, by each learning rule.

A rule is local where the activity at the two ends of a connection is enough, perhaps with an error that its target unit
is told. `reads_later_weights` and `examples_add_up` are properties that `inspection/gradient_alignment.py` measures."""

from typing import NamedTuple


class Locality(NamedTuple):
    before: str
    """Of the unit that the connection comes from."""
    after: str
    """Of the unit that it leads to."""
    signal: str
    """What else must arrive."""
    local: str
    reads_later_weights: bool | None
    """Whether changes of the first layer depend on later weights beyond the activities; None without later layers."""
    examples_add_up: bool | None
    """Whether a batch changes a weight by the mean of what each of its examples would; None where chance decides."""


LOCALITY = {
    "back-propagation": Locality(
        "activity",
        "slope",
        "output error, through the transposed weights of all later layers",
        "no",
        reads_later_weights=True,
        examples_add_up=True,
    ),
    "feedback alignment": Locality(
        "activity",
        "slope",
        "output error, through fixed random weights layer by layer",
        "but for an error sent to the unit",
        reads_later_weights=False,
        examples_add_up=True,
    ),
    "direct feedback alignment": Locality(
        "activity",
        "slope",
        "output error, through fixed random weights",
        "but for an error sent to the unit",
        reads_later_weights=False,
        examples_add_up=True,
    ),
    "evolution strategies": Locality(
        "nothing",
        "nothing",
        "the loss, the same number for all weights, and its own perturbation",
        "no: one global number",
        reads_later_weights=True,
        examples_add_up=False,
    ),
    "predictive coding": Locality(
        "activity",
        "error node",
        "nothing, once the states have settled through the transposed weights of the next layer",
        "yes, when settled",
        reads_later_weights=True,
        examples_add_up=True,
    ),
    "surrogate gradients": Locality(
        "spikes",
        "surrogate slope",
        "output error, through the transposed weights of all later layers and back through time",
        "no",
        reads_later_weights=True,
        examples_add_up=True,
    ),
    "contrastive divergence": Locality(
        "activity",
        "activity",
        "which of two phases it is: data, or one step of Gibbs sampling later",
        "yes",
        reads_later_weights=None,
        examples_add_up=None,
    ),
    "Hebb": Locality(
        "activity",
        "activity",
        "nothing: label units are set to the class",
        "yes",
        reads_later_weights=None,
        examples_add_up=True,
    ),
    "PES": Locality(
        "rate",
        "nothing",
        "error of its own output",
        "but for an error sent to the unit",
        reads_later_weights=None,
        examples_add_up=True,
    ),
    "STDP": Locality(
        "spike times",
        "spike times",
        "nothing: a teacher makes the neuron of the class fire",
        "yes",
        reads_later_weights=None,
        examples_add_up=True,
    ),
}
