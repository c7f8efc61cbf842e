"""A run in one file, and what is not unpacked."""

import html
import shlex
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

import neuropil
from neuropil.errors import InputError, RunError
from neuropil.runs import archive
from neuropil.runs.run import Run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("runs") / "mlp"
    return neuropil.train("mlp", out=folder, epochs=1, hidden_sizes=(8,), report=False, show_progress=False)


def test_a_saved_run_is_loaded_without_its_checkpoint(run: Run, tmp_path: Path):
    share = run.folder / "checkpoint" / "step-1" / "shard.safetensors"
    share.parent.mkdir(parents=True)
    share.touch()
    assert run.save(tmp_path / "run.zip") == tmp_path / "run.zip"
    loaded = neuropil.load(tmp_path / "run.zip")
    assert loaded.folder == tmp_path / "run"
    names = [{path.name for path in each.folder.iterdir()} for each in (run, loaded)]
    assert names[0] - names[1] == {"checkpoint.safetensors", "checkpoint"}
    assert names[1] - names[0] == set()
    assert loaded.evaluate() == run.evaluate()
    assert neuropil.load(tmp_path / "run.zip").folder == loaded.folder  # not unpacked again
    assert neuropil.open(str(tmp_path / "run.zip")).model.config == loaded.model.config
    assert {path.name for path in tmp_path.iterdir()} == {"run.zip", "run"}


def test_unzipped_by_hand_it_is_one_folder(run: Run, tmp_path: Path):
    with zipfile.ZipFile(run.save(tmp_path / "run.zip")) as packed:
        packed.extractall(tmp_path)
    assert neuropil.load(tmp_path / "mlp").metrics == run.metrics


