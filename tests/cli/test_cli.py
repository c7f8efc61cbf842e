"""The command line as a user types it."""

import io
import json
import math
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import neuropil
from command_line import printed_and_complained, said
from neuropil.cli import main, use
from neuropil.cli.commands import COMMANDS
from neuropil.cli.completion import script
from neuropil.cli.output import print_json
from neuropil.config import flag_of
from neuropil.errors import RunError
from neuropil.recipes import SYSTEMS
from neuropil.runs.run import load
from neuropil.training.interruption import Interrupted
from neuropil.training.weights import read_tensors, write_tensors
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


def test_list_on_a_terminal_stands_under_the_families(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    lines = said(capsys, "list").splitlines()
    assert max(map(len, lines)) <= 80
    assert [line for line in lines if line and line[0] != " "] == list(dict.fromkeys(each.family for each in SYSTEMS))
    assert [line.split()[0] for line in lines if line[:2] == "  " and line[2] != " "] == [each.name for each in SYSTEMS]
    assert "  lif                      leaky integrate-and-fire neuron" in lines


COLLECTED = """
import atexit, gc
from neuropil.cli import IMPORTED, collect_after_imports

atexit.register(lambda: print(gc.get_count()[0] < 100, gc.get_freeze_count() > 2 * IMPORTED))
collect_after_imports()
searches, others = [], len(gc.callbacks) - 1
gc.callbacks.append(lambda phase, _: searches.append(gc.get_freeze_count()) if phase == "stop" else None)
made = [[] for _ in range(IMPORTED - 10_000)]
print(gc.get_threshold()[0], searches)
made += [[] for _ in range(15_000)]
print(gc.get_threshold(), len(gc.callbacks) - others, len(searches), IMPORTED <= searches[0] < IMPORTED + 20_000)
made += [[] for _ in range(IMPORTED)]
"""


def test_what_is_imported_is_never_searched_for_garbage_not_even_when_the_process_ends():
    done = subprocess.run([sys.executable, "-c", COLLECTED], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["300000 []", "(10000, 10, 50) 1 1 True", "True True"]


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


def test_help_explains_a_command_too(capsys: pytest.CaptureFixture[str]):
    for words in (["serve"], ["train"], ["train", "mlp"]):
        assert said(capsys, "help", *words) == said(capsys, *words, "--help")
    assert said(capsys, "help") == said(capsys, "--help")


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
    assert "by default 256 256" in shown


def test_a_list_may_be_given_in_pieces(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    path = tmp_path / "a.csv"
    path.write_text("\n".join(["a,b,c,d,y", *[f"{i},{i % 3},{i % 5},{i % 7},{i % 2}" for i in range(30)]]))
    train = ["train", "mlp", "--data", str(path), "--target", "y", "--epochs", "1", "--no-report"]
    said(capsys, *train, "--ignore", "a", "b", "--hidden-sizes", "4", "--ignore=d", "--out", str(tmp_path / "run"))
    run = load(tmp_path / "run")
    assert [column["name"] for column in run.settings["facts"]["schema"]["columns"]] == ["c"]
    assert "--ignore a b d" in run.settings["command"]
    assert run.settings["facts"]["model"]["hidden_sizes"] == [4]


def test_what_training_did_not_see_is_said_in_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "a.csv"
    path.write_text("\n".join(["x,kind,y", *[f"{i % 9},{'ab'[i % 2]},{i % 2}" for i in range(30)]]))
    train = ["train", "mlp", "--data", str(path), "--target", "y", "--epochs", "1", "--no-report"]
    said(capsys, *train, "--out", str(tmp_path / "run"))
    (tmp_path / "new.csv").write_text("kind,x\na,1\nc,2\n")
    main(["predict", str(tmp_path / "run"), str(tmp_path / "new.csv")])
    captured = capsys.readouterr()
    assert captured.err == (
        "neuropil: 1 of 2 rows of new.csv has a new category in column 'kind' that counts as none, such as 'c' "
        "(first: row 3).\n"
    )
    assert [line.split("\t")[0] for line in captured.out.splitlines()] == ["new.csv row 2", "new.csv row 3"]


def test_show_has_the_defaults_for_data_of_the_users_own_too(capsys: pytest.CaptureFixture[str]):
    rows = [line.split("\t") for line in said(capsys, "show", "transformer").splitlines() if line.startswith("--")]
    defaults = {name: default for name, _, default, _ in rows}
    assert defaults["--width"] == "64; with --data 128; with --size base 512; with --size big 1024"
    assert defaults["--positions"] == "sinusoidal"


def test_show_has_the_defaults_for_a_model_to_start_from_too(capsys: pytest.CaptureFixture[str]):
    rows = [line.split("\t") for line in said(capsys, "show", "bert_classifier").splitlines() if line.startswith("--")]
    defaults = {name: default for name, _, default, _ in rows}
    assert defaults["--epochs"] == "4; with --start 2"
    assert defaults["--width"] == "128"


def test_show_gives_equations_and_options(capsys: pytest.CaptureFixture[str]):
    shown = said(capsys, "show", "mlp")
    assert "hˡ = φ(Wˡ hˡ⁻¹ + bˡ)" in shown
    assert "--weight-decay" in shown
    searched = "--hidden-sizes none,32,128,512,128 128,512 512; --dropout 0..0.5; --batch-size 32,64,128"
    assert shown.splitlines()[-2:] == [
        f"neuropil tune mlp searches {searched}; --learning-rate 0.0002..0.02; --weight-decay 0.001..0.1.",
        "With --data it searches --weight-decay 0.03..3 instead.",
    ]
    assert "neuropil tune" not in said(capsys, "show", "lif")


def test_the_time_limit_of_a_search_is_that_of_all_its_trials(capsys: pytest.CaptureFixture[str]):
    shown = " ".join(said(capsys, "tune", "mlp", "--help").split())
    assert shown.count("--minutes") == 1
    assert "time limit in minutes for all trials" in shown
    assert "--hidden-sizes" in shown


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


def test_other_programs_get_json(capsys: pytest.CaptureFixture[str], run: Path, tmp_path: Path):
    def records(*words: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in said(capsys, *words, "--json").splitlines()]

    assert [each["name"] for each in records("list")] == [system.name for system in SYSTEMS]
    (shown,) = records("show", "mlp")
    (epochs,) = [each for each in shown["options"] if each["name"] == "epochs"]
    assert epochs["default"] is None
    assert epochs["type"] == "int | none"
    (of_run,) = records("show", str(run))
    (scores,) = records("evaluate", str(run))
    assert of_run["capabilities"] == ["predict", "evaluate"]
    assert of_run["metrics"] == scores
    first, second = records("compare", str(run), str(run))
    assert first == second
    assert first["metrics"] == scores
    picture = tmp_path / "digit.png"
    Image.fromarray(digits()[0][0, 0]).save(picture)
    (predicted,) = records("predict", str(run), str(picture))
    assert predicted["input"] == picture.name
    assert predicted["probabilities"][predicted["label"]] == max(predicted["probabilities"].values())
    assert records("report", str(run)) == [{"report": str(run / "report.html")}]
    (page,) = records("inspect", str(run), "--gradients")
    assert Path(page["page"]).exists()
    assert page["sentences"]
    (outcome,) = records("resume", str(run))
    assert outcome["results"][0] == {"name": "mlp", **scores}


def test_json_knows_no_nan(capsys: pytest.CaptureFixture[str]):
    print_json({"mase": math.nan, "path": Path("a"), "text": "naïve"})
    assert capsys.readouterr().out == '{"mase": null, "path": "a", "text": "naïve"}\n'


def test_json_of_several_has_a_line_for_each(capsys: pytest.CaptureFixture[str]):
    print_json({"value": 1.5}, {"value": math.inf, "text": "naïve"})
    assert capsys.readouterr().out == '{"value": 1.5}\n{"value": null, "text": "naïve"}\n'
    print_json()
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        (["tr"], {"train", "translate"}),
        (["train", "g"], {"gan", "gru", "gaussian_process", "gpt2"}),
        (["train", "mlp", "--epo"], {"--epochs"}),
        (["simulate", "lif", "--dur"], {"--duration"}),
        (["tune", "g"], {"gan", "gru", "gpt2"}),
        (["tune", "mlp", "--t"], {"--target", "--task", "--tensor-parallel", "--tensorboard", "--test", "--trials"}),
        (["show", "hod"], {"hodgkin_huxley"}),
        (["search", "run", "--im"], {"--images"}),
    ],
)
def test_a_shell_completes_commands_systems_and_options(bash_completion: str, words: list[str], completed: set[str]):
    ask = f"COMP_WORDS=(neuropil {' '.join(words)}); COMP_CWORD={len(words)}; _neuropil; echo ${{COMPREPLY[@]}}"
    answer = subprocess.run(["bash", "-c", f"{bash_completion}\n{ask}"], capture_output=True, text=True, check=True)
    assert set(answer.stdout.split()) == completed


@pytest.fixture(scope="module")
def bash_completion() -> str:
    return script(["bash"])


def test_completion_for_zsh_and_fish(bash_completion: str):
    assert script(["zsh"]) == f"autoload -U +X bashcompinit && bashcompinit\n{bash_completion}"
    lines = script(["fish"]).splitlines()
    seen = "__fish_seen_subcommand_from"
    assert f"complete -c neuropil -n '{seen} train; and {seen} mlp' -l epochs" in lines


def test_a_finished_run_is_not_resumed_and_it_is_said(capsys: pytest.CaptureFixture[str], run: Path):
    printed, complained = printed_and_complained(capsys, "resume", str(run))
    assert complained == f"{run} is finished: there is nothing to resume.\n"
    assert printed.splitlines()[-1] == f"Report: {run / 'report.html'}"


@pytest.fixture
def stopped(run: Path, tmp_path: Path) -> Path:
    """In the fourth of six epochs, in a folder with a space in its name."""
    folder = Path(shutil.copytree(run, tmp_path / "my run"))
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    kept = [row for row in rows if row["kind"] != "result" and row["epoch"] <= 3.5]
    (folder / "metrics.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in kept))
    (folder / "report.html").unlink()
    tensors, facts = read_tensors(folder / "checkpoint.safetensors")
    write_tensors(folder / "checkpoint.safetensors", tensors, {**facts, "state": {"step": kept[-1]["step"] + 2}})
    return folder


def test_a_stopped_run_is_shown_with_how_far_it_is(capsys: pytest.CaptureFixture[str], stopped: Path):
    step = 2 + json.loads((stopped / "metrics.jsonl").read_text().splitlines()[-1])["step"]
    resume, predict, evaluate, export = said(capsys, "show", str(stopped)).splitlines()[-4:]
    assert resume == (
        f"resume\tit is not finished: it has trained 3 of 6 epochs and 2 steps of the next, to step {step}"
        f"\tneuropil resume '{stopped}'"
    )
    assert predict == f"predict\tit predicts from files like its training data\tneuropil predict '{stopped}' FILE"
    assert evaluate == f"evaluate\tit is scored on labelled files\tneuropil evaluate '{stopped}' --data FILE"
    assert export == f"export\tits model runs elsewhere as ONNX\tneuropil export '{stopped}'"


def test_a_run_without_weights_is_shown_as_it_is(capsys: pytest.CaptureFixture[str], stopped: Path):
    (stopped / "model.safetensors").unlink()
    (stopped / "metrics.jsonl").write_text("")
    (stopped / "checkpoint.safetensors").unlink()
    assert said(capsys, "show", str(stopped)).splitlines() == [
        f"{stopped}: a run of mlp, seed 0",
        "neuropil train mlp --hidden-sizes 48 --epochs 6",
        "",
        "can\t\tcommand",
        f"resume\tit is not finished: it has no results yet\tneuropil resume '{stopped}'",
    ]
    assert said(capsys, "predict", str(stopped), "picture.png", code=2) == (
        f"neuropil: {stopped} must hold model.safetensors, but got a run without it: "
        f"finish it with `neuropil resume '{stopped}'`."
    )


@pytest.mark.parametrize("command", ["show", "resume"])
def test_a_finished_run_that_has_lost_its_model_says_so(
    capsys: pytest.CaptureFixture[str], run: Path, tmp_path: Path, command: str
):
    folder = Path(shutil.copytree(run, tmp_path / "run"))
    (folder / "model.safetensors").unlink()
    sentence = (
        f"{folder} must hold model.safetensors, but got a run without it: "
        "restore it, or start anew with `neuropil train mlp --hidden-sizes 48 --epochs 6`."
    )
    assert printed_and_complained(capsys, command, str(folder), code=2) == ("", f"neuropil: {sentence}\n")
    with pytest.raises(RunError) as error:
        neuropil.resume(folder)
    assert str(error.value) == sentence


def test_a_report_of_a_stopped_run_is_refused_and_nothing_trained(capsys: pytest.CaptureFixture[str], stopped: Path):
    before = {path: path.read_bytes() for path in stopped.iterdir()}
    step = 2 + json.loads((stopped / "metrics.jsonl").read_text().splitlines()[-1])["step"]
    assert said(capsys, "report", str(stopped), code=2) == (
        "neuropil: a report is rewritten only for a run that is finished, but got one that is not (it has trained 3 of "
        f"6 epochs and 2 steps of the next, to step {step}): finish it with `neuropil resume '{stopped}'`."
    )
    assert {path: path.read_bytes() for path in stopped.iterdir()} == before


@pytest.mark.parametrize("command", ["show", "resume"])
def test_a_damaged_history_gets_one_sentence(capsys: pytest.CaptureFixture[str], stopped: Path, command: str):
    (stopped / "metrics.jsonl").write_text("damaged\n")
    assert said(capsys, command, str(stopped), code=2) == (
        f"neuropil: {stopped}/metrics.jsonl must hold the JSON that neuropil wrote on each line, but got line 1, which "
        "is damaged: restore the file or remove the line."
    )


def test_ctrl_c_before_a_run_has_begun_says_that_it_stopped(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("neuropil.cli.commands.run_command", interrupted)
    assert said(capsys, "train", "mlp", code=130) == "neuropil: stopped"


def test_processes_that_are_stopped_end_together(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    """Rank 0 says so, whose display would be drawn once more after what another says."""

    def interrupted(*_: Any) -> None:
        raise Interrupted(Path("runs/a"), 7)

    def first_to_end(exit_code: int, *, together: bool) -> tuple[bool, int]:
        return together, exit_code

    monkeypatch.setattr("neuropil.cli.commands.run_command", interrupted)
    monkeypatch.setattr("neuropil.training.distributed.processes.first_to_end", first_to_end)
    for name, value in {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "1"}.items():
        monkeypatch.setenv(name, value)
    assert said(capsys, "train", "mlp", code=130) == (
        "neuropil: stopped at step 7; go on with: torchrun --standalone --nproc-per-node 2 -m neuropil resume runs/a"
    )


@pytest.mark.parametrize(("terminal", "words", "told"), [(True, (), True), (True, ("a",), False), (False, (), False)])
def test_who_types_texts_is_told_how_to_end_them(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    terminal: bool,
    words: tuple[str, ...],
    told: bool,
):
    monkeypatch.setattr(sys, "stdin", io.StringIO("a\n"))
    monkeypatch.setattr(sys.stdin, "isatty", lambda: terminal)
    assert list(use._texts(words)) == [["a"]]
    notice = "Texts are read from standard input, one on each line; Ctrl-D ends them.\n"
    assert capsys.readouterr().err == (notice if told else "")


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
        (
            "train mlp --zebra 3",
            "neuropil train mlp must be given its own options, but got '--zebra': see neuropil train mlp --help.",
        ),
        ("train clip --text-heads 0", "--text-heads must be at least 1, but got 0."),
        ("--completion", "neuropil --completion needs a shell, but got nothing: choose from bash, zsh, fish."),
        ("--completion csh", "neuropil --completion needs a shell, but got 'csh': choose from bash, zsh, fish."),
        ("train mlp --epochs three", "--epochs must be int, but got 'three'."),
        ("train mlp --epochs 0", "--epochs must be at least 1, but got 0."),
        ("train mlp --epochs", "--epochs must be followed by int, but got nothing: see neuropil train mlp --help."),
        ("train mlp --hidden-sizes 3 x", "--hidden-sizes must be int ..., but got 'x'."),
        (
            "train mlp --optimizer adm",
            "--optimizer must be sgd | momentum | rmsprop | adam | adamw | muon, but got 'adm': did you mean 'adam'?",
        ),
        (
            "train mlp now",
            "neuropil train mlp takes only options after its name, but got 'now': see neuropil train mlp --help.",
        ),
        (
            "train mlp --json now",
            "neuropil train mlp takes only options after its name, but got 'now': see neuropil train mlp --help.",
        ),
        (
            "train mlp --data my table.csv",
            "neuropil train mlp takes only options after its name, but got 'table.csv' after --data my: "
            "quote a value of several words, as in --data 'my table.csv'.",
        ),
        (
            "train mlp -epochs 3",
            "neuropil train mlp must be given its own options, but got '-epochs': did you mean '--epochs'?",
        ),
        (
            "report --all",
            "neuropil report must be given its own options, but got '--all': see neuropil report --help.",
        ),
        ("predict", "neuropil predict needs RUN and INPUTS, but got 'nothing': see neuropil predict --help."),
        ("evaluate runs", "a run is a folder with a config.json, but got 'runs': make one with neuropil train NAME."),
        (
            "embed MiniLM a",
            "a model is a run, a Hugging Face folder, owner/name on its hub, or a file of word vectors, but got "
            "'MiniLM', which is no folder here.",
        ),
        (
            "fill my/bert",
            "neuropil fill needs texts with [MASK] in them, but got none: "
            'neuropil fill my/bert "Paris is the [MASK] of France".',
        ),
        (
            "search my/clip --images photos",
            "neuropil search needs texts or pictures to search for, but got none: "
            'neuropil search my/clip "a red bicycle" --images photos.',
        ),
        ("compare one", "neuropil compare needs two or more runs, but got 1."),
    ],
)
def test_a_wrong_word_gets_one_sentence_and_exit_code_two(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: str, sentence: str
):
    monkeypatch.chdir(tmp_path)
    assert said(capsys, *words.split(), code=2) == f"neuropil: {sentence}"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_says_which_option_was_probably_meant(capsys: pytest.CaptureFixture[str], command: str):
    systems = {"train": "mlp", "tune": "mlp", "plan": "gpt2", "simulate": "lif"}
    form, positional = COMMANDS[command].arguments(), COMMANDS[command].positional
    own = [flag_of(each.name) for each in form.options() if each.name not in positional]
    flag = {"plan": "--gpus"}.get(command, "--seed") if command in systems else own[-1]
    misspelt = f"{flag[:-2]}{flag[-1]}{flag[-2]}"
    named = [command, *([systems[command]] if command in systems else [])]
    assert said(capsys, *named, misspelt, code=2) == (
        f"neuropil: neuropil {' '.join(named)} must be given its own options, but got {misspelt!r}: "
        f"did you mean {flag!r}?"
    )


def test_a_run_to_show_that_is_not_there_is_missed_as_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as exit:
        main(["show", f"{tmp_path}/typo"])
    assert exit.value.code == 2
    assert capsys.readouterr().err.startswith(
        f"neuropil: a run is a folder with a config.json, but got '{tmp_path}/typo': "
    )
