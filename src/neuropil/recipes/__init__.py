"""Every system that neuropil holds, in the order in which one would learn them. Listing them imports nothing heavy."""

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from neuropil.errors import InputError, nearest

if TYPE_CHECKING:
    from neuropil.tasks.recipe import Recipe, Verb


@dataclass(frozen=True)
class System:
    """One row: the recipe is `neuropil.recipes.<name>`; `verb` is the command that starts it. Listing imports none;
    the README, the site and the contract tests follow from these rows."""

    name: str
    family: str
    summary: str
    verb: Literal["train", "simulate"] = "train"

    @property
    def page(self) -> str:
        """Of the docs, in docs/systems."""
        return f"{self.name.replace('_', '-')}.md"


LEARNING, FEED_FORWARD, RECURRENT = "learning machinery", "feed-forward networks", "recurrent networks"
ATTENTION, NEURONS = "attention and transformers", "biological neurons"
GENERATIVE, ENERGY = "generative models", "energy-based models"

SYSTEMS = (
    System(
        "autodiff",
        LEARNING,
        "reverse-mode automatic differentiation from scratch, on NumPy alone, with its graph drawn",
    ),
    System("activations", LEARNING, "activation functions and their derivatives"),
    System("losses", LEARNING, "squared error and cross-entropy from logits, numerically stable"),
    System("optimizers", LEARNING, "SGD, momentum, RMSProp, Adam and AdamW on one loss surface"),
    System("overfitting", LEARNING, "an overfitted network, and each regularisation against it"),
    System("vanishing_gradients", LEARNING, "gradient norms by depth, and what keeps them from vanishing"),
    System("batch_norm", LEARNING, "batch normalisation: unequal scales, learning rates, covariate shift"),
    System(
        "learning_rules", LEARNING, "ten learning rules side by side: accuracy, alignment with the gradient, locality"
    ),
    System("universal_approximation", LEARNING, "any continuous function from steep sigmoids"),
    System("mlp", FEED_FORWARD, "multi-layer perceptron for tables and pictures, classes and numbers"),
    System("cnn", FEED_FORWARD, "residual convolutional network for image classification"),
    System("word2vec", FEED_FORWARD, "word vectors by skip-gram or CBOW with negative sampling"),
    System("recurrence", RECURRENT, "back-propagation through time, vanishing and exploding gradients, clipping"),
    System("recall_distance", RECURRENT, "how far back each recurrent cell and attention recall, at equal parameters"),
    System("rnn", RECURRENT, "recurrent network as a character-level language model"),
    System("lstm", RECURRENT, "long short-term memory as a language model"),
    System("gru", RECURRENT, "gated recurrent unit as a language model, in every convention"),
    System("mingru", RECURRENT, "minGRU as a language model, trained by a parallel scan"),
    System("text_classifier", RECURRENT, "text classification, many to one"),
    System("tagger", RECURRENT, "sequence tagging, many to many"),
    System("forecaster", RECURRENT, "time-series forecasting with calibrated prediction intervals"),
    System("captioner", RECURRENT, "image captioning with attention, one to many"),
    System("tracker", RECURRENT, "tracking of an object through film frames and occlusions"),
    System("attention", ATTENTION, "self-attention over the patches of a picture; one operation, nine scores"),
    System("positions", ATTENTION, "sinusoidal, learned and no positional encodings compared"),
    System("heads", ATTENTION, "one attention head against several at equal width, and pruning: are all needed?"),
    System("gaussian_process", ATTENTION, "from kernel smoothing to attention and Gaussian processes"),
    System("seq2seq", ATTENTION, "recurrent encoder-decoder for translation, with Bahdanau's and Luong's attention"),
    System("transformer", ATTENTION, "encoder-decoder Transformer for translation"),
    System("gpt2", ATTENTION, "GPT-2: causal language model that generates text"),
    System("bert", ATTENTION, "BERT: masked language model that fills in words and embeds texts"),
    System("bert_classifier", ATTENTION, "BERT fine-tuned for text classification"),
    System("vit", ATTENTION, "Vision Transformer for image classification"),
    System("clip", ATTENTION, "CLIP: images and texts in one embedding space"),
    System("autoencoder", GENERATIVE, "autoencoder: short codes of examples, beside PCA"),
    System("vae", GENERATIVE, "variational autoencoder: samples, likelihoods, interpolation"),
    System("gan", GENERATIVE, "generative adversarial network: a generator against a discriminator"),
    System("diffusion", GENERATIVE, "denoising diffusion: pictures out of noise, by class, with three samplers"),
    System("hopfield", ENERGY, "Hopfield network: patterns recalled from noise or from a part, by three rules"),
    System("rbm", ENERGY, "restricted Boltzmann machine: contrastive divergence, Gibbs sampling, likelihoods"),
    System("lif", NEURONS, "leaky integrate-and-fire neuron", verb="simulate"),
    System("hodgkin_huxley", NEURONS, "Hodgkin–Huxley neuron: action potentials from ion channels", verb="simulate"),
    System(
        "spiking_network", NEURONS, "spiking network with synapses, delays and STDP, from a TOML file", verb="simulate"
    ),
    System(
        "balanced_network",
        NEURONS,
        "Brunel's balanced network of 12,500 excitatory and inhibitory neurons",
        verb="simulate",
    ),
    System("population", NEURONS, "population coding: tuning curves, encoders and decoders", verb="simulate"),
    System(
        "dynamics",
        NEURONS,
        "populations that follow a differential equation: integrator, oscillator, Lorenz",
        verb="simulate",
    ),
    System("spiking_classifier", NEURONS, "spiking classifier trained by surrogate gradients"),
    System("predictive_coding", NEURONS, "predictive coding: classification and generation by local learning rules"),
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
    """A system by its name or, for a TOML file, the one that simulates the network in it, with the option that says
    which."""
    path = Path(word)
    if path.suffix.lower() != ".toml":
        return find(str(word)), {}
    if not path.is_file():
        nearby = sorted(str(other) for other in path.parent.glob("*.toml"))
        fix = nearest(str(path), nearby) if nearby else f"neuropil show {NETWORK_SYSTEM} tells how to write one"
        raise InputError("a network must be described in a TOML file that exists", got=f"{str(path)!r}", fix=fix)
    return find(NETWORK_SYSTEM), {"network": path}
