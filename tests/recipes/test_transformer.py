"""The Transformer as a user meets it: pairs in, translations out, and a folder that keeps both."""

import gzip
import io
import re
import shlex
import sys
from pathlib import Path
from typing import Any, cast

import pytest
import sacrebleu
import torch
from torch import nn

import neuropil
from command_line import said
from neuropil.cli import main
from neuropil.data.pairs.files import PairDataConfig, prepare_pairs
from neuropil.errors import InputError, RunError
from neuropil.models.transformer import Transformer, TransformerConfig
from neuropil.parts.parameters import count_parameters
from neuropil.protocols import END, START
from neuropil.recipes import recipe
from neuropil.runs.run import Run
from neuropil.tasks.translation.scores import nearest_pair, score_translations
from neuropil.training.schedules import rate_share
from tasks.translated_dates import SMALL, train_small, write_pairs

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return train_small(tmp_path_factory.mktemp("translator"))


def test_the_folder_translates_in_another_process_as_the_run_itself(run: Run):
    texts = ["5 November 2026", "2026年11月5日", ""]
    again = neuropil.load(run.folder).translate(texts)
    assert again == run.translate(texts)
    assert again[2] == ""
    assert run.translate(texts[0]) == again[0]
    assert run.predict(texts).texts == again


def test_a_translation_does_not_depend_on_the_others(run: Run):
    texts = ["5 November 2026", "Donnerstag, 5. November 2026", "5 nov. 2026", "٥ نوفمبر ٢٠٢٦"]
    assert run.translate(texts) == [run.translate(text) for text in texts]
    assert run.translate(texts, beam=3) == [run.translate(text, beam=3) for text in texts]


def test_own_data_has_its_own_defaults():
    options = recipe("transformer")
    assert options.defaults(own_data=False) == options.options
    assert options.defaults(own_data=True) == options.own_data
    assert options.own_data is not None
    assert {o.name: o.default for o in options.own_data.options()}["tokens"] == "bpe"


def test_the_base_size_is_the_published_transformer_and_its_training():
    model: TransformerConfig = cast(Any, recipe("transformer").defaults(own_data=True, size="base")).model
    with torch.device("meta"):
        ours, theirs = Transformer(model), nn.Transformer(512, 8, 6, 6, 2048, batch_first=True)
    two_final_norms, embeddings = 2 * 2 * 512, 37_000 * 512
    assert model.norm == "post"
    assert model.positions == "sinusoidal"
    assert count_parameters(ours) == count_parameters(theirs) - two_final_norms + embeddings == 63_082_496
    assert {m.p for m in ours.modules() if isinstance(m, nn.Dropout)} == {0.1}
    options = {each.name: each.default for each in recipe("transformer").defaults(own_data=True, size="base").options()}
    assert (options["optimizer"], options["label_smoothing"], options["tokens"]) == ("adam", 0.1, "bpe")
    assert options["vocabulary_size"] == 37_000


@pytest.mark.parametrize(("size", "width"), [("base", 512), ("big", 1024)])
@pytest.mark.parametrize("t", [1, 100, 3999, 4000, 4001, 100_000])
def test_the_learning_rate_of_a_published_size_is_the_papers(size: str, width: int, t: int):
    options = {each.name: each.default for each in recipe("transformer").defaults(own_data=True, size=size).options()}
    share = rate_share(options["schedule"], t - 1, 100_000, 4_000)
    assert share * options["learning_rate"] == pytest.approx(width**-0.5 * min(t**-0.5, t * 4_000**-1.5))


def test_a_published_size_is_named_in_the_command_and_gives_way_to_other_options(tmp_path: Path):
    write_pairs(tmp_path / "pairs.tsv", 40)
    few = ["--width", "16", "--heads", "2", "--epochs", "1", "--no-report", "--tokens", "characters"]
    main(
        [
            "train",
            "transformer",
            "--data",
            str(tmp_path / "pairs.tsv"),
            "--size=base",
            *few,
            "--out",
            str(tmp_path / "a"),
        ]
    )
    run = neuropil.load(tmp_path / "a")
    model = run.settings["facts"]["model"]
    assert (model["layers"], model["norm"], model["width"]) == (6, "post", 16)
    assert run.settings["options"]["training"]["schedule"] == "inverse_sqrt"
    assert "--size base --" in run.settings["command"]
    assert "--norm" not in run.settings["command"]
    assert isinstance(run.translate("5 November 2026"), str)


def test_a_time_limit_leaves_a_published_size_as_it_is(tmp_path: Path):
    run = train_small(tmp_path, size="base", epochs=None, minutes=0.01, report=False)
    options = run.settings["options"]
    assert options["training"]["optimizer"] == "adam"  # the ladder has muon
    assert options["objective"]["label_smoothing"] == 0.1  # and its first sizes none
    assert options["model"]["dropout"] == 0.1


