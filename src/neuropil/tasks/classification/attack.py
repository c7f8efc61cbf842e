"""Attacks on classifiers of pictures and rows, and what they make of examples: to look at, to keep, and to measure a
model by."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from einops import rearrange
from jaxtyping import Float, UInt8
from torch import Tensor

from neuropil.adversarial.attacks import SMALLEST, AdversarialExamples, AttackName
from neuropil.adversarial.false_safety import signs
from neuropil.adversarial.threat_model import Norm
from neuropil.adversarial.word_substitution import SubstitutionConfig
from neuropil.data.examples.dataset import Examples, Schema, restored
from neuropil.data.splits import Splits
from neuropil.errors import InputError
from neuropil.files import replacing
from neuropil.inspection.report.attack import CLEAN, accuracy_section, pictures_section, signs_section
from neuropil.inspection.report.page import Section, Table, Text
from neuropil.randomness import seeded
from neuropil.tasks.attack import AttackConfig, Attacker, AttackReport, BeginStage, Progress, class_numbers
from neuropil.tasks.classification.predictor import ExamplePredictor
from neuropil.tasks.classification.robustness import DRAWN, NORMS, RobustnessTest
from neuropil.tasks.classification.small_classifier import train_small_classifier
from neuropil.tasks.classification.threats import WHITE, feature_units, require_classes, unit_of, unit_size
from neuropil.tasks.generated_examples import PICTURES, GeneratedExamples, require_savable
from neuropil.tasks.predictor import as_examples, as_paths, device_of

SHOWN = 6
UPDATES = 400
"""Of another model, whose attacked examples are tried too."""
COMPARED: tuple[AttackName, ...] = ("fgsm", "pgd")
"""Attacks whose curves are drawn, and which stand beside the one that was asked for."""
OF_TEXTS = [each.name for each in SubstitutionConfig().options()]
RESERVED = ("name", "generator", "progress", "batch_size")
GREY = 127.5


@dataclass(frozen=True)
class AttackedExamples:
    """`distance` of each is in units of ε: pixels from 0 to 1, or standard deviations of columns."""

    found: AdversarialExamples
    schema: Schema
    names: Sequence[str]
    method: str
    norm: Norm

    def __len__(self) -> int:
        return len(self.names)

    @property
    def natural_risk(self) -> float:
        """R(f): the share that is misclassified as it is."""
        return 1 - self.found.clean_accuracy

    @property
    def robust_risk(self) -> float:
        """R_rob(f), as far as this attack finds it."""
        return 1 - self.found.robust_accuracy

    @property
    def accuracy(self) -> float:
        return self.found.clean_accuracy

    @property
    def robust_accuracy(self) -> float:
        return self.found.robust_accuracy

    @property
    def distance(self) -> Float[Tensor, " example"]:
        return self.found.distance.cpu() / unit_size(self.schema)

    @property
    def labels(self) -> list[str]:
        return [self.schema.classes[number] for number in self.found.labels.tolist()]

    @property
    def before(self) -> list[str]:
        """Predicted classes of the originals."""
        return [self.schema.classes[number] for number in self.found.predicted_before.tolist()]

    @property
    def after(self) -> list[str]:
        """Predicted classes of what the attack made of them."""
        return [self.schema.classes[number] for number in self.found.predicted_after.tolist()]

    @property
    def perturbed(self) -> Tensor:
        """As the model saw them: pictures as floats from 0 to 255, rows as the data has them."""
        return restored(self.found.perturbed.cpu(), self.schema)

    @property
    def header(self) -> list[str]:
        return ["predicted class", "outcome", f"{NORMS[self.norm]} distance ({unit_of(self.schema)})"]

    def lines(self) -> list[list[str]]:
        return [
            [f"{before} → {after}", "fooled" if success else "not fooled", f"{distance:.3g}"]
            for before, after, success, distance in self._rows()
        ]

    def records(self) -> list[dict[str, Any]]:
        return [
            {"before": before, "after": after, "fooled": success, "distance": distance}
            for before, after, success, distance in self._rows()
        ]

    def _rows(self) -> Sequence[tuple[str, str, bool, float]]:
        success, distance = self.found.success.tolist(), self.distance.tolist()
        return list(zip(self.before, self.after, success, distance, strict=True))

    def triples(self, chosen: Sequence[int]) -> UInt8[Tensor, "picture channel height width"]:
        """Of pictures, in turn: the original, the perturbation, amplified about grey, and the result, in shades that a
        picture file can hold."""
        index = torch.tensor(chosen, dtype=torch.long)
        original, perturbed = self.found.original.cpu()[index], self.found.perturbed.cpu()[index]
        factor = rearrange(torch.from_numpy(self.amplification(chosen)).float(), "picture -> picture 1 1 1")
        shown = GREY + (perturbed - original) * factor
        three = torch.stack([original, shown, perturbed], 1).flatten(0, 1)
        return three.round().clamp(0, WHITE).to(torch.uint8)

    def amplification(self, chosen: Sequence[int]) -> Float[np.ndarray, " picture"]:
        """By how much perturbations are drawn stronger than they are."""
        largest = (self.found.perturbed - self.found.original).abs().flatten(1).amax(1).cpu().double().numpy()
        found = largest[list(chosen)]
        return np.where(found > 0, GREY / np.where(found > 0, found, 1), 1)

    def largest_changes(self, index: int, most: int = 3) -> str:
        """Of a row: the columns that changed most, in units of ε."""
        original, changed = (restored(each.cpu()[index : index + 1], self.schema)[0] for each in self._both)
        names = [name for column in self.schema.columns for name in column.value_features]
        names = names or [f"feature {number}" for number in range(len(original))]
        order = (changed - original).abs().argsort(descending=True)[:most].tolist()
        return ", ".join(f"{names[i]} {original[i]:.6g} → {changed[i]:.6g}" for i in order if original[i] != changed[i])

    @property
    def _both(self) -> tuple[Tensor, Tensor]:
        return self.found.original, self.found.perturbed

    def save(self, path: str | Path) -> Path:
        """Pictures as a grid (.png, .jpg, .webp), in each row an original, its perturbation and the result; or arrays
        (.npz): originals, perturbed (as floats, as the model saw them) and class names."""
        path = Path(path)
        require_savable(path)
        if path.suffix.lower() not in (".npz", ".npy"):
            return GeneratedExamples(self.triples(range(len(self))), self.schema, columns=3).save(path)
        with replacing(path) as part, part.open("wb") as file:
            if path.suffix.lower() == ".npy":
                np.save(file, self.perturbed.numpy())
            else:
                classes = {"y": np.array(self.labels), "before": np.array(self.before), "after": np.array(self.after)}
                x, original = self.perturbed.numpy(), restored(self.found.original.cpu(), self.schema).numpy()
                np.savez_compressed(file, allow_pickle=False, x=x, original=original, **classes)
        return path


# --- how they are made ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ExampleAttacker:
    """An `Attacker`."""

    predictor: ExamplePredictor

    @property
    def schema(self) -> Schema:
        return self.predictor.schema

    def attack(
        self,
        inputs: Any,
        labels: Any,
        config: AttackConfig,
        *,
        progress: Progress = None,
        **options: Any,
    ) -> AttackedExamples:
        config.require_effect(OF_TEXTS, "pictures and rows")
        require_classes(self.schema, "inputs")
        target = config.target_number(self.schema.classes)
        paths = as_paths(inputs)
        values, names = self.predictor.read(paths) if paths is not None else (inputs, [])
        values = as_examples(values, self.schema)
        if labels is None:
            targets = self.predictor.predict_examples(values).scores.argmax(-1)
        else:
            targets = torch.tensor(class_numbers(labels, self.schema.classes, len(values)))
        examples = Examples(values, targets, self.schema, "inputs")
        test = RobustnessTest(examples, self.predictor.units, config.norm, config.eps, config.seed, target)
        names = names or [f"input {number}" for number in range(len(values))]
        return self._attacked(test, names, config, progress, **options)

    def attack_held_out(
        self, splits: Splits[Any], config: AttackConfig, *, progress: Progress = None, **options: Any
    ) -> AttackedExamples:
        config.require_effect(OF_TEXTS, "pictures and rows")
        test = self._held_out(splits, config)
        return self._attacked(test, numbered(test), config, progress, **options)

    def report(
        self, splits: Splits[Any], config: AttackConfig, *, surrogate: Attacker | None, stage: BeginStage
    ) -> AttackReport:
        """Without a surrogate, a small one is trained on the training part."""
        config.require_effect(OF_TEXTS, "pictures and rows")
        test, model, limited = self._held_out(splits, config), self.predictor.model, config.method not in SMALLEST
        names = numbered(test)
        asked = self._attacked(test, names, config, stage(config.method))
        accuracy = {CLEAN: asked.accuracy}
        for name in COMPARED:
            if name != config.method:
                accuracy[name] = test.attack(model, name, count=len(names), progress=stage(name)).robust_accuracy
        if limited:
            accuracy[config.method] = asked.robust_accuracy
        curves = {name: test.curve(model, name, progress=stage(f"{name} over ε")) for name in COMPARED}
        smallest = replace(config, method="minimal", steps=None, restarts=None)
        minimal = asked
        if limited:
            minimal = self._attacked(test, names[:DRAWN], smallest, stage("minimal perturbations"))
        x, y = test.first(DRAWN, model)
        if surrogate is None:
            stage("training another model")
            other = train_small_classifier(splits.train, UPDATES, config.seed, device_of(model))
        else:
            other = cast(ExampleAttacker, surrogate).predictor.model
        threat, size, unit = test.threat(config.eps), unit_size(self.schema), unit_of(self.schema)
        shown = {"generator": seeded(config.seed, "signs"), "progress": stage("signs of false safety")}
        found = signs(model, x, y, threat, surrogate=other, unit=size, **shown)
        sections = [
            accuracy_section(accuracy, curves, test.radii, config.eps, unit),
            signs_section([(each.name, each.found, each.words) for each in found]),
            *examples_sections(asked, minimal, unit),
        ]
        towards = "" if config.target is None else f" towards the class {config.target}"
        limit = f"by at most ε = {config.eps:g} ({unit})" if limited else "as little as changes the class"
        norm = NORMS[config.norm]
        summary = f"{len(names):,} examples of the held-out part, perturbed{towards} in the {norm} norm {limit}."
        return AttackReport(summary, sections, accuracy, found)

    def require_surrogate(self, surrogate: Attacker, folder: Path, own_folder: Path) -> None:
        own, other = self.schema, surrogate.schema if isinstance(surrogate, ExampleAttacker) else None
        shape, classes = ("texts", []) if other is None else (list(other.shape), list(other.classes))
        for what, mine, others in (("inputs", list(own.shape), shape), ("classes", list(own.classes), classes)):
            if mine != others:
                got = f"{others} in {folder} for {mine} in {own_folder}"
                raise InputError(f"the surrogate must have the {what} of the attacked model", got=got)

    def require_output(self, path: Path) -> None:
        require_savable(path)
        if path.suffix.lower() in PICTURES and self.schema.kind != "image":
            raise InputError("a grid is drawn of pictures", got="rows", fix="give --out a name that ends in .npz")

    def _held_out(self, splits: Splits[Any], config: AttackConfig) -> RobustnessTest:
        test, target = splits.test, config.target_number(self.schema.classes)
        few = test.take(torch.arange(min(config.count, len(test))))
        return RobustnessTest(few, feature_units(splits.train), config.norm, config.eps, config.seed, target)

    def _attacked(
        self, test: RobustnessTest, names: Sequence[str], config: AttackConfig, progress: Progress, **options: Any
    ) -> AttackedExamples:
        for name in options:
            if name in RESERVED:
                fix = "see neuropil attack --help"
                raise InputError(f"{name} is not an option of an attack", got=f"{name}=", fix=fix)
        options = {**config.given, **options, "count": len(names), "progress": progress}
        search = test.minimal if config.method in SMALLEST else test.attack
        found = search(self.predictor.model, config.method, **options)
        return AttackedExamples(found, self.schema, names, config.method, config.norm)


def numbered(test: RobustnessTest) -> list[str]:
    return [f"example {number}" for number in range(len(test.examples))]


def examples_sections(asked: AttackedExamples, minimal: AttackedExamples, unit: str) -> list[Section]:
    """Some that the attack fooled; and of those that are classified rightly, the nearest to another class and the
    farthest from it."""
    right = [index for index, each in enumerate(minimal.before) if each == minimal.labels[index]]
    distance, fooled = minimal.distance.tolist(), minimal.found.success.tolist()
    order = sorted(right, key=lambda index: (not fooled[index], distance[index]))
    pairs = zip(asked.before, asked.after, strict=True)
    changed = [index for index, (before, after) in enumerate(pairs) if before != after]
    never = sum(not fooled[index] for index in right)
    toughest = "Those that need the largest perturbation to be classified differently, the toughest first."
    if never:
        toughest += f" {never:,} of {len(right):,} could not be changed at all."
    return [
        section
        for title, words, found, chosen in (
            ("Attacked examples", "Examples whose predicted class the attack changed.", asked, changed[:SHOWN]),
            (
                "The most fragile examples",
                f"Those whose predicted class the smallest perturbation changes; its size is in {unit}.",
                minimal,
                order[:SHOWN],
            ),
            ("The toughest examples", toughest, minimal, order[::-1][:SHOWN]),
        )
        for section in [examples_section(title, words, found, chosen)]
        if chosen
    ]


def examples_section(title: str, words: str, found: AttackedExamples, chosen: Sequence[int]) -> Section:
    classes = [(found.before[index], found.after[index]) for index in chosen]
    sizes = [f"{NORMS[found.norm]} {found.distance[index].item():.3g}" for index in chosen]
    if found.schema.kind == "image":
        factors = found.amplification(chosen).tolist()
        return pictures_section(title, words, found.triples(chosen), classes, sizes, factors)
    rows = [
        [found.names[index], f"{before} → {after}", size, found.largest_changes(index)]
        for index, (before, after), size in zip(chosen, classes, sizes, strict=True)
    ]
    return Section(title, [Text(words), Table(["row", "predicted class", "size", "largest changes"], rows)])
