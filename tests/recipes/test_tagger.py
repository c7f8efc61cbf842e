"""Tagging as a user meets it: tokens and tags in, tags out, and a folder that keeps both."""

from pathlib import Path

import pytest
import torch

import neuropil
from data.written_files import refusal, write_text
from neuropil.cli import main
from neuropil.data.tagged_texts.embedded import make_date_fields
from neuropil.protocols import PADDING
from neuropil.recipes import recipe
from neuropil.runs.run import Run
from neuropil.tasks.tagging.experiment import TaggingExperiment

SMALL = {"hidden_size": 12, "embedding_size": 12, "epochs": 6, "learning_rate": 0.03, "batch_size": 16}
NAMES, VERBS = ("Ada", "Grace", "Emmy", "Alan", "Kurt", "John"), ("sings", "writes", "counts", "proves")
OTHERS = ("numbers", "letters", "songs", "theorems")


def write_tags(path: Path, count: int = 160) -> Path:
    """Who does what: the same word is a subject before the verb, and an object after it."""
    lines = []
    for number in range(count):
        subject, verb = NAMES[number % 6], VERBS[number % 4]
        thing = OTHERS[number // 4 % 4] if number % 3 else NAMES[number // 5 % 6]
        lines += [
            f"{subject}\tSUBJECT",
            f"{verb}\tVERB",
            *([f"good{number}\tWHICH"] if number % 2 else []),
            f"{thing}\tOBJECT",
            ".\tO",
            "",
        ]
    return write_text(path, *lines)


def train_small(folder: Path, **options: object) -> Run:
    data = write_tags(folder / "tags.tsv")
    return neuropil.train(
        "tagger", data=data, out=folder / "run", report=False, show_progress=False, **{**SMALL, **options}
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return train_small(tmp_path_factory.mktemp("tagger"))


TEXTS = ["Ada proves theorems.", "Kurt sings good7777 songs .", "", "Zzz"]


def test_the_folder_tags_in_another_process_as_the_run_itself(run: Run):
    first, again = run.predict(TEXTS), neuropil.load(run.folder).predict(TEXTS)
    assert first == again
    assert first.tokens[0] == ["Ada", "proves", "theorems", "."]
    assert [len(tags) for tags in first.tags] == [4, 5, 0, 1]
    assert run.predict(TEXTS[0]).tags == first.tags[:1]
    assert run.predict([["Ada", "proves", "theorems", "."]]).tags == first.tags[:1]


def test_it_reads_what_is_around_a_word(run: Run):
    assert run.metrics["token_accuracy"] > 0.95
    assert run.predict("Ada writes Emmy .").tags == [["SUBJECT", "VERB", "OBJECT", "O"]]
    assert run.predict("Emmy writes Ada .").tags == [["SUBJECT", "VERB", "OBJECT", "O"]]


def test_a_word_that_was_never_met_is_known_by_its_looks(run: Run):
    assert run.predict("Kurt sings good7777 songs .").tags[0][2] == "WHICH"


def test_tags_do_not_depend_on_the_other_texts(run: Run):
    texts = [*TEXTS, "Ada " * 30]
    assert run.predict(texts).tags == [run.predict(text).tags[0] for text in texts]


@pytest.mark.parametrize(
    "cell", [pytest.param("rnn", marks=pytest.mark.slow), "lstm", pytest.param("gru", marks=pytest.mark.slow), "mingru"]
)
def test_every_cell_learns(tmp_path: Path, cell: str):
    run = train_small(tmp_path, cell=cell)
    assert run.metrics["token_accuracy"] > run.results[2].metrics["token_accuracy"]


def test_results_stand_beside_the_most_frequent_tags(run: Run):
    names = ["tagger", "most frequent tag of a word and its neighbours", "most frequent tag of a word"]
    assert [result.name for result in run.results] == names
    assert all(set(result.metrics) == {"token_accuracy", "exact_accuracy", "f1"} for result in run.results)
    assert run.evaluate() == run.metrics


def test_a_file_of_the_users_is_scored(run: Run, tmp_path: Path):
    path = write_text(
        tmp_path / "more.tsv",
        "Ada proves songs .\tSUBJECT VERB OBJECT O",
        "Alan counts Grace .\tSUBJECT VERB OBJECT VERB",
    )
    scores = run.evaluate(path)
    assert scores["exact_accuracy"] == 0.5
    assert scores["token_accuracy"] == 7 / 8
    assert refusal(run.evaluate, [path, path]) == "tagged texts are one file or folder, but got 2."
    write_text(tmp_path / "odd.tsv", "Ada sings\tSUBJECT VERV")
    assert refusal(run.evaluate, tmp_path / "odd.tsv") == (
        "each tag must be one of the training data, but got 'VERV' in odd.tsv: did you mean 'VERB'?"
    )


def test_predict_prints_each_token_with_its_tag(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = write_text(tmp_path / "texts.txt", "Ada proves theorems.")
    main(["predict", str(run.folder), str(path), "Emmy writes Ada."])
    assert capsys.readouterr().out.splitlines() == [
        "texts.txt line 1\tAda/SUBJECT proves/VERB theorems/OBJECT ./O",
        "Emmy writes Ada.\tEmmy/SUBJECT writes/VERB Ada/OBJECT ./O",
    ]


def test_long_texts_are_read_in_pieces_and_counted(tmp_path: Path):
    run = train_small(tmp_path, max_tokens=4, epochs=1)
    note = run.settings["facts"]["notes"][-1]
    assert note.endswith("training texts have more than 4 tokens, and are read in pieces.")
    pieces = run.predict(["Ada sings songs .", "Emmy writes"]).tags
    assert run.predict("Ada sings songs . Emmy writes").tags == [pieces[0] + pieces[1]]


def test_own_data_has_its_own_defaults():
    options = recipe("tagger")
    assert options.defaults(own_data=True) == options.own_data
    assert options.own_data != options.options


def test_gates_can_be_watched_while_it_reads(run: Run, capsys: pytest.CaptureFixture[str]):
    main(["inspect", str(run.folder), "--gates", TEXTS[0]])
    assert (run.folder / "gates.html").exists()
    assert "reader" in capsys.readouterr().out


def test_letters_of_dates_are_tagged_in_every_direction(tmp_path: Path):
    run = neuropil.train("tagger", hidden_size=16, epochs=1, test=0.05, out=tmp_path / "run", show_progress=False)
    assert run.results[1].name == "most frequent tag of a character and its neighbours"
    tagged = run.predict(["Sonntag, 15. November 2026", "یکشنبه ۱۵ نوامبر ۲۰۲۶"])
    assert ["".join(text) for text in tagged.tokens] == ["Sonntag, 15. November 2026", "یکشنبه ۱۵ نوامبر ۲۰۲۶"]
    assert tagged.lines()[0][0].endswith("2026/year")
    assert tagged.lines()[1][0].endswith("۲۰۲۶/year")
    page = run.report.read_text()
    assert "Predicted tags" in page
    assert page.count('<p dir="auto" style="margin:.35rem 0">') >= 17


@pytest.mark.slow
def test_it_learns_the_fields_of_dates(tmp_path: Path):
    run = neuropil.train("tagger", out=tmp_path / "run", show_progress=False)
    assert run.metrics["exact_accuracy"] > 0.99
    texts = make_date_fields(0, 0, 200, seed=1).test
    assert (
        torch.tensor(
            [
                run.predict([list(text)]).tags[0] == list(tags)
                for text, tags in zip(texts.tokens, texts.tags, strict=True)
            ]
        )
        .double()
        .mean()
        > 0.98
    )


def test_tags_count_by_their_weights_and_padding_does_not(tmp_path: Path):
    data = write_tags(tmp_path / "words.conll")
    own = recipe("tagger").defaults(own_data=True).override(data=data, class_weights=["O=0", "VERB=3"])
    experiment = recipe("tagger").build(own, 0)
    assert isinstance(experiment, TaggingExperiment)
    given = {"O": 0.0, "VERB": 3.0}
    of_tag = torch.tensor([given.get(tag, 1.0) for tag in experiment.tagger.tags])
    train, batch = (next(iter(experiment.batches(part).epoch(0))) for part in ("train", "validation"))
    for each in (train, batch):
        assert torch.equal(each["weight"], of_tag[each["target"]] * (each["input"] != PADDING))
    assert "weight" not in next(iter(experiment.batches("test").epoch(0)))
    experiment.model.eval()
    loss = experiment.learner.phases()[0].loss(batch)
    logits = experiment.model(batch["input"]).mT
    target = batch["target"].masked_fill(batch["input"] == PADDING, -100)
    torch.testing.assert_close(loss, torch.nn.CrossEntropyLoss(weight=of_tag)(logits, target))
    assert "Weights of the classes in the loss: " in " ".join(experiment.notes)