@pytest.mark.parametrize("words", [["--size=base"], ["--size", "base"]])
def test_help_has_the_defaults_of_a_published_size(words: list[str], capsys: pytest.CaptureFixture[str]):
    assert "(default: 512)" in said(capsys, "train", "transformer", *words, "--help")


def test_a_size_that_is_none_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert said(capsys, "train", "transformer", "--size", "huge", "--out", str(tmp_path / "run"), code=2) == (
        "neuropil: --size must be base | big, but got 'huge'."
    )
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_the_base_size_trains(tmp_path: Path):
    data = write_pairs(tmp_path / "pairs.tsv", 24)
    few = {"batch_size": 16, "epochs": 3, "learning_rate": 1e-4, "tokens": "characters", "report": False}
    run = neuropil.train("transformer", data=data, size="base", out=tmp_path / "run", show_progress=False, **few)
    losses = [row["loss"] for row in run.rows if row["kind"] == "validation"]
    assert losses == sorted(losses, reverse=True)
    assert run.settings["facts"]["model"]["width"] == 512


def test_two_vocabularies_need_two_files(tmp_path: Path):
    run = train_small(tmp_path, shared_vocabulary=False, shared_embeddings=False)
    assert (run.folder / "tokenizer-target.json").exists()
    assert isinstance(neuropil.load(run.folder).translate("5 November 2026"), str)


def test_one_matrix_for_two_vocabularies_is_refused_before_a_folder_is_made(tmp_path: Path):
    with pytest.raises(InputError) as error:
        train_small(tmp_path, shared_vocabulary=False)
    assert str(error.value) == (
        "shared embeddings need one vocabulary for both sides, but got two vocabularies: "
        "add --no-shared-embeddings or leave out --no-shared-vocabulary."
    )
    assert not (tmp_path / "run").exists()


def test_texts_that_are_all_too_long_are_refused(tmp_path: Path):
    with pytest.raises(InputError) as error:
        train_small(tmp_path, max_tokens=3)
    assert str(error.value) == (
        "training needs pairs of at most 3 tokens, but got none: give shorter texts or a larger --max-tokens."
    )


def test_long_texts_are_counted_in_the_report(tmp_path: Path):
    run = train_small(tmp_path, max_tokens=24)
    note = run.settings["facts"]["notes"][-1]
    assert re.fullmatch(
        r"[1-9]\d* of 255 training pairs have more than 24 tokens on one side, and are left out of training\.", note
    )
    assert note in run.report.read_text()


def test_learned_positions_refuse_what_they_cannot_count(tmp_path: Path):
    run = train_small(tmp_path, positions="learned", max_tokens=40)
    with pytest.raises(InputError) as error:
        run.translate("x" * 50)
    assert str(error.value) == (
        "this model has learned positions for texts of up to 39 tokens, but got a text of 50: "
        "split the text, or train with sinusoidal positions."
    )


def test_scores_on_the_users_own_pairs_follow_the_runs_direction(run: Run, tmp_path: Path):
    more = write_pairs(tmp_path / "more.tsv", 20)
    lines = [line.split("\t") for line in more.read_text(encoding="utf-8").splitlines()]
    written = run.translate([source for source, _ in lines])
    with pytest.warns(UserWarning, match="^3 of 20 pairs were in the training part of this run.$"):
        assert run.evaluate(more) == score_translations(written, [target for _, target in lines])


def test_the_report_shows_where_it_looks(run: Run):
    page = run.report.read_text()
    assert page.count("<neuropil-alignment") == 4
    assert "Attention" in page


def test_a_run_without_a_translator_says_so(tmp_path: Path):
    run = neuropil.train("mlp", hidden_sizes=(4,), epochs=1, out=tmp_path / "run", report=False, show_progress=False)
    with pytest.raises(RunError) as error:
        run.translate("text")
    rule = "this needs a model that translates texts"
    assert str(error.value) == f"{rule}, but got a run of mlp in {run.folder}: train seq2seq or transformer."


# --- neuropil translate -----------------------------------------------------------------------------------------------


def test_translate_takes_texts_files_and_standard_input(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    texts = ["5 November 2026", "", "2026年11月5日"]
    expected = run.translate(texts)
    (tmp_path / "texts.txt.gz").write_bytes(gzip.compress("\n".join(texts).encode()))
    main(["translate", str(run.folder), str(tmp_path / "texts.txt.gz")])
    assert capsys.readouterr().out.splitlines() == expected
    main(["translate", str(run.folder), texts[0], texts[2]])
    assert capsys.readouterr().out.splitlines() == [expected[0], expected[2]]
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join(texts) + "\n"))
    main(["translate", str(run.folder), "--beam", "2"])
    assert capsys.readouterr().out.splitlines() == run.translate(texts, beam=2)


