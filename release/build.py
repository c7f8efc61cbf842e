"""Build the release of the commit that is checked out, and try it as a stranger would: `make release`.

The sources are exported from git, so that nothing that lies about gets in, and built twice: both must have the same
bytes. The wheel is then installed into an environment of its own, without extras and far from this checkout, where
commands of the README run and those that need an extra name it. At last `dist/` holds the wheel, the source
distribution, their SHA-256 sums and the bill of materials of the environment that was tried.
"""

import argparse
import gzip
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
TORCH = "torch==2.13.0"  # its CPU build
TRIED: Sequence[tuple[str, int, str]] = (
    # what a user types, the exit code, and what the answer must hold
    ("neuropil --version", 0, PROJECT["version"]),
    ("neuropil list", 0, "transformer"),
    ("neuropil show mlp", 0, "--hidden-sizes"),
    ("neuropil train mlp --updates 50 --out runs/digits", 0, "accuracy"),
    ("neuropil evaluate runs/digits", 0, "accuracy"),
    ("neuropil inspect runs/digits --signal", 0, ""),
    ("neuropil simulate lif --out runs/lif", 0, ""),
    ("neuropil train transformer", 2, "pip install 'neuropil[translation]'"),
    ("neuropil train forecaster", 2, "pip install 'neuropil[forecasting]'"),
    ("neuropil tune mlp", 2, "pip install 'neuropil[tuning]'"),
    ("neuropil lab", 2, "pip install 'neuropil[lab]'"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="folder of what is built")
    parser.add_argument("--untried", action="store_true", help="build and compare only")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        files = built_twice(folder)
        require_complete(files)
        bill = None if arguments.untried else tried(files, folder)
        arguments.out.mkdir(exist_ok=True)
        for file in files:
            shutil.copy2(file, arguments.out)
        sums = "".join(f"{sha256(file)}  {file.name}\n" for file in files)
        (arguments.out / "SHA256SUMS").write_text(sums)
        if bill is not None:
            (arguments.out / f"neuropil-{PROJECT['version']}.cdx.json").write_text(bill)
    print(sums, end="")


def built_twice(folder: Path) -> list[Path]:
    """The wheel and the source distribution; it fails where two builds differ."""
    first, second = (build(folder / name) for name in ("first", "second"))
    for one, other in zip(first, second, strict=True):
        if sha256(one) != sha256(other):
            sys.exit(f"release: two builds of {one.name} differ")
        print(f"{one.name}: the same bytes twice, {one.stat().st_size / 2**20:.1f} MB")
    return first


def build(folder: Path) -> list[Path]:
    """From the committed files alone, with the time of the commit."""
    folder.mkdir()
    time = output("git", "log", "-1", "--format=%ct")
    run(["git", "-C", str(ROOT), "archive", "--output", str(folder / "source.tar"), "HEAD"])
    with tarfile.open(folder / "source.tar") as files:
        files.extractall(folder / "source", filter="data")
    words = [sys.executable, "-m", "build", "--outdir", str(folder / "dist"), str(folder / "source")]
    run(words, SOURCE_DATE_EPOCH=time, PYTHONHASHSEED="0")
    for file in (folder / "dist").glob("*.tar.gz"):
        normalise(file, int(time))
    return sorted((folder / "dist").iterdir())


def normalise(file: Path, time: int) -> None:
    """setuptools writes the hour of the build and the names of the builder into a source distribution."""
    with tarfile.open(file) as given:
        members = [(each, content.read() if (content := given.extractfile(each)) else b"") for each in given]
    with (
        open(file, "wb") as raw,
        gzip.GzipFile("", "wb", mtime=time, fileobj=raw) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as written,
    ):
        for member, content in sorted(members, key=lambda each: each[0].name):
            plain = tarfile.TarInfo(member.name)
            plain.type, plain.size, plain.mtime = member.type, len(content), time
            plain.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            written.addfile(plain, io.BytesIO(content))


def require_complete(files: Sequence[Path]) -> None:
    """Every file of the package is in the wheel, and in the source distribution."""
    package = {name.removeprefix("src/") for name in output("git", "ls-files", "src").split()}
    for file in files:
        with zipfile.ZipFile(file) if file.suffix == ".whl" else tarfile.open(file) as archive:
            names = archive.namelist() if isinstance(archive, zipfile.ZipFile) else archive.getnames()
        found = {name[name.index("neuropil/") :] for name in names if "neuropil/" in name}
        if missing := sorted(package - found):
            sys.exit(f"release: {file.name} lacks {', '.join(missing[:5])} and {max(0, len(missing) - 5)} more")


def tried(files: Sequence[Path], folder: Path) -> str:
    """The bill of materials of an environment in which the wheel works."""
    wheel = next(file for file in files if file.suffix == ".whl")
    run([sys.executable, "-m", "venv", str(folder / "env")])
    programs = folder / "env" / "bin"
    install = [str(programs / "pip"), "install", "--quiet", "--disable-pip-version-check"]
    run([*install, "--constraint", str(ROOT / "constraints.txt"), TORCH])
    run([*install, "--constraint", str(ROOT / "constraints.txt"), str(wheel)])
    run([str(programs / "pip"), "check"])
    desk = folder / "desk"
    desk.mkdir()
    for command, code, answer in TRIED:
        program, *words = command.split()
        done = subprocess.run([programs / program, *words], cwd=desk, capture_output=True, text=True, check=False)
        said = " ".join((done.stdout + done.stderr).split())
        print(f"$ {command}\n  exit code {done.returncode}, {said[:100]}…")
        if done.returncode != code or answer not in said:
            sys.exit(f"release: {command} must end with {code} and say {answer!r}:\n{done.stdout}{done.stderr}")
    return bill_of_materials(programs / "python")


def bill_of_materials(python: Path) -> str:
    """CycloneDX JSON of all packages of an environment, with the one that is released as its subject."""
    words = ["-m", "cyclonedx_py", "environment", "--pyproject", str(ROOT / "pyproject.toml"), "--output-reproducible"]
    bill = json.loads(output(sys.executable, *words, str(python)))
    print(f"bill of materials: {len(bill['components'])} packages")
    return json.dumps(bill, indent=1) + "\n"


def sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def run(words: Sequence[str], **environment: str) -> None:
    done = subprocess.run(words, env=os.environ | environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"release: {' '.join(words)} failed:\n{done.stdout}{done.stderr}")


def output(*words: str) -> str:
    return subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    main()
