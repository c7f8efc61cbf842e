"""Write `requirements.lock`: every package that neuropil and its extras need, with its version and its hash, as
`make lock` finds them for this Python and platform under the versions of constraints.txt.

pip install --require-hashes --no-deps --requirement requirements.lock
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
LOCK = ROOT / "requirements.lock"
HEAD = """\
# Made by `make lock` for {implementation} {python} on {platform}: neuropil[all] with the hashes of its packages' files.
# pip install --require-hashes --no-deps --requirement requirements.lock
# torch is the build that the package index in use offers for {torch}; an index with other builds has other hashes, so
# that one who installs from it makes the lock anew.
"""


def main() -> None:
    report = resolved()
    packages = [each for each in report["install"] if each["metadata"]["name"] != "neuropil"]
    lines = sorted(map(line, packages), key=str.lower)
    LOCK.write_text(head(report, packages) + "".join(lines), encoding="utf-8")
    print(f"{LOCK.name}: {len(lines)} packages")


def resolved() -> dict[str, Any]:
    """What pip would install, without installing it."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        options = ["--dry-run", "--ignore-installed", "--quiet", "--report", str(report)]
        options += ["--constraint", str(ROOT / "constraints.txt"), f"{ROOT}[all]"]
        subprocess.run([sys.executable, "-m", "pip", "install", *options], check=True)
        return json.loads(report.read_text(encoding="utf-8"))


def head(report: Mapping[str, Any], packages: list[Mapping[str, Any]]) -> str:
    facts = report["environment"]
    torch = next(each["metadata"]["version"] for each in packages if each["metadata"]["name"] == "torch")
    platform = f"{facts['platform_system']} {facts['platform_machine']}"
    python, implementation = facts["python_version"], facts["platform_python_implementation"]
    return HEAD.format(implementation=implementation, python=python, platform=platform, torch=torch)


def line(package: Mapping[str, Any]) -> str:
    name, version = package["metadata"]["name"], package["metadata"]["version"]
    found = package["download_info"]["archive_info"]["hashes"]["sha256"]
    return f"{name}=={version.partition('+')[0]} --hash=sha256:{found}\n"


if __name__ == "__main__":
    main()