def test_translate_writes_a_page_that_shows_where_it_looked(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    page = tmp_path / "looked.html"
    main(["translate", str(run.folder), "5 November 2026", "٥ نوفمبر ٢٠٢٦", "--attention", str(page)])
    assert page.read_text(encoding="utf-8").count("<neuropil-alignment") == 2
    assert capsys.readouterr().err == f"{page}\n"


def test_a_missing_file_is_missed_and_not_translated(run: Run, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        main(["translate", str(run.folder), "no-such-letters.txt"])
    assert capsys.readouterr().err == "neuropil: texts are read from files that exist, but got 'no-such-letters.txt'.\n"


def test_a_beam_of_nothing_is_refused(run: Run, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        main(["translate", str(run.folder), "5 Nov 2026", "--beam", "0"])
    assert capsys.readouterr().err == "neuropil: --beam must be at least 1, but got 0.\n"


def test_bytes_that_are_no_text_are_refused(
    run: Run, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    with pytest.raises(SystemExit) as exit:
        main(["translate", str(run.folder), "5\udcff Nov"])
    assert exit.value.code == 2
    assert capsys.readouterr().err == "neuropil: a text must be UTF-8, but got '5\\udcff Nov'.\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"5 Nov 2026\n\xff\xfe\n"), encoding="utf-8"))
    with pytest.raises(SystemExit):
        main(["translate", str(run.folder)])
    expected = (
        "neuropil: standard input must be text in UTF-8, but got other bytes: convert it first, for instance with "
        "iconv.\n"
    )
    assert capsys.readouterr().err == expected


def test_looking_at_a_translation_gives_weights_for_every_layer(run: Run):
    alignment = run.predictor.align("5 Nov 2026")
    assert [each.name for each in alignment.maps] == ["encoder.0.attention", "decoder.0.attention", "decoder.0.cross"]
    cross = alignment.maps[-1]
    assert list(cross.keys) == [*"5 Nov 2026", "◁"]
    assert cross.queries[-1] == "◁"
    torch.testing.assert_close(torch.as_tensor(cross.weights).sum(-1), torch.ones(2, len(cross.queries)))


def test_alternatives_have_the_probabilities_of_one_step_after_the_other(run: Run):
    translator, vocabulary = run.predictor, run.predictor.vocabulary
    source = [*vocabulary.source.encode(["5 November 2026"])[0], END]
    target = [*vocabulary.target.encode(["2026-11"])[0], END]
    found = translator.alternatives("5 November 2026", "2026-11", most=3)
    assert [each.token for each in found] == [*"2026-11", "◁"]
    model: Any = run.model
    with torch.no_grad():
        state = model.begin(torch.tensor([source]))
        for before, number, each in zip([START, *target[:-1]], target, found, strict=True):
            shares = model.step(torch.tensor([[before]]), state)[0].softmax(-1)
            assert each.share == pytest.approx(float(shares[number]), abs=1e-5)
            assert [share for _, share in each.alternatives] == pytest.approx(shares.topk(3).values.tolist(), abs=1e-5)


def test_beams_begin_with_the_translation_and_fall(run: Run):
    found = run.predictor.beams("5 November 2026", 4, length_penalty=0.0)
    assert found[0].text == run.translate("5 November 2026", beam=4, length_penalty=0.0)
    assert [each.score for each in found] == [each.log_probability for each in found]
    assert len(found) == 4


def test_the_dates_of_make_demo_are_unseen():
    (unseen,) = re.findall(r"^UNSEEN := (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    texts = shlex.split(unseen)
    splits = prepare_pairs(PairDataConfig(), seed=0)
    assert len(texts) == 5
    assert set(texts) <= set(splits.test.sources)


# --- scores -----------------------------------------------------------------------------------------------------------


def test_texts_of_three_words_that_are_all_right_have_the_full_bleu():
    texts = ["ein rotes Quadrat", "ein blauer Kreis"]
    assert score_translations(texts, texts)["bleu"] == pytest.approx(100)


def test_scores_are_sacrebleus():
    ours, theirs = ["the cat sat on the mat", "a dog"], ["the cat sat on a mat", "a dog ran away"]
    scores = score_translations(ours, theirs)
    assert scores["bleu"] == sacrebleu.corpus_bleu(ours, [theirs]).score
    assert scores["chrf"] == sacrebleu.corpus_chrf(ours, [theirs]).score
    assert scores["exact_accuracy"] == 0
    assert set(score_translations(["2026-11-15"], ["2026-11-15"])) == {"exact_accuracy", "chrf"}


def test_the_look_up_finds_what_it_has_seen():
    splits = prepare_pairs(PairDataConfig(), seed=1)
    train = splits.train.take(torch.arange(500))
    assert nearest_pair(train, train.sources[:50]) == list(train.targets[:50])


@pytest.mark.slow
def test_it_learns_to_read_dates(tmp_path: Path):
    """Two minutes in place of the five passes of the default, on one thread, reach most of what these reach."""
    run = neuropil.train("transformer", epochs=3, out=tmp_path / "run", show_progress=False)
    assert run.metrics["exact_accuracy"] > 0.9
    assert set(SMALL) <= {option.name for option in run.options.options()}