def test_of_the_users_folders_nothing_is_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A path that a shell, HTML and JSON each write in a way of their own."""
    mine = tmp_path / "my <secret> folder"
    mine.mkdir()
    table = mine / 'it\'s "a" & b.csv'
    table.write_text("size,kind\n" + "".join(f"{i},{'xy'[i % 2]}\n" for i in range(40)))
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "job")  # as under torchrun, by which a run is found again
    run = neuropil.train(
        "mlp", data=table, target="kind", out=mine / "mlp", epochs=1, hidden_sizes=(8,), show_progress=False
    )
    assert "launch" in run.settings
    with zipfile.ZipFile(run.save(tmp_path / "run.zip")) as packed:
        contents = {name: packed.read(name) for name in packed.namelist()}
    assert not [name for name, content in contents.items() if b"secret" in content or bytes(tmp_path) in content]
    loaded = neuropil.load(tmp_path / "run.zip")
    assert loaded.settings["options"]["data"]["data"] == table.name
    assert shlex.split(loaded.settings["command"])[3:5] == ["--data", table.name]
    assert html.escape(loaded.settings["command"]) in contents["mlp/report.html"].decode()
    assert loaded.predict(table).labels == run.predict(table).labels
    changed = {name for name, value in run.settings.items() if loaded.settings.get(name) != value}
    assert changed == {"options", "command", "launch"}
    assert run.settings["options"]["data"]["data"] == str(table)  # the folder itself can go on


def test_a_run_that_went_on_since_is_not_taken_for_the_one_that_was_unpacked(run: Run, tmp_path: Path):
    loaded = neuropil.load(run.save(tmp_path / "run.zip"))
    weights = loaded.folder / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    with pytest.raises(RunError) as error:
        neuropil.load(tmp_path / "run.zip")
    assert str(error.value) == (
        f"{tmp_path / 'run.zip'} is unpacked to {tmp_path / 'run'}, but got another one there: move one of the two."
    )


def test_another_folder_of_that_name_is_left_alone(run: Run, tmp_path: Path):
    run.save(tmp_path / "run.zip")
    (tmp_path / "run").mkdir()
    with pytest.raises(RunError) as error:
        neuropil.load(tmp_path / "run.zip")
    there = tmp_path / "run"
    assert str(error.value) == f"{there}.zip is unpacked to {there}, but got another one there: move one of the two."
    assert list((tmp_path / "run").iterdir()) == []


def test_a_run_is_saved_as_a_zip(run: Run, tmp_path: Path):
    with pytest.raises(InputError) as error:
        run.save(tmp_path / "run.tar")
    path = str(tmp_path / "run.tar")
    assert str(error.value) == f"a run is saved as a .zip file, but got {path!r}: name it run.tar.zip."
    assert not list(tmp_path.iterdir())


def link(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    return info


TWICE = "two files called 'run/./config.json'"


@pytest.mark.parametrize(
    ("write", "got"),
    [
        (lambda z: z.writestr("run/../../evil", "x"), "a file that would leave the folder: 'run/../../evil'"),
        (lambda z: z.writestr("/etc/evil", "x"), "a file that would leave the folder: '/etc/evil'"),
        (lambda z: z.writestr("run\\..\\evil", "x"), "a file that would leave the folder: 'run\\\\..\\\\evil'"),
        (lambda z: z.writestr("C:/evil", "x"), "a file that would leave the folder: 'C:/evil'"),
        (
            lambda z: z.writestr(link("run/config.json"), "/etc"),
            "a file that would leave the folder: 'run/config.json'",
        ),
        (lambda z: (z.writestr("a/config.json", "{}"), z.writestr("b/x", "")), "several folders"),
        (lambda z: z.writestr("run/large", "x" * 2000), "1 file of 2,000 bytes"),
        (
            lambda z: z.writestr("run/x", ""),
            "a file that is none (\"There is no item named 'run/config.json' in the archive\")",
        ),
        (lambda z: None, "an empty one"),
        (lambda z: (z.writestr("run/config.json", "{}"), z.writestr("run/./config.json", "[]")), TWICE),
        (
            lambda z: z.writestr("run/config.json", "{}", zipfile.ZIP_LZMA),
            "'run/config.json', packed by another method than DEFLATE",
        ),
    ],
)
def test_what_is_no_saved_run_is_not_unpacked(
    write: Callable[[zipfile.ZipFile], None], got: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(archive, "LARGEST", 1000)
    path = tmp_path / "in" / "run.zip"
    path.parent.mkdir()
    with zipfile.ZipFile(path, "w") as made:
        write(made)
    with pytest.raises(RunError) as error:
        neuropil.load(path)
    rule = f"{path} must be a zip of one run, as run.save writes it"
    assert str(error.value) == f"{rule}, but got {got}: save it again."
    assert sorted(tmp_path.rglob("*")) == [path.parent, path]


def test_a_damaged_zip_is_refused(tmp_path: Path):
    path = tmp_path / "run.zip"
    path.write_bytes(b"no zip")
    with pytest.raises(RunError) as error:
        neuropil.load(path)
    rule = f"{path} must be a zip of one run, as run.save writes it"
    assert str(error.value) == f"{rule}, but got a file that is none (File is not a zip file): save it again."


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content.replace(b"run/config.json", b"\0" * 15),
        lambda content: content[:40] + bytes(byte ^ 0xFF for byte in content[40:60]) + content[60:],
        lambda content: content[content.index(b"PK\x01\x02") :],
    ],
    ids=["a name of nothing", "packed bytes", "no files before the directory"],
)
def test_damage_inside_a_zip_is_refused(tmp_path: Path, damage: Callable[[bytes], bytes]):
    path = tmp_path / "run.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("run/config.json", "{" * 500)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(RunError) as error:
        neuropil.load(path)
    assert str(error.value).startswith(f"{path} must be a zip of one run, as run.save writes it, but got ")
    assert sorted(tmp_path.iterdir()) == [path]


def test_a_config_of_gigabytes_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(archive, "LARGEST_SETTINGS", 100)
    path = tmp_path / "run.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("run/config.json", " " * 101)
    with pytest.raises(RunError) as error:
        neuropil.load(path)
    rule = f"{path} must be a zip of one run, as run.save writes it"
    assert str(error.value) == f"{rule}, but got a config.json of more than 100 bytes: save it again."
