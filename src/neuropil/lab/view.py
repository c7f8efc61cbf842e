"""The views of the lab: one row each, and how one is asked.

A view's module, `neuropil.lab.views.<name>`, has ACTIONS: functions that take an opened run (unless the view needs
none) and a request, a Config that bounds all that a page may ask for, and answer in plain JSON values. `open` is asked
first. Listing the views imports nothing heavy."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, get_type_hints

from neuropil.config import Config
from neuropil.errors import InputError, nearest
from neuropil.http.json_values import finite

if TYPE_CHECKING:
    from neuropil.runs.run import Run

Action = Callable[..., Mapping[str, Any]]
LANGUAGE_MODELS = ("rnn", "lstm", "gru", "mingru")
PICTURE_CLASSIFIERS = ("mlp", "cnn", "vit", "attention", "spiking_classifier", "predictive_coding")
LAYERED = (
    "mlp",
    "cnn",
    *LANGUAGE_MODELS,
    "text_classifier",
    "tagger",
    "forecaster",
    "captioner",
    "tracker",
    "attention",
)


@dataclass(frozen=True)
class LabView:
    """`systems` are those whose runs it opens, or which it shows without any run. `code` are the dotted names of the
    functions and classes that compute what is shown."""

    name: str
    title: str
    idea: str
    systems: tuple[str, ...]
    code: tuple[str, ...]
    needs_run: bool = True

    @property
    def actions(self) -> Mapping[str, Action]:
        return import_module(f"neuropil.lab.views.{self.name}").ACTIONS


VIEWS = (
    LabView(
        "lif",
        "Spiking neurons",
        "the membrane of a leaky integrate-and-fire neuron under a current that you move",
        ("lif",),
        ("neuropil.models.lif.leak", "neuropil.models.lif.until_spike", "neuropil.models.lif.rate"),
        needs_run=False,
    ),
    LabView(
        "hodgkin_huxley",
        "Hodgkin–Huxley neuron",
        "voltage, gates and ionic currents of a membrane under pulses that you shape",
        ("hodgkin_huxley",),
        (
            "neuropil.models.hodgkin_huxley.neuron.rates",
            "neuropil.models.hodgkin_huxley.neuron.conductances",
            "neuropil.models.hodgkin_huxley.neuron.staggered",
            "neuropil.models.hodgkin_huxley.neuron.HodgkinHuxley.ionic_currents",
        ),
        needs_run=False,
    ),
    LabView(
        "spiking_network",
        "Spiking network at work",
        "excitatory and inhibitory neurons whose connection strengths, delay and drive you move on the way",
        ("balanced_network", "spiking_network"),
        (
            "neuropil.models.balanced_network.balanced_network",
            "neuropil.models.spiking.network.SpikingSimulator.change",
            "neuropil.models.spiking.kernel.integrate",
            "neuropil.models.spiking.delivery.send_same",
            "neuropil.models.balanced_network.stationary_rate",
            "neuropil.inspection.spike_statistics.synchrony",
            "neuropil.inspection.spike_statistics.regime",
        ),
        needs_run=False,
    ),
    LabView(
        "population",
        "Population code",
        "tuning curves, and the value and functions of it that are decoded from rates and spikes",
        ("population",),
        (
            "neuropil.models.population.Population.currents",
            "neuropil.models.population.solve_decoders",
            "neuropil.models.population.decoding_error",
            "neuropil.models.dynamics.kernel.decode_spikes",
        ),
        needs_run=False,
    ),
    LabView(
        "dynamics",
        "Population with feedback",
        "an integrator and an oscillator of spiking neurons, with input and feedback that you move on the way",
        ("dynamics",),
        (
            "neuropil.models.dynamics.network.PopulationSimulator.advance",
            "neuropil.models.dynamics.kernel.run",
            "neuropil.models.dynamics.kernel.encode",
            "neuropil.models.dynamics.kernel.spike",
            "neuropil.models.dynamics.description.PopulationConnection.carried",
        ),
        needs_run=False,
    ),
    LabView(
        "autodiff",
        "Expression graph",
        "the graph of a formula that you type, stepped forward and backward",
        ("autodiff",),
        ("neuropil.autodiff.engine.Var._walk", "neuropil.autodiff.engine.Op", "neuropil.autodiff.formula.Formula"),
        needs_run=False,
    ),
    LabView(
        "optimizers",
        "Optimisers racing",
        "gradient descent, momentum, RMSProp and Adam on a surface, from where you click",
        ("optimizers",),
        (
            "neuropil.recipes.optimizers.race",
            "neuropil.training.optimizers._momentum",
            "neuropil.training.optimizers._rmsprop",
            "neuropil.training.optimizers._adam",
        ),
        needs_run=False,
    ),
    LabView(
        "playground",
        "Learning in the plane",
        "a small perceptron that learns two classes of points while you watch each of its units",
        ("mlp",),
        (
            "neuropil.models.mlp.MLP.forward",
            "neuropil.training.stepwise.StepwiseTraining.update",
            "neuropil.parts.objectives.Classification",
            "neuropil.inspection.units.unit_activations",
        ),
        needs_run=False,
    ),
    LabView(
        "layers",
        "Gradients and signal by layer",
        "how the gradient travels back and the signal forward, layer by layer and step by step",
        LAYERED,
        (
            "neuropil.inspection.gradients.profile_gradients",
            "neuropil.inspection.signal.profile_signal",
            "neuropil.inspection.gradients.profile_time",
            "neuropil.runs.pages.layers.LayerProbe",
        ),
    ),
    LabView(
        "products",
        "Down to one multiplication",
        "the whole forward pass, in which any number opens into the numbers that made it",
        (
            *("mlp", "cnn", "vit", "attention"),
            *(*LANGUAGE_MODELS, "text_classifier", "tagger", "gpt2", "bert", "bert_classifier"),
        ),
        (
            "neuropil.inspection.products.tracers.trace",
            "neuropil.inspection.products.stages.TracedPass.open",
            "neuropil.inspection.products.opened.OpenedNumber",
        ),
    ),
    LabView(
        "classification",
        "Classification",
        "draw a picture and see the probabilities of the classes move, and the layers behind them",
        PICTURE_CLASSIFIERS,
        (
            "neuropil.data.examples.drawings.InkFrame",
            "neuropil.tasks.classification.predictor.ExamplePredictor.predict_examples",
            "neuropil.inspection.activation_maps.activation_maps",
            "neuropil.inspection.input_products.input_products",
            "neuropil.models.spiking.classifier.SpikingClassifier.activity",
        ),
    ),
    LabView(
        "adversarial",
        "Adversarial examples",
        "how little a picture must change for another answer, in the direction that an attack finds",
        ("mlp", "cnn", "vit"),
        (
            "neuropil.adversarial.gradient_attack.gradient_attack",
            "neuropil.adversarial.threat_model.Ball",
            "neuropil.adversarial.minimal.minimal_attack",
        ),
    ),
    LabView(
        "embeddings",
        "Embeddings",
        "a map of words or tokens with their neighbours, analogies and the odd one out",
        ("word2vec", "gpt2", "bert", *LANGUAGE_MODELS, "text_classifier", "bert_classifier"),
        (
            "neuropil.tasks.word_vectors.vectors.WordVectors.neighbours",
            "neuropil.tasks.word_vectors.vectors.WordVectors.centrality",
            "neuropil.inspection.word_map.word_map",
        ),
    ),
    LabView(
        "gates",
        "Recurrent gates",
        "what each unit of a recurrent cell does while it reads a sentence that you type",
        (*LANGUAGE_MODELS, "text_classifier", "tagger"),
        (
            "neuropil.inspection.gates.gates_of",
            "neuropil.inspection.gates.ranked_units",
            "neuropil.inspection.gates.correlation",
            "neuropil.inspection.gates.ties",
        ),
    ),
    LabView(
        "generation",
        "Generation",
        "a prompt that is continued token by token, and what was likely at each place",
        ("gpt2", *LANGUAGE_MODELS),
        (
            "neuropil.sampling.text.filters.filter_logits",
            "neuropil.sampling.text.filters.draw",
            "neuropil.inspection.logit_lens.logit_lens",
        ),
    ),
    LabView(
        "text_classification",
        "Text classification",
        "the classes of a text as you type it, what each word adds to them, and words that change the class",
        ("text_classifier", "bert_classifier"),
        (
            "neuropil.tasks.text_classification.contributions.contributions",
            "neuropil.adversarial.word_substitution.substitute_words",
        ),
    ),
    LabView(
        "forecast",
        "Forecast",
        "a forecast with its band after a history whose points you drag, beside baselines and the truth",
        ("forecaster",),
        (
            "neuropil.models.forecaster.Forecaster.forward",
            "neuropil.tasks.forecasting.scores.adaptive_factors",
            "neuropil.tasks.forecasting.origins.forecast_from",
            "neuropil.tasks.forecasting.baselines.seasonal_naive",
        ),
    ),
    LabView(
        "recall",
        "Recall",
        "a noisy or half-covered picture becomes whole, step by step, while the energy falls",
        ("hopfield", "rbm", "predictive_coding"),
        (
            "neuropil.models.hopfield.network.HopfieldNetwork.flips",
            "neuropil.sampling.gibbs.gibbs_chain",
            "neuropil.models.predictive_coding.network.PredictiveCoding.completing",
        ),
    ),
    LabView(
        "latent",
        "Latent plane",
        "codes of pictures as a map, and what is decoded under the pointer and between two of them",
        ("vae", "autoencoder"),
        (
            "neuropil.models.vae.VAE",
            "neuropil.tasks.reconstruction.predictor.Reconstructor",
            "neuropil.parts.coders.latents.interpolate",
        ),
    ),
    LabView(
        "gan_game",
        "The adversarial game",
        "a generator and a discriminator learn from each other on a ring of eight Gaussians",
        ("gan",),
        (
            "neuropil.models.gan.AdversarialGame",
            "neuropil.models.gan.r1_penalty",
            "neuropil.models.gan.targeted_attack",
            "neuropil.training.stepwise.StepwiseTraining.update",
        ),
        needs_run=False,
    ),
    LabView(
        "diffusion",
        "Diffusion",
        "sampling as a film, from noise to a picture, with what is predicted of the picture at each step",
        ("diffusion",),
        (
            "neuropil.sampling.diffusion.trajectory",
            "neuropil.sampling.diffusion.dpm_solver_step",
            "neuropil.sampling.diffusion.ddim_step",
            "neuropil.sampling.diffusion.ancestral_step",
            "neuropil.sampling.diffusion.guided",
        ),
    ),
    LabView(
        "attention",
        "Attention",
        "which tokens each head looks at in a text that you type, and what the model says without some of the heads",
        ("gpt2", "bert", "bert_classifier"),
        (
            "neuropil.parts.attention.attention_weights",
            "neuropil.parts.multi_head.MultiHeadAttention.select",
            "neuropil.inspection.heads.masked_heads",
            "neuropil.inspection.rollout.rollout",
            "neuropil.inspection.attention_spread.entropy",
            "neuropil.inspection.attention_spread.distance",
        ),
    ),
    LabView(
        "translation",
        "Translation",
        "a translation as you type, which words it looks back at, and what it becomes without some of the heads",
        ("transformer", "seq2seq"),
        (
            "neuropil.tasks.translation.predictor.Translator.align",
            "neuropil.tasks.translation.predictor.Translator.alternatives",
            "neuropil.sampling.text.beam_search.beam_search",
            "neuropil.parts.attention.attention_weights",
            "neuropil.inspection.heads.masked_heads",
        ),
    ),
    LabView(
        "patches",
        "Attention over patches",
        "where each head looks from a patch of a picture or from the class token, and the answer without some heads",
        ("attention", "vit", "clip"),
        (
            "neuropil.parts.attention.attention_weights",
            "neuropil.models.vit.Patches",
            "neuropil.inspection.rollout.rollout",
            "neuropil.inspection.heads.masked_heads",
            "neuropil.inspection.attention_spread.distance",
            "neuropil.models.clip.CLIP.compare",
        ),
    ),
    LabView(
        "captions",
        "Captions",
        "where a captioner looks at each word that it says of a picture, and what else it could have said",
        ("captioner",),
        (
            "neuropil.models.captioner.Captioner.step",
            "neuropil.parts.attention.attention_weights",
            "neuropil.tasks.captioning.predictor.CaptionWriter.attention",
            "neuropil.tasks.captioning.predictor.CaptionWriter.alternatives",
        ),
    ),
    LabView(
        "fill",
        "Masked words",
        "words for the places that a text leaves open, and what BERT expected in the place of each other word",
        ("bert",),
        (
            "neuropil.tasks.masked_language_modelling.predictor.TextFiller.fill",
            "neuropil.tasks.masked_language_modelling.expectations.expectations",
        ),
    ),
)


def find_view(name: str) -> LabView:
    for view in VIEWS:
        if view.name == name:
            return view
    raise InputError("a view must be one of the lab's", got=f"{name!r}", fix=nearest(name, [v.name for v in VIEWS]))


def views_of(system: str) -> list[LabView]:
    return [view for view in VIEWS if system in view.systems]


def ask(view: LabView, action: str, run: "Run | None", values: Mapping[str, Any]) -> Mapping[str, Any]:
    """The answer of an action; what is not finite in it becomes None, which JSON knows."""
    if action not in view.actions:
        raise InputError(f"the view {view.name} must know the action", got=f"{action!r}")
    if view.needs_run and (run is None or run.name not in view.systems):
        got = "none" if run is None else f"one of {run.name}"
        raise InputError(f"the view {view.name} opens a run of {', '.join(view.systems)}", got=got)
    function = view.actions[action]
    request = _request_of(function)
    given: list[Any] = [run] if view.needs_run else []
    if request is not None:
        given.append(_filled(request(), values))
    elif values:
        raise InputError(f"the action {action} takes nothing", got=f"{sorted(values)}")
    return finite(function(*given))


def _request_of(function: Action) -> type[Config] | None:
    kinds = [kind for name, kind in get_type_hints(function).items() if name != "return"]
    return next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Config)), None)


def _filled(request: Config, values: Mapping[str, Any]) -> Config:
    """A page writes 2 for 2.0. What no float can hold is out of every bound."""
    numbers = {each.name for each in request.options() if each.type in (float, float | None)}
    whole = {
        name: float(value)
        for name, value in values.items()
        if name in numbers and type(value) is int and abs(value) <= sys.float_info.max
    }
    return request.override(**{**values, **whole})
