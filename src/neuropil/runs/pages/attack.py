"""The page of an attack on a run's classifier, written beside its report."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from neuropil.adversarial.false_safety import Sign, signs
from neuropil.inspection.report.attack import CLEAN, accuracy_section, pictures_section, signs_section
from neuropil.inspection.report.page import Report, Section, Table, Text, percent, write_report
from neuropil.randomness import seeded
from neuropil.runs.attack import (
    WITHOUT_EPS,
    AttackConfig,
    attack_texts_of,
    attacked,
    classifier_of,
    require_effect,
    require_surrogate,
    robustness_test,
)
from neuropil.runs.run import Run
from neuropil.tasks.classification.attacked import AttackedExamples
from neuropil.tasks.classification.robustness import DRAWN, NORMS
from neuropil.tasks.classification.small_classifier import train_small_classifier
from neuropil.tasks.classification.threats import unit_of, unit_size
from neuropil.tasks.predictor import device_of
from neuropil.tasks.text_classification.predictor import TextClassifier

SHOWN = 6
SUBSTITUTION = "word substitution"
UPDATES = 400
"""Of another model, whose attacked examples are tried too."""
COMPARED = ("fgsm", "pgd")
"""Attacks whose curves are drawn, and which stand beside the one that was asked for."""


class AttackPage(NamedTuple):
    path: Path
    accuracy: dict[str, float]
    """Under each attack."""
    signs: list[Sign]
    """Of false safety; none are known for texts."""


def write_attack(
    run: Run, config: AttackConfig, *, surrogate: Run | None = None, stage: Callable[[str], Callable[[float], object]]
) -> AttackPage:
    """`surrogate` is a run of another model, whose attacked examples are tried too; without it, a small one is trained
    on the same part. `stage` is told what is
    begun, and gives what its progress is shown by."""
    path = run.folder / "attack.html"
    require_effect(config, texts=isinstance(run.predictor, TextClassifier))
    if isinstance(run.predictor, TextClassifier):
        return _write_texts(path, run, run.predictor, config, stage(SUBSTITUTION))
    if surrogate is not None:
        require_surrogate(run, surrogate)
    test, names = robustness_test(run, None, None, config)
    model, limited = run.model, config.method not in WITHOUT_EPS
    asked = attacked(run, test, names, config, progress=stage(config.method))
    accuracy = {CLEAN: asked.accuracy}
    for name in COMPARED:
        if name != config.method:
            accuracy[name] = test.attack(model, name, count=len(names), progress=stage(name)).robust_accuracy
    if limited:
        accuracy[config.method] = asked.robust_accuracy
    curves = {name: test.curve(model, name, progress=stage(f"{name} over ε")) for name in COMPARED}
    few = names[:DRAWN]
    smallest = replace(config, method="minimal", steps=None, restarts=None)
    minimal = attacked(run, test, few, smallest, progress=stage("minimal perturbations")) if limited else asked
    x, y = test.first(DRAWN, model)
    if surrogate is None:
        stage("training another model")
        other = train_small_classifier(test.train, UPDATES, config.seed, device_of(model))
    else:
        other = classifier_of(surrogate).model
    threat, size = test.threat(config.eps), unit_size(test.train.schema)
    shown = {"generator": seeded(config.seed, "signs"), "progress": stage("signs of false safety")}
    found = signs(model, x, y, threat, surrogate=other, unit=size, **shown)
    unit = unit_of(test.train.schema)
    sections = [
        accuracy_section(accuracy, curves, test.radii, config.eps, unit),
        signs_section([(each.name, each.found, each.words) for each in found]),
        *examples_sections(asked, minimal, unit),
    ]
    towards = "" if config.target is None else f" towards the class {config.target}"
    limit = f"by at most ε = {config.eps:g} ({unit})" if limited else "as little as changes the class"
    summary = (
        f"{len(names):,} examples of the held-out part, perturbed{towards} in the {NORMS[config.norm]} norm {limit}."
    )
    write_report(path, Report(f"neuropil · attack on {run.folder.name}", summary, sections))
    return AttackPage(path, accuracy, found)


def _write_texts(
    path: Path, run: Run, classifier: TextClassifier, config: AttackConfig, progress: Callable[[float], object]
) -> AttackPage:
    found = attack_texts_of(run, classifier, None, None, config, progress=progress)
    accuracy = {CLEAN: found.accuracy, SUBSTITUTION: found.robust_accuracy}
    changed = [each for each in found.found if each.before == each.label and each.success]
    shares = [len(each.changed) / len(each.tokens) for each in changed]
    words = (
        f"Of {len(found):,} texts of the held-out part {percent(found.accuracy)} are classified rightly, and "
        f"{percent(found.robust_accuracy)} after words were substituted by near ones of the model's own embedding. "
        "The search is greedy: where it fails, another may not."
    )
    if shares:
        words += f" Where it succeeds, {percent(sum(shares) / len(shares))} of the tokens are substituted."
    rows = [
        [f"{found.classes[each.before]} → {found.classes[each.after]}", found.marked(each)] for each in changed[:SHOWN]
    ]
    sections = [Section.of("Words in place of words", words, Table(["predicted class", "text"], rows))]
    write_report(path, Report(f"neuropil · attack on {run.folder.name}", words, sections))
    return AttackPage(path, accuracy, [])


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
