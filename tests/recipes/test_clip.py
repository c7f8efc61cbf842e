"""CLIP as a user meets it: pictures and captions in, and then pictures that are found by what is on them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from transformers import AutoTokenizer, CLIPModel

import neuropil
from neuropil.cli import main
from neuropil.data.captions.embedded import make_scenes
from neuropil.data.captions.files import CaptionDataConfig, prepare_captions
from neuropil.errors import InputError, RunError
from neuropil.inspection.report.page import Gallery, Picture, Table
from neuropil.models import CLIP
from neuropil.recipes.clip import CLIPOptions, build
from neuropil.runs.open import open as open_model
from neuropil.runs.open import open_able
from neuropil.runs.run import Run
from neuropil.tasks.predictor import Searches
from neuropil.tasks.retrieval.predictor import ImageSearch, Retriever, image_files
from neuropil.tasks.retrieval.scores import likeness, picked
from neuropil.training.history import read_history

SMALL: dict[str, Any] = {
    "vision_width": 16,
    "vision_heads": 2,
    "vision_layers": 1,
    "text_width": 16,
    "text_heads": 2,
    "text_layers": 1,
    "embedding_size": 8,
    "epochs": 1,
    "batch_size": 32,
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
    return neuropil.train(
        "clip", out=tmp_path_factory.mktemp("clip") / "run", scenes=1_100, report=False, show_progress=False, **SMALL
    )


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("own")
    return neuropil.train(
        "clip", data=write_captions(folder), out=folder / "run", report=False, show_progress=False, **SMALL
    )


def matcher(run: Run) -> Retriever:
    assert isinstance(run.predictor, Retriever)
    return run.predictor


def test_the_folder_opens_in_hugging_faces_library_with_equal_similarities(run: Run):
    theirs, tokenizer = CLIPModel.from_pretrained(run.folder).eval(), AutoTokenizer.from_pretrained(run.folder)
    scenes = make_scenes(10, 0, 6).test
    said = json.loads((run.folder / "preprocessor_config.json").read_text())
    mean, std = (torch.tensor(said[name]).view(-1, 1, 1) for name in ("image_mean", "image_std"))
    words = tokenizer(scenes.texts, padding=True, return_tensors="pt")["input_ids"]
    ready = (scenes.pictures * said["rescale_factor"] - mean) / std
    with torch.no_grad():
        expected = theirs(input_ids=words, pixel_values=ready).logits_per_image
        ours = matcher(run).model.compare(
            matcher(run).embed_images(scenes.pictures), matcher(run).embed_texts(scenes.texts)
        )
    torch.testing.assert_close(ours, expected, atol=1e-4, rtol=1e-4)


def test_it_comes_back_in_another_process(run: Run):
    pictures = make_scenes(10, 0, 3).test.pictures
    found = run.predict(pictures)
    assert torch.equal(neuropil.load(run.folder).predict(pictures.numpy()).vectors, found.vectors)
    torch.testing.assert_close(found.vectors.norm(dim=-1), torch.ones(3))
    assert [len(line) for line in found.lines()] == [8] * 3


def test_beside_it_stand_the_words_of_the_nearest_picture_and_a_guess(run: Run):
    assert [result.name for result in run.results] == [
        "clip",
        "words in common with the caption of the nearest training picture",
        "chance",
    ]
    assert set(run.metrics) == {"loss", "text_recall_at_1", "image_recall_at_1"}
    guess = run.results[-1].metrics["text_recall_at_1"]
    assert 0.01 <= guess < 0.03  # one in a hundred, and a little more since some captions are equal


def test_what_is_picked_among_similarities():
    right = torch.tensor([[True, False, True], [False, True, False], [True, False, True]])
    found = picked(torch.tensor([[0.1, 0.2, 0.9], [0.8, 0.3, 0.1], [0.7, 0.4, 0.2]]), right)
    assert found["text_recall_at_1"].tolist() == [1, 0, 1]
    assert found["image_recall_at_1"].tolist() == [0, 0, 1]


def test_likeness_of_texts_is_what_they_share():
    found = likeness(["a two above a one"], ["a two above a one", "a one above a two", "nothing"])
    assert found[0].tolist() == pytest.approx([1.0, (4 + 3) / (4 + 5), 0.0])


def test_the_report_shows_similarities_and_what_was_found(tmp_path: Path):
    experiment = build(CLIPOptions().override(scenes=300, **SMALL), seed=0)
    experiment.train(tmp_path, show_progress=False)
    sections = {
        section.title: section.blocks for section in experiment.sections(read_history(tmp_path / "metrics.jsonl"))
    }
    assert list(sections) == [
        "Training",
        "Similarity",
        "Retrieval",
        "Attention",
        "Parameters",
        "Data",
    ]
    assert any(isinstance(block, Picture) for block in sections["Similarity"])
    assert any(isinstance(block, Gallery) for block in sections["Retrieval"])
    (groups,) = [block for block in sections["Retrieval"] if isinstance(block, Table)]
    assert [row[0] for row in groups.rows] == ["three digits", "two digits"]
    assert sum(int(row[1]) for row in groups.rows) == len(experiment.splits.test)


# --- the user's own ---------------------------------------------------------------------------------------------------


def test_own_captions_are_learned_scored_and_described(own: Run, tmp_path: Path):
    assert own.settings["facts"]["notes"] == [
        "In captions.csv, 'image' names the pictures and 'caption' says what is on them."
    ]
    with pytest.warns(UserWarning, match="^19 of 19 pictures were in the training part of this run.$"):
        assert set(own.evaluate(write_captions(tmp_path, 20))) == {"loss", "text_recall_at_1", "image_recall_at_1"}
    assert matcher(own).model.config.vision.patch == 3  # eight a side


def test_pictures_of_an_odd_size_are_resized(tmp_path: Path):
    for index in range(6):
        Image.fromarray(np.full((19, 13, 3), 40 * index, dtype=np.uint8)).save(tmp_path / f"{index}.png")
    table = tmp_path / "c.tsv"
    table.write_text("file\ttext\n" + "\n".join(f"{index}.png\tnumber {index}" for index in range(6)))
    experiment = build(CLIPOptions().override(data=table, **{**SMALL, "vision_patch": None}), seed=0)
    assert experiment.retriever.model.config.vision.shape == (3, 18, 12)
    assert experiment.splits.train.source.endswith("resized to 18×12 for its patches")


def test_captions_that_lose_their_end_are_counted():
    experiment = build(CLIPOptions().override(scenes=100, **SMALL, text_context=5), seed=0)
    count = sum(len(text.split()) > 3 for text in experiment.splits.train.texts)
    assert experiment.notes[-1] == f"{count} of 85 training captions have more than 5 tokens, and are truncated."


def test_pictures_of_another_shape_are_refused(run: Run):
    with pytest.raises(InputError) as error:
        run.predict(np.zeros((3, 8, 8), dtype=np.uint8))
    assert str(error.value) == "inputs must have the shape (example, 1, 24, 24), but got 3×8×8 values of type uint8."


# --- search -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pictures")
    (folder / "more").mkdir()
    for index, picture in enumerate(make_scenes(10, 0, 7).test.pictures):
        Image.fromarray(picture[0].numpy()).save(folder / ("more" if index % 2 else "") / f"{index}.png")
    return folder


def test_pictures_are_ranked_by_their_similarity_with_a_text(run: Run, pictures: Path):
    search = ImageSearch(matcher(run), [pictures])
    ranking = search.rank("a three left of a seven", top=4)
    u, v = matcher(run).predict(list(search.files)).vectors, matcher(run).embed_texts(["a three left of a seven"])[0]
    best = (u @ v).argsort(descending=True)[:4]
    assert ranking.files == [search.files[int(index)] for index in best]
    assert ranking.scores == pytest.approx((u @ v)[best].tolist(), abs=1e-5)


def test_a_picture_finds_those_like_it_but_not_itself(run: Run, pictures: Path, tmp_path: Path):
    twin = tmp_path / "twin.png"
    twin.write_bytes((pictures / "0.png").read_bytes())
    search = ImageSearch(matcher(run), [pictures, twin])
    ranking = search.rank(str(twin))
    assert ranking.files[0] == pictures / "0.png"
    assert ranking.scores[0] == pytest.approx(1, abs=1e-5)
    assert twin not in ranking.files
    assert len(ranking.files) == 7


def test_texts_can_be_classes(run: Run, pictures: Path):
    said = ImageSearch(matcher(run), [pictures]).classify(["a one", "a two above a one"])
    torch.testing.assert_close(said.scores.sum(-1), torch.ones(7))
    assert said.classes == ("a one", "a two above a one")
    whole = matcher(run).classify_images(make_scenes(10, 0, 7).test.pictures, ["a one", "a two above a one"]).scores
    torch.testing.assert_close(said.scores.sort(0).values, whole.sort(0).values)


def test_the_command_prints_and_writes_a_page(
    run: Run, pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    main(
        [
            "search",
            str(run.folder),
            "a seven",
            "--images",
            str(pictures),
            "--top",
            "2",
            "--out",
            str(tmp_path / "page.html"),
        ]
    )
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == ["similarity", "a seven"]
    expected = ImageSearch(matcher(run), [pictures]).rank("a seven", 2)
    assert [line[1] for line in lines[1:]] == [str(file) for file in expected.files]
    assert [float(line[0]) for line in lines[1:]] == pytest.approx(expected.scores, abs=1e-3)
    page = (tmp_path / "page.html").read_text()
    assert page.count("<img") == 2
    assert "a seven" in page
    main(["search", str(run.folder), "a seven", "a one", "--images", str(pictures), "--classify"])
    assert len(capsys.readouterr().out.splitlines()) == 7


def test_a_hugging_face_folder_is_searched_too(run: Run, pictures: Path, tmp_path: Path):
    CLIPModel.from_pretrained(run.folder).save_pretrained(tmp_path / "theirs")
    for name in ("tokenizer.json", "tokenizer_config.json", "preprocessor_config.json"):
        (tmp_path / "theirs" / name).write_bytes((run.folder / name).read_bytes())
    ours = ImageSearch(open_model(run.folder), [pictures]).rank("a seven")
    theirs = ImageSearch(open_model(tmp_path / "theirs"), [pictures]).rank("a seven")
    assert theirs.files == ours.files
    assert theirs.scores == pytest.approx(ours.scores, abs=1e-4)
    assert isinstance(open_model(run.folder).model, CLIP)


def test_what_cannot_be_searched_is_refused(run: Run, pictures: Path, tmp_path: Path):
    (tmp_path / "notes.txt").write_text("no picture")
    with pytest.raises(InputError) as error:
        image_files([tmp_path / "notes.txt"])
    assert (
        str(error.value)
        == "pictures are read from image files, such as PNG or JPEG, and folders of them, but got notes.txt."
    )
    with pytest.raises(InputError) as error:
        image_files([tmp_path])
    assert str(error.value) == f"a folder to search must hold pictures, but got none in '{tmp_path.as_posix()}'."
    with pytest.raises(InputError) as error:
        image_files([tmp_path / "none.png"])
    assert (
        str(error.value) == f"pictures are read from files that exist, but got '{(tmp_path / 'none.png').as_posix()}'."
    )
    with pytest.raises(InputError) as error:
        image_files([])
    assert str(error.value) == "a search needs pictures to look at, but got none: add --images with a folder or files."
    (tmp_path / "broken.png").write_bytes(b"nothing")
    with pytest.raises(InputError) as error:
        ImageSearch(matcher(run), [tmp_path / "broken.png"])
    assert str(error.value) == (
        f"each image must be readable, but got {tmp_path / 'broken.png'}, which is damaged or no image: mend or "
        "remove it."
    )
    with pytest.raises(InputError) as error:
        ImageSearch(matcher(run), [pictures]).rank(" ")
    assert str(error.value) == "a text must say something, but got an empty one."


def test_a_run_that_does_not_compare_is_refused(tmp_path: Path):
    other = neuropil.train("mlp", out=tmp_path / "run", hidden_sizes=(4,), epochs=1, report=False, show_progress=False)
    with pytest.raises(RunError) as error:
        open_able(other.folder, Searches)
    rule = "this needs a model that searches images by text"
    assert str(error.value) == f"{rule}, but got a run of mlp in {other.folder}: train clip."


@pytest.mark.slow
def test_it_finds_scenes_that_it_has_not_seen(tmp_path: Path):
    run = neuropil.train("clip", out=tmp_path / "run", show_progress=False)
    own, nearest, guess = (result.metrics for result in run.results)
    assert own["text_recall_at_1"] >= 0.95
    assert own["image_recall_at_1"] >= 0.95
    assert own["image_recall_at_1"] > max(nearest["image_recall_at_1"], guess["image_recall_at_1"])
