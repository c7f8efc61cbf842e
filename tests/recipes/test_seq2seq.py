"""Recurrent translation as a user meets it: the Transformer's commands, another model behind them."""

import shutil
from pathlib import Path

import pytest
import torch

import neuropil
from neuropil.cli import main
from neuropil.errors import RunError
from neuropil.recipes import recipe
from neuropil.runs.run import Run
from neuropil.tasks.translation.report import by_length
from tasks.translated_dates import write_pairs

SMALL = {
    "hidden_size": 16,
    "embedding_size": 8,
    "layers": 1,
    "epochs": 2,
    "batch_size": 64,
    "tokens": "characters",
    "dropout": 0.0,
}


def train_small(folder: Path, **options: object) -> Run:
    data = write_pairs(folder / "pairs.tsv")
    return neuropil.train("seq2seq", data=data, out=folder / "run", show_progress=False, **{**SMALL, **options})


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return train_small(tmp_path_factory.mktemp("seq2seq"))


@pytest.fixture(scope="module")
def without_attention(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return train_small(tmp_path_factory.mktemp("none"), attention="none", cell="lstm", shared_vocabulary=False)


def test_the_folder_translates_in_another_process_as_the_run_itself(run: Run):
    texts = ["5 November 2026", "2026年11月5日", ""]
    again = neuropil.load(run.folder).translate(texts)
    assert again == run.translate(texts)
    assert again[2] == ""
    assert again[:2] == [run.translate(text) for text in texts[:2]]
    assert run.translate(texts, beam=3) == [run.translate(text, beam=3) for text in texts]


def test_a_run_that_has_lost_one_of_its_two_vocabularies_does_not_translate_by_the_other(
    without_attention: Run, tmp_path: Path
):
    folder = Path(shutil.copytree(without_attention.folder, tmp_path / "run"))
    assert neuropil.load(folder).translate("5 November 2026") == without_attention.translate("5 November 2026")
    (folder / "tokenizer-target.json").unlink()
    with pytest.raises(RunError) as error:
        neuropil.load(folder).translate("5 November 2026")
    assert str(error.value) == (
        f"{folder}/tokenizer-target.json must be the tokenizer that neuropil wrote, but got no such file: "
        "train again or restore it."
    )


def test_looking_at_a_translation_gives_the_weights_of_the_decoder(run: Run):
    alignment = run.predictor.align("5 Nov 2026")
    (cross,) = alignment.maps
    assert cross.name == "decoder.cross"
    assert list(cross.keys) == [*"5 Nov 2026", "◁"]
    assert cross.queries[-1] == "◁"
    torch.testing.assert_close(torch.as_tensor(cross.weights).sum(-1), torch.ones(1, len(cross.queries)))


def test_translate_writes_a_page_that_shows_where_it_looked(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    page = tmp_path / "looked.html"
    main(["translate", str(run.folder), "5 November 2026", "٥ نوفمبر ٢٠٢٦", "--beam", "2", "--attention", str(page)])
    assert page.read_text(encoding="utf-8").count("<neuropil-alignment") == 2
    assert capsys.readouterr().out.splitlines() == run.translate(["5 November 2026", "٥ نوفمبر ٢٠٢٦"], beam=2)


def test_the_report_shows_where_it_looks_and_what_length_costs(run: Run):
    page = run.report.read_text(encoding="utf-8")
    assert page.count("<neuropil-alignment") == 4
    assert "characters of the source" in page


def test_without_attention_there_is_nothing_to_look_at(
    without_attention: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    page = without_attention.report.read_text(encoding="utf-8")
    assert "Attention" not in page
    assert "characters of the source" in page
    assert isinstance(without_attention.translate("5 November 2026", beam=2), str)
    with pytest.raises(SystemExit) as exit:
        main(
            [
                "translate",
                str(without_attention.folder),
                "5 November 2026",
                "--attention",
                str(tmp_path / "looked.html"),
            ]
        )
    assert exit.value.code == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert (
        printed.err
        == "neuropil: --attention shows where a model looked, but got a model without attention: leave it out.\n"
    )
    assert not (tmp_path / "looked.html").exists()


def test_the_gates_of_reader_and_writer_are_shown(without_attention: Run, run: Run, capsys: pytest.CaptureFixture[str]):
    main(["inspect", str(without_attention.folder), "--gates", "5 November 2026"])
    printed = capsys.readouterr().out
    assert "encoder.backwards.0" in printed
    assert "decoder.recurrence.forwards.0" in printed
    page = (without_attention.folder / "gates.html").read_text(encoding="utf-8")
    assert "forget" in page
    main(
        ["inspect", str(run.folder), "--gates", "5 November 2026"]
    )  # Bahdanau's decoder goes step by step, and is not watched
    assert "encoder.forwards.0" in capsys.readouterr().out


def test_two_vocabularies_need_two_files(without_attention: Run):
    assert (without_attention.folder / "tokenizer-target.json").exists()
    assert neuropil.load(without_attention.folder).translate("5 Nov 2026") == without_attention.translate("5 Nov 2026")


@pytest.mark.parametrize(
    "options",
    [
        {"attention": "general", "input_feeding": True, "scheduled_sampling": 0.3},
        {"attention": "concat", "cell": "mingru", "layers": 2},
    ],
)
def test_other_attentions_and_cells_are_options(tmp_path: Path, options: dict[str, object]):
    run = train_small(tmp_path, epochs=1, bidirectional=False, **options)
    assert run.metrics["chrf"] >= 0
    assert neuropil.load(run.folder).translate("5 Nov 2026") == run.translate("5 Nov 2026")


def test_scheduled_sampling_and_dropout_follow_from_the_seed(tmp_path: Path):
    folders = [tmp_path / name for name in ("first", "second")]
    for folder in folders:
        folder.mkdir()
    first, second = (
        train_small(folder, epochs=1, scheduled_sampling=0.5, dropout=0.1).model.state_dict() for folder in folders
    )
    assert all(torch.equal(tensor, second[name]) for name, tensor in first.items())


def test_own_data_has_its_own_defaults():
    options = recipe("seq2seq")
    assert options.own_data is not None
    assert {o.name: o.default for o in options.own_data.options()}["tokens"] == "bpe"
    assert {o.name: o.default for o in options.options.options()}["tokens"] == "characters"


def test_groups_of_lengths_hold_every_text_once():
    sources = ["x" * length for length in (*range(1, 41), 90, 7, 7)]
    right = [len(source) % 2 == 0 for source in sources]
    groups = by_length(sources, right)
    assert [(low, high, len(within)) for low, high, within in groups] == [
        (1, 9, 11),
        (10, 20, 11),
        (21, 31, 11),
        (32, 39, 8),
        (40, 90, 2),
    ]
    assert sum(sum(within) for _, _, within in groups) == sum(right)
    assert by_length(["ab"] * 5, [True] * 5) == [(2, 2, [True] * 5)]


@pytest.mark.slow
@pytest.mark.parametrize("attention", ["bahdanau", "general"])
def test_it_learns_to_read_dates(tmp_path: Path, attention: str):
    """Three passes in place of the default's."""
    run = neuropil.train("seq2seq", attention=attention, epochs=3, out=tmp_path / "run", show_progress=False)
    assert run.metrics["exact_accuracy"] > 0.95
