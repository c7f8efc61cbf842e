"""The captioner as a user meets it: pictures and captions in, sentences out, and a folder that keeps both."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import neuropil
from neuropil.cli import main
from neuropil.data.captions.files import CaptionDataConfig, prepare_captions
from neuropil.errors import InputError
from neuropil.inspection.report.page import Gallery, Picture, Table
from neuropil.protocols import END, START
from neuropil.recipes import recipe
from neuropil.recipes.captioner import CaptionerOptions, build
from neuropil.runs.run import Run
from neuropil.tasks.captioning.experiment import CaptioningExperiment
from neuropil.tasks.captioning.scores import score_captions
from neuropil.training.history import read_history

SMALL: dict[str, Any] = {
    "width": 4,
    "hidden_size": 16,
    "embedding_size": 8,
    "attention_size": 8,
    "epochs": 1,
    "batch_size": 32,
    "max_tokens": 16,
}


def write_captions(folder: Path, count: int = 40) -> Path:
    """Scenes as files, each said twice."""
    scenes = prepare_captions(CaptionDataConfig(scenes=count, validation=0.0, test=0.05), seed=0).train
    lines = ["image,caption"]
    for index, (picture, captions) in enumerate(zip(scenes.pictures, scenes.captions, strict=True)):
        Image.fromarray(picture[0].numpy()).save(folder / f"{index}.png")
        lines += [f"{index}.png,{captions[0]}", f"{index}.png,there is {captions[0]}"]
    path = folder / "captions.csv"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("captioner")
    return neuropil.train("captioner", out=folder / "run", scenes=300, report=False, show_progress=False, **SMALL)


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("own")
    return neuropil.train(
        "captioner",
        data=write_captions(folder),
        out=folder / "run",
        report=False,
        show_progress=False,
        depth=1,
        **SMALL,
    )


def test_the_folder_captions_in_another_process_as_the_run_itself(run: Run):
    pictures = prepare_captions(CaptionDataConfig(scenes=30), seed=1).test.pictures
    said = run.predict(pictures)
    again = neuropil.load(run.folder).predict(pictures.numpy())
    assert again.texts == said.texts
    assert [run.predict(picture).texts for picture in pictures] == [[text] for text in said.texts]
    assert said.lines() == [[text] for text in said.texts]
    assert all(total <= 0 for total in said.log_probabilities)


def test_beside_it_stand_the_same_without_attention_and_two_that_learn_nothing(run: Run):
    own, *others = run.results
    assert own.name == "captioner"
    assert {other.name for other in others} == {
        "the same without attention",
        "the caption of the nearest training picture",
        "the most common caption",
    }
    scores = [other.metrics["bleu"] for other in others]
    assert scores == sorted(scores, reverse=True)
    assert set(run.metrics) == {"exact_accuracy", "bleu", "token_accuracy"}


def test_the_other_one_has_the_same_first_weights_and_batches():
    experiment = build(CaptionerOptions().override(scenes=60, **SMALL), seed=0)
    assert experiment.ablation is not None
    ours, other = experiment.model.state_dict(), experiment.ablation.learner.model.state_dict()
    assert {name for name in ours if name not in other} == {
        f"attention.score.{name}" for name in ("weight", "query.weight", "key.weight")
    }
    assert torch.equal(ours["cnn.stem.weight"], other["cnn.stem.weight"])


def test_without_attention_it_is_compared_with_attention(tmp_path: Path):
    experiment = build(CaptionerOptions().override(scenes=60, attention=False, **SMALL), seed=0)
    assert experiment.ablation is not None
    assert experiment.ablation.name == "the same with attention"
    experiment.train(tmp_path, show_progress=False)
    assert "Attention" not in [
        section.title for section in experiment.sections(read_history(tmp_path / "metrics.jsonl"))[1:]
    ]


def test_the_report_shows_what_it_says_and_where_it_looks(tmp_path: Path):
    experiment = build(CaptionerOptions().override(scenes=100, compare=False, **SMALL), seed=0)
    experiment.train(tmp_path, show_progress=False)
    sections = {
        section.title: section.blocks for section in experiment.sections(read_history(tmp_path / "metrics.jsonl"))
    }
    assert list(sections) == ["Training", "Captions", "Attention", "Parameters", "Data"]
    assert any(isinstance(block, Gallery) for block in sections["Captions"])
    (table,) = [block for block in sections["Captions"] if isinstance(block, Table)]
    assert [row[0] for row in table.rows] == sorted(
        {*experiment.splits.test.groups}, key=experiment.splits.test.groups.index
    )
    assert any(isinstance(block, Picture) for block in sections["Attention"])


def test_looks_are_shares_of_the_grid(run: Run):
    pictures = prepare_captions(CaptionDataConfig(scenes=30), seed=1).test.pictures[:2]
    looks = run.predictor.attention(pictures, ["a seven", "a two above a one"])
    assert [words for words, _ in looks] == [["a", "seven", "◁"], ["a", "two", "above", "a", "one", "◁"]]
    for words, weights in looks:
        assert weights.shape == (len(words), 6, 6)
        torch.testing.assert_close(weights.sum((1, 2)), torch.ones(len(words)))


def test_alternatives_have_the_probabilities_of_one_step_after_the_other(run: Run):
    picture = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (1, 1, 24, 24), dtype=np.uint8))
    words = [*run.predictor.tokenizer.encode(["a six left of a two"])[0], END]
    found = run.predictor.alternatives(picture, "a six left of a two", most=3)
    model: Any = run.model
    with torch.no_grad():
        state = model.begin(picture)
        for before, number, each in zip([START, *words[:-1]], words, found, strict=True):
            shares = model.step(torch.tensor([[before]]), state)[0].softmax(-1)
            assert each.share == pytest.approx(float(shares[number]), abs=1e-5)
            assert [share for _, share in each.alternatives] == pytest.approx(shares.topk(3).values.tolist(), abs=1e-5)


def test_a_caption_does_not_depend_on_the_others_or_on_the_beam_of_one(run: Run):
    pictures = prepare_captions(CaptionDataConfig(scenes=30), seed=1).test.pictures
    writer = run.predictor
    whole = writer.caption(pictures, beam_width=3).texts
    assert whole == [writer.caption(picture[None], beam_width=3).texts[0] for picture in pictures]
    assert writer.caption(pictures, beam_width=1).texts == run.predict(pictures).texts


# --- pictures of the user's -------------------------------------------------------------------------------------------


def test_own_pictures_have_their_own_defaults():
    options = recipe("captioner")
    assert options.defaults(own_data=True) == options.own_data
    assert {option.name: option.default for option in options.defaults(own_data=True).options()}["compare"] is False


def test_predict_prints_a_caption_for_each_picture(own: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    pixels = np.random.default_rng(0).integers(0, 256, (30, 50, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "photo.jpg")
    (tmp_path / "more").mkdir()
    Image.fromarray(pixels).save(tmp_path / "more" / "x.png")
    main(["predict", str(own.folder), str(tmp_path / "photo.jpg"), str(tmp_path / "more")])
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [name for name, _ in lines] == ["photo.jpg", "more/x.png"]
    assert lines[0][1] == own.predict(tmp_path / "photo.jpg").texts[0]


def test_scores_on_the_users_own_captions(own: Run, tmp_path: Path):
    path = write_captions(tmp_path, 20)
    experiment = own.experiment()
    assert isinstance(experiment, CaptioningExperiment)
    scenes = prepare_captions(CaptionDataConfig(scenes=20, validation=0.0, test=0.05), seed=0).train
    said = [[text[0], f"there is {text[0]}"] for text in scenes.captions]
    with pytest.warns(UserWarning, match="^19 of 19 pictures were in the training part of this run.$"):
        assert own.evaluate(path) == score_captions(own.predict(scenes.pictures).texts, said)


def test_a_finished_run_says_what_was_taken_for_what(own: Run):
    facts = json.loads((own.folder / "config.json").read_text())["neuropil"]["facts"]
    assert facts["notes"] == ["In captions.csv, 'image' names the pictures and 'caption' says what is on them."]
    assert facts["source"] == "38 grey images of 24×24 with 76 captions (captions.csv)"


def test_captions_that_are_all_too_long_are_refused(tmp_path: Path):
    with pytest.raises(InputError) as error:
        build(CaptionerOptions().override(data=write_captions(tmp_path), **{**SMALL, "max_tokens": 3}), seed=0)
    assert (
        str(error.value)
        == "training needs captions of at most 3 tokens, but got none: give shorter captions or a larger --max-tokens."
    )


def test_long_captions_are_counted():
    experiment = build(CaptionerOptions().override(scenes=200, **{**SMALL, "max_tokens": 10}), seed=0)
    count = sum(len(text.split()) > 8 for text in experiment.splits.train.texts)
    assert (
        experiment.notes[-1]
        == f"{count} of 170 training captions have more than 10 tokens, and are left out of training."
    )


def test_pictures_of_another_shape_are_refused(run: Run):
    with pytest.raises(InputError) as error:
        run.predict(np.zeros((3, 8, 8), dtype=np.uint8))
    assert str(error.value) == "inputs must have the shape (example, 1, 24, 24), but got 3×8×8 values of type uint8."
    pictures = np.random.default_rng(0).integers(0, 256, (3, 24, 24), np.uint8)
    assert run.predict(pictures / 255).texts == run.predict(pictures).texts


@pytest.mark.slow
def test_it_says_what_it_sees_in_combinations_that_it_has_not_seen(tmp_path: Path):
    run = neuropil.train("captioner", out=tmp_path / "run", show_progress=False)
    own, without, nearest, common = (result.metrics["exact_accuracy"] for result in run.results)
    assert own >= 0.95
    assert own > max(without, nearest, common)
