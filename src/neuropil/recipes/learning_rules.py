"""Learning rules side by side: one data set, one network where a rule can train it, and ten ways to change its weights.

    back-propagation            ∇W = δᵀ h,   δˡ = (δˡ⁺¹ Wˡ⁺¹) ⊙ φ'(zˡ)                   the gradient
    feedback alignment          δˡ = (δˡ⁺¹ Bˡ⁺¹) ⊙ φ'(zˡ)                                B fixed and random
    direct feedback alignment   δˡ = (e Bˡ) ⊙ φ'(zˡ)                                     e the error of the output
    evolution strategies        g = 1/(2nσ) Σ_i (u(L⁺_i) − u(L⁻_i)) ε_i                  from losses alone
    predictive coding           ΔM = σ(x)ᵀ ε / ν                                         ε: errors of settled states
    surrogate gradients         the gradient, of spiking neurons, with ∂s/∂v of a smooth step
    contrastive divergence      ΔW = ⟨v h⟩ at data − ⟨v h⟩ after a step of Gibbs sampling
    Hebb                        ΔW = vᵀv − I
    PES                         Δd = −(κ/N) a e                                          decoders of a fixed population
    STDP                        Δw = ±A e^{−|Δt|/τ}                                      by pairs of spikes

The first five train the same layers from the same first weights; surrogate gradients train the same layers of spiking
neurons; the others train the network that they were made for, with as many weights where its size is free. All take
plain steps, w ← w − η g, from the same batches in the same order, with a learning rate that is chosen on the validation
part. The report compares accuracy over examples and over time, the cosine of each change to the gradient, and what a
weight needs to know."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from neuropil.config import Config, option
from neuropil.data.examples.dataset import Examples
from neuropil.data.examples.files import DataConfig
from neuropil.data.splits import Splits
from neuropil.errors import InputError, nearest
from neuropil.inspection.gradient_alignment import (
    LayerWeights,
    MeasuredLearner,
    change_with_examples_apart,
    change_with_later_weights,
)
from neuropil.inspection.report.page import percent
from neuropil.inspection.report.studies.learning_rules import RuleTrial, rule_sections
from neuropil.models.learning_rules.evolution_strategies import EvolutionStrategies
from neuropil.models.learning_rules.feedback_alignment import FeedbackAlignment, weight_alignment
from neuropil.models.learning_rules.hebb import HebbianLearning, LabelledHopfield
from neuropil.models.learning_rules.labelled_rbm import JointContrastiveDivergence, LabelledRBM
from neuropil.models.learning_rules.locality import LOCALITY
from neuropil.models.learning_rules.pes import PopulationClassifier, PrescribedErrorSensitivity
from neuropil.models.learning_rules.stdp import SpikingReadout, TaughtSTDP
from neuropil.models.mlp import MLP
from neuropil.models.predictive_coding.connection import SlopedName
from neuropil.models.predictive_coding.network import PredictiveCoding, PredictiveCodingConfig
from neuropil.models.predictive_coding.settled_energy import SettledEnergy
from neuropil.models.spiking.classifier import SpikingClassifier, SpikingClassifierConfig
from neuropil.parts.objectives import Classification
from neuropil.progress import Display
from neuropil.protocols import Batch, Learner
from neuropil.randomness import initialised
from neuropil.tasks import study
from neuropil.tasks.classification.scores import baselines
from neuropil.tasks.experiment import Result
from neuropil.tasks.recipe import Recipe
from neuropil.tasks.study import Findings, Study
from neuropil.training.history import Row

USUAL = (0.03, 0.1, 0.3, 1.0, 3.0)
RATES: dict[str, tuple[float, ...]] = {
    "back-propagation": USUAL,
    "feedback alignment": USUAL,
    "direct feedback alignment": USUAL,
    "evolution strategies": (1e-3, 3e-3, 0.01, 0.03, 0.1),  # ranks are much larger than differences of losses
    "predictive coding": USUAL,
    "surrogate gradients": USUAL,
    "contrastive divergence": USUAL,
    "Hebb": (1e-3,),  # it scales all weights alike, which changes no answer
    "PES": (3e-6, 1e-5, 3e-5, 1e-4, 3e-4),  # rates are hundreds of Hz
    "STDP": (1e-3, 3e-3, 0.01, 0.03, 0.1),  # of the largest weight, for each pair of spikes
}
MEASURED = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)
"""Updates whose alignment is measured, and the last."""
PROBED = 2
"""Examples with which it is measured what a change depends on: few, so that weights can change unseen."""
GOAL = 0.9


class LearningRulesOptions(Config):
    data: DataConfig = DataConfig(validation=0.2)  # it chooses the learning rates
    rules: tuple[str, ...] = option(tuple(RATES), "learning rules to compare")
    hidden_sizes: tuple[int, ...] = option((64, 64), "units of each hidden layer", low=1)
    activation: SlopedName = option("tanh", "activation of the hidden units")
    epochs: int = option(30, "epochs of each rule", low=1)
    tuning_epochs: int = option(8, "epochs of the shorter trainings that choose the learning rate", low=1)
    batch_size: int = option(32, "examples in a batch", low=1)
    pairs: int = option(64, "evolution strategies: antithetic pairs in each update", low=1)
    sigma: float = option(0.05, "evolution strategies: standard deviation σ of the perturbations", above=0)
    inference_steps: int = option(20, "predictive coding: inference steps in each update", low=1)
    time_steps: int = option(25, "surrogate gradients: time steps of each input", low=1)


@dataclass(frozen=True)
class RuleTask:
    """What a rule is given to learn from."""

    options: LearningRulesOptions
    train: Examples
    seed: int

    @property
    def shape(self) -> tuple[int, ...]:
        return self.train.schema.shape

    @property
    def classes(self) -> int:
        return self.train.schema.num_outputs

    def mlp(self) -> MLP:
        sizes, activation = self.options.hidden_sizes, self.options.activation
        return study.new_mlp(self.train, self.seed, hidden_sizes=sizes, activation=activation, dropout=0.0)

    def num_weights(self) -> int:
        """Of the layered network."""
        return sum(parameter.numel() for parameter in self.mlp().parameters())


@dataclass(frozen=True)
class Subject:
    """A learner that is ready to train. `answer` gives its logits, `layers` are those of its weights for which there is
    a gradient, and `later` are the modules after the first layer."""

    learner: Learner
    answer: Callable[[Tensor], Tensor]
    trained: str
    layers: Mapping[str, LayerWeights]
    later: Sequence[nn.Module] = field(default_factory=tuple)
    probed: LayerWeights | None = None
    """The weights of which it is measured what their changes depend on, where they are not the first layer."""

    @property
    def first(self) -> LayerWeights:
        return self.probed or next(iter(self.layers.values()))


# --- a network for each rule ------------------------------------------------------------------------------------------


def _layer_names(options: LearningRulesOptions) -> list[str]:
    return [*(f"hidden layer {number + 1}" for number in range(len(options.hidden_sizes))), "output layer"]


def _layered(task: RuleTask, learner_of: Callable[[MLP], Learner]) -> Subject:
    model = task.mlp()
    names = [*(f"hidden.{number}.weight" for number in range(len(model.hidden))), "output.weight"]
    layers = dict(zip(_layer_names(task.options), map(LayerWeights, names), strict=True))
    return Subject(learner_of(model), model, "the layers", layers, [*list(model.hidden)[1:], model.output])


def backpropagation(task: RuleTask, rate: float) -> Subject:
    return _layered(task, Classification)


def feedback_alignment(task: RuleTask, rate: float) -> Subject:
    return _layered(task, lambda model: FeedbackAlignment(model, "layered", task.seed))


def direct_feedback_alignment(task: RuleTask, rate: float) -> Subject:
    return _layered(task, lambda model: FeedbackAlignment(model, "direct", task.seed))


def evolution_strategies(task: RuleTask, rate: float) -> Subject:
    return _layered(task, lambda model: EvolutionStrategies(model, task.options.pairs, task.options.sigma))


def predictive_coding(task: RuleTask, rate: float) -> Subject:
    options = task.options
    config = PredictiveCodingConfig(
        hidden_sizes=options.hidden_sizes,
        activation=options.activation,
        direction="up",
        steps=options.inference_steps,
        shape=task.shape,
        outputs=task.classes,
    )
    model, mlp = initialised(lambda: PredictiveCoding(config), task.seed), task.mlp()
    model.standardize.fit(task.train.inputs)
    with torch.no_grad():
        for connection, layer in zip(model.up, [*mlp.hidden, mlp.output], strict=True):
            connection.get_parameter("weight").copy_(layer.get_parameter("weight").mT)
    layers = {name: LayerWeights(f"up.{number}.weight") for number, name in enumerate(_layer_names(options))}

    def answer(x: Tensor) -> Tensor:
        return model.begin(model.encode(x), None)[model.top]

    return Subject(SettledEnergy(model), answer, "the layers", layers, list(model.up)[1:])


def surrogate_gradients(task: RuleTask, rate: float) -> Subject:
    options = task.options
    config = SpikingClassifierConfig(
        hidden_sizes=options.hidden_sizes, steps=options.time_steps, dropout=0.0, shape=task.shape, classes=task.classes
    )
    model = initialised(lambda: SpikingClassifier(config), task.seed)
    model.encode.fit(task.train.inputs)
    layers, later = {"output layer": LayerWeights("output.weight")}, [*list(model.hidden)[1:], model.output]
    first = LayerWeights("hidden.0.weight")
    return Subject(Classification(model), model, "the layers, of spiking neurons", layers, later, first)


def contrastive_divergence(task: RuleTask, rate: float) -> Subject:
    inputs = math.prod(task.shape)
    size = max(1, round(task.num_weights() / (inputs + task.classes + 1)))
    model = initialised(lambda: LabelledRBM(task.shape, task.classes, size), task.seed)
    model.fit(task.train.inputs, task.train.targets)
    layers = {
        "hidden layer 1": LayerWeights("rbm.weight", slice(inputs)),
        "output layer": LayerWeights("rbm.weight", slice(inputs, None)),
    }
    return Subject(JointContrastiveDivergence(model), model, f"an RBM of {size} hidden units, with label units", layers)


def hebb(task: RuleTask, rate: float) -> Subject:
    model = LabelledHopfield(task.shape, task.classes).fit(task.train.inputs)
    layers = {"output layer": LayerWeights("between")}
    return Subject(HebbianLearning(model), model, "a Hopfield network with label units", layers)


def pes(task: RuleTask, rate: float) -> Subject:
    neurons = max(1, round(task.num_weights() / task.classes))
    model = PopulationClassifier(task.shape, task.classes, neurons, task.seed)
    model.standardize.fit(task.train.inputs)
    layers = {"output layer": LayerWeights("decoders")}
    return Subject(PrescribedErrorSensitivity(model), model, f"decoders of {neurons} fixed neurons", layers)


def stdp(task: RuleTask, rate: float) -> Subject:
    model = SpikingReadout(task.shape, task.classes).fit(task.train.inputs)
    layers = {"output layer": LayerWeights("weight")}
    return Subject(TaughtSTDP(model, rate), model, "synapses of a spiking neuron for each class", layers)


SUBJECTS: dict[str, Callable[[RuleTask, float], Subject]] = {
    "back-propagation": backpropagation,
    "feedback alignment": feedback_alignment,
    "direct feedback alignment": direct_feedback_alignment,
    "evolution strategies": evolution_strategies,
    "predictive coding": predictive_coding,
    "surrogate gradients": surrogate_gradients,
    "contrastive divergence": contrastive_divergence,
    "Hebb": hebb,
    "PES": pes,
    "STDP": stdp,
}


# --- the comparison ---------------------------------------------------------------------------------------------------


def build(options: LearningRulesOptions, seed: int) -> Study:
    _require_rules(options)
    splits = study.prepare_classes(options.data, seed)
    task = RuleTask(options, splits.train, seed)

    def compute(folder: Path, display: Display) -> Findings:
        trainings = sum(len(RATES[rule]) * (len(RATES[rule]) > 1) + 1 for rule in options.rules)
        done = 0

        def report(name: str, history: Sequence[Row]) -> None:
            nonlocal done
            done += 1
            accuracy = _accuracies(history)[-1:] or [math.nan]
            display.update(done / trainings, f"{name}: validation accuracy {percent(accuracy[0])}")

        trials = {rule: _compare_rates(rule, task, splits, folder, report) for rule in options.rules}
        simple = baselines(splits)
        results = [Result(rule, _metrics(trial)) for rule, trial in trials.items()]
        levels = {result.name: result.metrics["accuracy"] for result in simple}
        results[1:1] = simple[:1]  # the second is what the first is compared with
        return Findings([*results, *simple[1:]], rule_sections(trials, levels, GOAL, _about(options, splits)))

    return Study("learning rules", compute, {"source": splits.train.source})


def _require_rules(options: LearningRulesOptions) -> None:
    for rule in options.rules:
        if rule not in RATES:
            raise InputError("a learning rule must be one of those", got=f"{rule!r}", fix=nearest(rule, RATES))
    if not options.rules:
        raise InputError("a comparison needs at least one learning rule", got="none")
    if not options.hidden_sizes:
        rule = "learning rules are compared in a network with a hidden layer"
        raise InputError(rule, got="none", fix="give --hidden-sizes 64 64")


def _compare_rates(
    rule: str, task: RuleTask, splits: Splits, folder: Path, report: Callable[[str, Sequence[Row]], None]
) -> RuleTrial:
    """Short trainings choose the learning rate, then one that is as long as all others."""
    train, tried = partial(_train, rule, task, splits, folder), dict[float, float]()
    if len(RATES[rule]) > 1:
        for rate in RATES[rule]:
            history = study.until_divergence(lambda rate=rate: train(rate, task.options.tuning_epochs)[1])[0]
            tried[rate] = _accuracies(history)[-1] if history else math.nan
            report(f"{rule}, learning rate {rate:g}", history)
    chosen = max(tried, key=lambda rate: (not math.isnan(tried[rate]), tried[rate]), default=RATES[rule][0])
    measured, history = train(chosen, task.options.epochs, measure=True)
    report(rule, history)
    return _trial(rule, task, splits, measured, history, chosen, tried)


def _train(
    rule: str,
    task: RuleTask,
    splits: Splits,
    folder: Path,
    rate: float,
    epochs: int,
    *,
    measure: bool = False,
) -> tuple[MeasuredLearner, list[Row]]:
    options, subject = task.options, SUBJECTS[rule](task, rate)
    config = study.constant_rate("sgd", rate, epochs=epochs, batch_size=options.batch_size)
    batches = study.shuffled(splits.train, options.batch_size, task.seed)
    updates = (*MEASURED, epochs * len(batches) - 1) if measure else ()
    learner = MeasuredLearner(subject.learner, subject.answer, subject.layers, updates)
    name = rule if measure else f"{rule} {rate:g}"
    validation = study.in_order(splits.validation)
    return learner, study.train_trial(folder, name, learner, batches, validation, config, seed=task.seed)


def _trial(
    rule: str,
    task: RuleTask,
    splits: Splits,
    learner: MeasuredLearner,
    history: Sequence[Row],
    rate: float,
    tried: Mapping[float, float],
) -> RuleTrial:
    validations = [row for row in history if row["kind"] == "validation"]
    size = len(splits.train)
    curve = [(row["epoch"] * size, row["seconds"], row["accuracy"]) for row in validations]
    *by_layer, together = zip(*learner.cosines, strict=True)
    fresh = SUBJECTS[rule](task, rate)
    has_every_layer = fresh.probed is None
    few = {name: each[:PROBED] for name, each in next(study.shuffled(splits.train, PROBED, task.seed).epoch(0)).items()}
    return RuleTrial(
        trained=fresh.trained,
        weights=sum(parameter.numel() for parameter in learner.model.parameters()),
        tried=tried,
        rate=rate,
        curve=np.array(curve),
        accuracy=study.score(learner, splits.test)["accuracy"],
        seen=[min((update + 1) * task.options.batch_size, round(curve[-1][0])) for update in learner.updates],
        cosines=dict(zip(learner.layers, by_layer, strict=True)),
        all_layers=together if has_every_layer else (),
        locality=LOCALITY[rule],
        later_weights=_later_weights(fresh, few),
        examples_apart=_examples_apart(rule, fresh, few),
        feedback=_feedback(fresh.learner, learner.learner),
    )


def _feedback(*learners: Learner) -> tuple[float, ...] | None:
    """Of the first and of the trained learner."""
    layered = [each for each in learners if isinstance(each, FeedbackAlignment) and each.way == "layered"]
    return tuple(weight_alignment(each)[-1] for each in layered) or None


def _later_weights(subject: Subject, batch: Batch) -> float | None:
    if not subject.later:
        return None
    return change_with_later_weights(subject.learner, subject.answer, subject.first, subject.later, batch)


def _examples_apart(rule: str, subject: Subject, batch: Batch) -> float | None:
    if LOCALITY[rule].examples_add_up is None:
        return None
    return change_with_examples_apart(subject.learner, subject.first, batch)


def _metrics(trial: RuleTrial) -> dict[str, float]:
    alignment = {} if math.isnan(trial.alignment) else {"alignment": trial.alignment}
    return {"accuracy": trial.accuracy} | alignment | {"learning_rate": trial.rate}


def _accuracies(history: Sequence[Row]) -> list[float]:
    return [row["accuracy"] for row in history if row["kind"] == "validation"]


def _about(options: LearningRulesOptions, splits: Splits) -> str:
    sizes = " → ".join(map(str, (math.prod(splits.train.schema.shape), *options.hidden_sizes)))
    return (
        f"Every rule learns from the same {len(splits.train):,} training examples for {options.epochs} epochs, in "
        f"batches of {options.batch_size} in the same order, with plain steps w ← w − η g. `The layers` are "
        f"{sizes} → {splits.train.schema.num_outputs}, with {options.activation} units and the same first weights."
    )


RECIPE = Recipe(LearningRulesOptions(), build, about="recipes.learning_rules")
