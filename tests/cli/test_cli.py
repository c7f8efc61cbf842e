"""The command line as a user types it."""

import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from command_line import said
from neuropil.cli import main
from neuropil.recipes import SYSTEMS
from real_data import digits


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cli") / "mlp"
    main(["train", "mlp", "--epochs", "6", "--hidden-sizes", "48", "--out", str(folder)])
    return folder


def test_list_shows_every_system_without_loading_torch():
    code = (
        "import sys; from neuropil.cli import main; main(['list']); assert 'torch' not in sys.modules and 'numpy' "
        "not in sys.modules"
    )
    listed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert [line.split("\t")[0] for line in listed.splitlines()[1:]] == [system.name for system in SYSTEMS]


def test_importing_neuropil_loads_nothing_heavy():
    code = "import sys, neuropil; assert not {'torch', 'numpy', 'rich', 'matplotlib', 'tyro'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_module_runs_like_the_command():
    shown = subprocess.run(
        [sys.executable, "-m", "neuropil", "--version"], capture_output=True, text=True, check=True
    ).stdout
    assert shown.startswith("neuropil ")


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]):
    shown = said(capsys, "--help")
    for command in ("list", "show", "train", "resume", "predict", "evaluate", "report", "compare", "inspect"):
        assert f"  {command}" in shown


def test_help_of_train_lists_every_option_with_its_default(capsys: pytest.CaptureFixture[str]):
    shown = said(capsys, "train", "mlp", "--help")
    for flag in (
        "--data",
        "--out",
        "--seed",
        "--epochs",
        "--minutes",
        "--hidden-sizes",
        "--optimizer",
        "--patience",
        "--compile",
    ):
        assert flag in shown
    assert "(default: 256 256)" in shown


def test_show_gives_equations_and_options(capsys: pytest.CaptureFixture[str]):
    shown = said(capsys, "show", "mlp")
    assert "hˡ = φ(Wˡ hˡ⁻¹ + bˡ)" in shown
    assert "--weight-decay" in shown


def test_training_prints_scores_beside_the_baseline_and_the_report(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    lines = said(capsys, "train", "mlp", "--epochs", "1", "--out", str(tmp_path / "run")).splitlines()
    assert [line.split("\t")[0] for line in lines[1:4]] == [
        "mlp",
        "logistic regression",
        "always the most frequent class",
    ]
    assert lines[-1] == f"Report: {tmp_path / 'run' / 'report.html'}"


def test_predict_answers_for_picture_files(capsys: pytest.CaptureFixture[str], run: Path, tmp_path: Path):
    paths = [str(tmp_path / f"{label}.png") for label in range(10)]
    for image, path in zip(
        digits()[0], paths, strict=False
    ):  # the file begins with one picture of each digit, in order
        Image.fromarray(image).save(path)
    lines = said(capsys, "predict", str(run), *paths).splitlines()
    right = [line.split("\t")[0].split(".")[0] == line.split("\t")[1].split()[0] for line in lines]
    assert len(lines) == 10
    assert sum(right) >= 8


def test_evaluate_report_and_compare_read_a_run(capsys: pytest.CaptureFixture[str], run: Path):
    assert "accuracy" in said(capsys, "evaluate", str(run))
    assert said(capsys, "report", str(run)).strip() == str(run / "report.html")
    assert "training seconds" in said(capsys, "compare", str(run), str(run))


def test_inspect_gradients_speaks_and_writes_a_page(capsys: pytest.CaptureFixture[str], run: Path):
    assert said(capsys, "inspect", str(run), "--gradients").splitlines()[-1] == str(run / "gradients.html")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("trian cnn", "a command must be one that `neuropil --help` shows, but got 'trian': did you mean 'train'?"),
        ("train cnm", "a system must be one that `neuropil list` shows, but got 'cnm': did you mean 'cnn'?"),
        ("show cnm", "a system must be one that `neuropil list` shows, but got 'cnm': did you mean 'cnn'?"),
        (
            "train mlp --epoch 3",
            "neuropil train mlp must be given its own options, but got '--epoch': did you mean '--epochs'?",
        ),
        ("train mlp --epochs three", "--epochs must be int, but got 'three'."),
        ("train mlp --epochs 0", "TrainingConfig.epochs must be at least 1, but got 0."),
        ("train mlp --epochs", "--epochs must be followed by int, but got nothing: see neuropil train mlp --help."),
        ("train mlp --hidden-sizes 3 x", "--hidden-sizes must be int ..., but got 'x'."),
        (
            "train mlp --optimizer adm",
            "--optimizer must be sgd | momentum | rmsprop | adam | adamw, but got 'adm': did you mean 'adam'?",
        ),
        (
            "train mlp now",
            "neuropil train mlp takes only options after its name, but got 'now': see neuropil train mlp --help.",
        ),
        ("list --all", "neuropil list takes no options, but got '--all': leave it out."),
        ("predict", "neuropil predict needs RUN and INPUTS, but got 'nothing': see neuropil predict --help."),
        ("evaluate runs", "a run is a folder with a config.json, but got 'runs': make one with neuropil train cnn."),
        ("compare one", "neuropil compare needs two or more runs, but got 1."),
    ],
)
def test_a_wrong_word_gets_one_sentence_and_exit_code_two(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: str, sentence: str
):
    monkeypatch.chdir(tmp_path)
    assert said(capsys, *words.split(), code=2) == f"neuropil: {sentence}"
    assert list(tmp_path.iterdir()) == []


def test_a_run_to_show_that_is_not_there_is_missed_as_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as exit:
        main(["show", f"{tmp_path}/typo"])
    assert exit.value.code == 2
    assert capsys.readouterr().err.startswith(
        f"neuropil: a run is a folder with a config.json, but got '{tmp_path}/typo': "
    )
