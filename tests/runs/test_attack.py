"""Attacks on runs: pictures, rows and texts, of the held-out part and of the user's."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import neuropil
from neuropil.adversarial import minimal
from neuropil.adversarial.attacks import ATTACKS
from neuropil.cli import main
from neuropil.data.examples.embedded import load_digits
from neuropil.errors import NeuropilError
from neuropil.runs.run import Run
from neuropil.tasks.classification.attack import AttackedExamples
from neuropil.tasks.text_classification.attack import AttackedTexts

QUIET: dict[str, Any] = {"show_progress": False, "report": False, "seed": 0}


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return neuropil.train("mlp", hidden_sizes=(32,), updates=200, out=tmp_path_factory.mktemp("a") / "run", **QUIET)


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("b")
    generator = np.random.default_rng(0)
    height, weight = generator.normal(170, 10, 200), generator.normal(70, 12, 200)
    lines = [
        f"{h:.1f},{w:.1f},{'red' if n % 2 else 'blue'},{'tall' if h > 170 else 'short'}"
        for n, (h, w) in enumerate(zip(height, weight, strict=True))
    ]
    (folder / "people.csv").write_text("\n".join(["height,weight,colour,kind", *lines]) + "\n")
    return neuropil.train(
        "mlp", data=folder / "people.csv", target="kind", hidden_sizes=(8,), updates=150, out=folder / "run", **QUIET
    )


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Run:
    generator = np.random.default_rng(0)
    moods = {"praise": ["good", "great", "fine", "moving"], "blame": ["bad", "dull", "poor", "awful"]}
    things = ["film", "story", "music", "cast", "end"]
    said, labels = [], []
    for number in range(120):
        label = ("praise", "blame")[number % 2]
        said.append(" ".join(f"{generator.choice(moods[label])} {generator.choice(things)}" for _ in range(4)))
        labels.append(label)
    few = {"hidden_size": 8, "embedding_size": 8, "updates": 60}
    folder = tmp_path_factory.mktemp("c") / "run"
    return neuropil.train("text_classifier", data=(said, labels), out=folder, **few, **QUIET)


def attacked(run: Run, *arguments: Any, **options: Any) -> AttackedExamples:
    found = run.attack(*arguments, **options)
    assert isinstance(found, AttackedExamples)
    return found


def test_the_held_out_part_is_attacked_and_its_risks_are_known(pictures: Run):
    found = attacked(pictures, eps=0.2, count=40, steps=5)
    assert len(found) == 40
    clean = pictures.predict(found.found.original.byte()).labels
    moved = pictures.model(found.perturbed).argmax(-1).tolist()
    right = [label == guess for label, guess in zip(found.labels, clean, strict=True)]
    assert found.natural_risk == pytest.approx(1 - np.mean(right))
    still = [right and found.labels[i] == found.schema.classes[moved[i]] for i, right in enumerate(right)]
    assert found.robust_risk == pytest.approx(1 - np.mean(still))
    assert found.robust_risk > found.natural_risk + 0.2
    assert found.distance.max() <= 0.2 + 1e-6


def test_epsilon_of_rows_is_in_standard_deviations_and_categories_stay(rows: Run):
    found = attacked(rows, eps=0.5, count=20, steps=10)
    change = (found.perturbed - found.found.original).abs()
    assert change[:, :2].amax(0).tolist() == pytest.approx([5, 6], rel=0.2)
    assert not change[:, 2:].any()
    assert found.robust_risk > found.natural_risk


def test_words_are_substituted_where_texts_are_classified(texts: Run):
    found = texts.attack(["good film and fine story", "dull music"], words=1.0, similarity=-1.0)
    assert isinstance(found, AttackedTexts)
    assert [record["before"] for record in found.records()] == texts.classify(found.names).labels
    for record, each in zip(found.records(), found.found, strict=True):
        assert record["fooled"] == (record["before"] != record["after"])
        assert len(each.tokens) == len(each.original)
    assert found.accuracy == 1  # labels are what the model predicts


def test_grids_have_a_row_of_three_and_arrays_what_the_model_saw(pictures: Run, tmp_path: Path):
    found = attacked(pictures, count=4, eps=0.1, steps=2)
    with Image.open(found.save(tmp_path / "grid.png")) as grid:
        assert grid.size == (3 * 66 + 2, 4 * 66 + 2)
    arrays = np.load(found.save(tmp_path / "arrays.npz"))
    np.testing.assert_array_equal(arrays["x"], found.perturbed.numpy())
    np.testing.assert_array_equal(arrays["original"], found.found.original.numpy())
    assert arrays["y"].tolist() == found.labels


def test_perturbations_are_drawn_about_grey_at_full_strength(pictures: Run):
    found = attacked(pictures, count=3, eps=0.1, steps=2)
    original, change, result = found.triples([1])
    assert original.tolist() == found.found.original[1].byte().tolist()
    assert int(change.min()) <= 1 or int(change.max()) >= 254
    assert (result.float() - found.found.perturbed[1]).abs().max() <= 0.5


def test_inputs_with_labels_count_as_wrong_where_the_model_is(pictures: Run):
    digits = load_digits()
    wrong = [str((int(label) + 1) % 10) for label in digits.targets[:5]]
    found = attacked(pictures, digits.inputs[:5], wrong, eps=0.01, steps=1)
    assert found.accuracy < 0.5
    assert torch.equal(found.found.perturbed, found.found.original)


@pytest.mark.parametrize(
    "given",
    [
        lambda y: y,
        lambda y: y.float(),
        lambda y: y.numpy().astype(np.int16),
        lambda y: y.double().numpy(),
        lambda y: y.tolist(),
        lambda y: list(y),
        lambda y: [str(number) for number in y.tolist()],
    ],
)
def test_labels_may_be_tensors_arrays_and_lists_of_numbers(pictures: Run, given: Callable[[torch.Tensor], Any]):
    digits = load_digits()
    found = attacked(pictures, digits.inputs[:5], given(digits.targets[:5]), eps=0.01, steps=1)
    assert found.labels == [str(number) for number in digits.targets[:5].tolist()]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": "12"}, "a class must be one that the model knows, but got '12': did you mean '1'?"),
        ({"words": 0.5}, "--words has no effect on pictures and rows: leave it out."),
        (
            {"momentumm": 1},
            "an option must be one of the attack's, but got 'momentumm': did you mean 'momentum'?",
        ),
        ({"eps": 0.0}, "eps must be above 0, but got 0.0."),
        ({"eps": 2.0}, "ε of pictures counts from 0 to 1, but got 2: divide shades by 255."),
        ({"generator": 0}, "generator is not an option of an attack, but got generator=: see neuropil attack --help."),
        ({"labels": torch.tensor([1.5, 2])}, "a class must be one that the model knows, but got '1.5': "),
        ({"labels": torch.eye(2)}, "a class must be one that the model knows, but got '[1.0, 0.0]': "),
        ({"labels": ["1"]}, "there must be a label for each input, but got 1 for 2 inputs."),
    ],
)
def test_what_cannot_be_attacked_gets_one_sentence(pictures: Run, options: dict[str, Any], message: str):
    labels = options.pop("labels", None)
    with pytest.raises(NeuropilError) as error:
        pictures.attack(load_digits().inputs[:2], labels, **options)
    assert str(error.value).startswith(message)


@pytest.mark.parametrize(
    ("inputs", "labels", "message"),
    [
        (None, ["1"], "labels are those of inputs, but got labels alone: give the inputs too."),
        (
            torch.zeros(0, 1, 8, 8, dtype=torch.uint8),
            None,
            "inputs must be images or rows of features, but got 0×1×8×8 values of type uint8.",
        ),
        (np.zeros((1, 8, 8), np.uint8), "1", "labels must be a list of classes, but got '1': give one for each input."),
    ],
)
def test_inputs_and_labels_belong_together(pictures: Run, inputs: Any, labels: Any, message: str):
    with pytest.raises(NeuropilError) as error:
        pictures.attack(inputs, labels)
    assert str(error.value) == message


def test_searches_for_the_smallest_have_their_own_steps(pictures: Run, monkeypatch: pytest.MonkeyPatch):
    taken: list[int] = []
    original = minimal.deepfool

    def watched(classifier: Any, ball: Any, y: Any, threat: Any, config: minimal.MinimalConfig) -> Any:
        taken.append(config.steps)
        return original(classifier, ball, y, threat, config)

    monkeypatch.setattr(minimal, "deepfool", watched)
    attacked(pictures, method="deepfool", count=3)
    assert taken == [ATTACKS["deepfool"].stages[0].config.to_dict()["steps"]]


def test_a_page_of_l2_reaches_beyond_white(pictures: Run, capsys: pytest.CaptureFixture[str]):
    main(["attack", str(pictures.folder), "--norm", "l2", "--eps", "2", "--count", "10", "--steps", "2"])
    assert capsys.readouterr().out.splitlines()[-1] == str(pictures.folder / "attack.html")


def test_texts_of_the_target_class_are_not_counted_as_fooled(texts: Run):
    said = ["good film and fine story", "dull music"]
    found = texts.attack(said, target="praise", similarity=1.0)
    assert isinstance(found, AttackedTexts)
    assert [each.success for each in found.found] == [False, False]
    assert found.robust_accuracy == 1


def test_only_classifiers_are_attacked(tmp_path: Path):
    few = {
        "epochs": 1,
        "hidden_size": 4,
        "classifier_updates": 1,
        "scored_samples": 2,
        "walks": 2,
        "annealing_steps": 1,
    }
    run = neuropil.train("rbm", out=tmp_path / "run", **few, **QUIET)
    with pytest.raises(NeuropilError) as error:
        run.attack()
    assert str(error.value) == (
        f"an attack needs a classifier of pictures, rows or texts, but got a run of rbm in {run.folder}: train the "
        "cnn, or the mlp for a table."
    )


def test_options_of_pictures_are_refused_for_texts(texts: Run):
    given: list[dict[str, Any]] = [{"eps": 0.3}, {"momentum": 0.5}]
    for options in given:
        with pytest.raises(NeuropilError) as error:
            texts.attack(["a text"], **options)
        (name,) = options
        assert str(error.value) == f"--{name} has no effect on texts, whose words are substituted: leave it out."
    with pytest.raises(NeuropilError) as error:
        texts.attack([])
    assert str(error.value) == "an attack needs texts, but got none: leave them out to attack the held-out part."


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["ROWS", "--out", "rows.png"],
            "a grid is drawn of pictures, but got rows: give --out a name that ends in .npz.",
        ),
        (
            ["TEXTS", "--out", "a.npz"],
            "attacked pictures and rows are written to files, but got texts: take what is printed, or --json.",
        ),
        (
            ["PICTURES", "--surrogate", "ROWS"],
            "the surrogate must have the inputs of the attacked model, but got [4] in ROWS for [1, 8, 8] in PICTURES.",
        ),
        (
            ["TEXTS", "--surrogate", "TEXTS"],
            "--surrogate has no effect on texts, whose words are substituted: leave it out.",
        ),
        (
            ["TEXTS", "a text", "--minimal"],
            "--minimal (--method minimal) has no effect on texts, whose words are substituted: leave it out.",
        ),
        (
            ["TEXTS", "a text", "--method", "fgsm"],
            "--method has no effect on texts, whose words are substituted: leave it out.",
        ),
        (
            ["PICTURES", "--out", "a.png", "--surrogate", "PICTURES"],
            "--surrogate is for the page on the held-out part, but got inputs or --out: leave out the inputs and "
            "--out.",
        ),
    ],
)
def test_what_cannot_be_done_is_refused_before_the_attack(
    pictures: Run, rows: Run, texts: Run, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
):
    folders = {"PICTURES": str(pictures.folder), "ROWS": str(rows.folder), "TEXTS": str(texts.folder)}
    with pytest.raises(SystemExit) as exit:
        main(["attack", *(folders.get(word, word) for word in words)])
    assert exit.value.code == 2
    for name, folder in folders.items():
        message = message.replace(name, folder)
    assert capsys.readouterr().err.strip() == f"neuropil: {message}"


@pytest.fixture(scope="module")
def table() -> tuple[np.ndarray, np.ndarray]:
    """The second column counts in hundreds; the first decides."""
    rows = np.random.default_rng(0).normal([0, 500], [1, 100], (200, 2))
    return rows, np.where(rows[:, 0] > 0, "up", "down")


@pytest.fixture(scope="module")
def in_memory(table: tuple[np.ndarray, np.ndarray], tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("d") / "run"
    return neuropil.train("mlp", data=table, hidden_sizes=(8,), updates=100, out=folder, **QUIET)


def test_rows_of_a_run_that_was_trained_in_memory_are_attacked(in_memory: Run, table: tuple[np.ndarray, np.ndarray]):
    rows, labels = table
    found = attacked(neuropil.load(in_memory.folder), rows, labels, eps=0.5, steps=10)
    train: Any = in_memory.experiment(table)
    units = train.splits.train.inputs.std(0, correction=0)
    change = (found.found.perturbed - found.found.original).abs().amax(0)
    assert (change / units).tolist() == pytest.approx([0.5, 0.5], rel=1e-3)
    assert found.robust_risk > found.natural_risk + 0.1
    outside = torch.tensor([[0.1, 10_000.0]])  # beyond the range of the training part
    assert attacked(in_memory, outside, ["up"], eps=0.5).found.perturbed[0, 1] <= 10_000


def test_what_a_run_does_not_hold_must_be_given(in_memory: Run, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as exit:
        main(["attack", str(in_memory.folder)])
    assert exit.value.code == 2
    assert capsys.readouterr().err.strip() == (
        f"neuropil: {in_memory.folder} does not hold its data, which was in memory, but got no inputs: give inputs "
        "with their classes, as in run.attack(X, y)."
    )


def test_a_run_from_before_units_were_recorded_is_opened_and_says_what_is_missing(rows: Run):
    settings = {**rows.settings, "facts": {k: v for k, v in rows.settings["facts"].items() if k != "feature_units"}}
    older = Run(rows.folder, settings)
    assert attacked(older, count=5, steps=2).found.original.shape == (5, 4)
    with pytest.raises(NeuropilError) as error:
        older.attack(np.array([[170.0, 70.0, 1.0, 0.0]]))
    assert str(error.value) == (
        "an attack on rows needs the ranges of their columns in training, but got a run from before they were "
        "recorded: train again."
    )


# --- as it is typed ---------------------------------------------------------------------------------------------------


def test_the_command_writes_a_page_and_prints_accuracies(pictures: Run, capsys: pytest.CaptureFixture[str]):
    main(["attack", str(pictures.folder), "--eps", "0.1", "--count", "20", "--steps", "4"])
    out = capsys.readouterr().out.splitlines()
    assert [line.split("\t")[0] for line in out[:4]] == ["attack", "no attack", "fgsm", "pgd"]
    assert out[-1] == str(pictures.folder / "attack.html")
    page = (pictures.folder / "attack.html").read_text()
    for title in ("Accuracy under attack", "Signs of false safety", "The most fragile examples", "The toughest"):
        assert title in page


def test_the_command_answers_for_files(pictures: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    Image.fromarray(load_digits().inputs[0, 0].numpy()).save(tmp_path / "zero.png")
    main(["attack", str(pictures.folder), str(tmp_path / "zero.png"), "--minimal", "--out", str(tmp_path / "a.png")])
    header, line = capsys.readouterr().out.strip().split("\n")
    assert header.split("\t") == ["input", "predicted class", "outcome", "L∞ distance (pixels from 0 to 1)"]
    name, classes, fooled, _ = line.split("\t")
    assert (name, classes[:4], fooled) == ("zero.png", "0 → ", "fooled")
    assert (tmp_path / "a.png").exists()


def test_the_command_answers_for_texts(texts: Run, capsys: pytest.CaptureFixture[str]):
    main(["attack", str(texts.folder), "good film and fine story", "--words", "1.0", "--json"])
    assert json.loads(capsys.readouterr().out)["input"] == "good film and fine story"
    main(["attack", str(texts.folder), "good film and fine story", "--words", "1.0"])
    header, line = capsys.readouterr().out.strip().split("\n")
    assert header.split("\t") == ["input", "predicted class", "outcome", "substituted words"]
    assert line.startswith("good film and fine story\t")
