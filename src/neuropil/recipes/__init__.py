"""Every system that neuropil holds, in the order in which one would learn them. Listing them imports nothing heavy."""

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from neuropil.errors import InputError, nearest

if TYPE_CHECKING:
    from neuropil.tasks.recipe import Recipe, Verb


@dataclass(frozen=True)
class System:
    """`about` is the module whose docstring has the equations; the recipe is `neuropil.recipes.<name>`, whose verb stands
    here too, so that a list by verbs imports none of them."""

    name: str
    family: str
    summary: str
    about: str
    verb: str = "train"


SYSTEMS = (
    System(
        "autodiff",
        "learning",
        "automatic differentiation from scratch: an expression graph and its chain rule",
        "autodiff.engine",
    ),
    System(
        "activations",
        "learning",
        "what a unit does to its input, and the slope that learning sees",
        "parts.activations",
    ),
    System("losses", "learning", "what is minimised, from logits, without overflow", "parts.losses"),
    System("optimizers", "learning", "five update rules racing down one surface", "training.optimizers"),
    System(
        "overfitting",
        "learning",
        "a network that learns its examples by heart, and what helps against it",
        "recipes.overfitting",
    ),
    System(
        "vanishing_gradients",
        "learning",
        "gradients that fade on their way down, and what keeps them alive",
        "inspection.gradients",
    ),
    System(
        "universal_approximation",
        "learning",
        "any continuous function from steep sigmoids",
        "models.universal_approximation",
    ),
    System("mlp", "feed-forward", "multi-layer perceptron", "models.mlp"),
    System("cnn", "convolution", "residual convolutional network", "models.cnn"),
    System(
        "recurrence",
        "recurrence",
        "gradients that travel back in time, fade or explode, and what keeps them",
        "parts.recurrence",
    ),
    System("rnn", "recurrence", "a recurrent network that learns to continue a text, letter by letter", "models.rnn"),
    System(
        "lstm",
        "recurrence",
        "long short-term memory: a cell that keeps what it holds until a gate lets it go",
        "models.lstm",
    ),
    System(
        "gru",
        "recurrence",
        "gated recurrent unit: one gate for what is new, one for what is seen of the old",
        "models.gru",
    ),
    System("mingru", "recurrence", "a gated unit that reads a whole text at once, by a parallel scan", "models.mingru"),
    System("text_classifier", "recurrence", "many to one: what kind of text this is", "models.recurrent"),
    System("tagger", "recurrence", "many to many: a tag for every token of a text", "models.recurrent"),
    System(
        "forecaster", "recurrence", "what a series will be, with bands that hold what they promise", "models.forecaster"
    ),
    System(
        "captioner",
        "recurrence",
        "one to many: a sentence about a picture, and where each word looked",
        "models.captioner",
    ),
    System("tracker", "recurrence", "where an object is, also while it is hidden", "models.tracker"),
    System("attention", "attention", "a soft select over the patches of one picture", "parts.attention"),
    System(
        "positions", "attention", "what attention does not know unless it is told where things stand", "parts.positions"
    ),
    System(
        "gaussian_process",
        "attention",
        "from kernel smoothing to attention and Gaussian processes",
        "models.gaussian_process",
    ),
    System(
        "seq2seq",
        "attention",
        "recurrent networks that translate, with Bahdanau's and Luong's attention",
        "models.seq2seq",
    ),
    System(
        "transformer",
        "attention",
        "an encoder that reads and a decoder that writes: translation by attention alone",
        "models.transformer",
    ),
    System("gpt2", "attention", "a stack of causal attention that learns a text and goes on with it", "models.gpt2"),
    System(
        "bert",
        "attention",
        "a stack of attention that sees a text from both sides, and finds hidden words again",
        "models.bert",
    ),
    System(
        "bert_classifier",
        "attention",
        "BERT that names the class of a text, from scratch or from published weights",
        "models.bert",
    ),
    System("vit", "attention", "Vision Transformer: a picture is a text of patches", "models.vit"),
    System("clip", "attention", "a network that sees and one that reads, which meet in one space", "models.clip"),
    System(
        "lif", "neurons", "leaky integrate-and-fire: a membrane that charges, leaks and fires", "models.lif", "simulate"
    ),
    System(
        "hodgkin_huxley",
        "neurons",
        "why a nerve fires, from the currents through its membrane",
        "models.hodgkin_huxley",
        "simulate",
    ),
    System(
        "spiking_network",
        "neurons",
        "groups of spiking neurons, wired as you like, from a small file of your own",
        "models.spiking.network",
        "simulate",
    ),
    System(
        "balanced_network",
        "neurons",
        "Brunel's network of 12,500 neurons, in which excitation and inhibition cancel",
        "models.balanced_network",
        "simulate",
    ),
    System(
        "population",
        "neurons",
        "what a population of neurons stands for, and how to read it back",
        "models.population",
        "simulate",
    ),
    System(
        "dynamics",
        "neurons",
        "populations that follow a differential equation: integrator, oscillator, Lorenz",
        "models.dynamics.network",
        "simulate",
    ),
    System(
        "spiking_classifier",
        "neurons",
        "spiking neurons that learn to tell pictures apart, by a surrogate gradient",
        "models.spiking.classifier",
    ),
    System(
        "predictive_coding",
        "neurons",
        "value and error nodes that settle, and learn by local rules alone",
        "models.predictive_coding",
    ),
)

NETWORK_SYSTEM = "spiking_network"
"""What a TOML file is simulated with."""


def find(name: str) -> System:
    """By its name; hyphens may stand for the underscores in it."""
    for system in SYSTEMS:
        if system.name == name.replace("-", "_"):
            return system
    raise InputError(
        "a system must be one that `neuropil list` shows", got=f"{name!r}", fix=nearest(name, [s.name for s in SYSTEMS])
    )


def recipe(name: str) -> "Recipe":
    return importlib.import_module(f"neuropil.recipes.{find(name).name}").RECIPE


def recipe_for(verb: "Verb", name: str) -> "Recipe":
    """The system's recipe, if this is the verb that starts it."""
    found = recipe(name)
    if found.verb != verb:
        kind = "learns" if verb == "train" else "runs in time and learns nothing"
        raise InputError(
            f"neuropil {verb} is for a system that {kind}",
            got=f"{name!r}",
            fix=f"use neuropil {found.verb} {find(name).name}",
        )
    return found


def find_simulation(word: str | Path) -> tuple[System, dict[str, Path]]:
    """A system by its name or, for a TOML file, the one that simulates the network in it, with the option that says which."""
    path = Path(word)
    if path.suffix.lower() != ".toml":
        return find(str(word)), {}
    if not path.is_file():
        nearby = sorted(str(other) for other in path.parent.glob("*.toml"))
        fix = nearest(str(path), nearby) if nearby else f"neuropil show {NETWORK_SYSTEM} tells how to write one"
        raise InputError("a network must be described in a TOML file that exists", got=f"{str(path)!r}", fix=fix)
    return find(NETWORK_SYSTEM), {"network": path}
