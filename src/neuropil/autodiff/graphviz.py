"""Order and coordinates by graphviz's `dot`, where it is installed; rows and bends stay ours, so that boxes open
alike."""

import shutil
import subprocess

from neuropil.autodiff.layout import SPACE, Level

POINTS = 72.0  # in an inch, which is what dot measures in


def dot_is_installed() -> bool:
    return shutil.which("dot") is not None


def place_by_dot(level: Level) -> None:
    """Give each item the x that dot finds for it, and each row dot's order."""
    program = shutil.which("dot")
    if program is None:
        raise FileNotFoundError("dot")
    plain = subprocess.run(  # noqa: S603 - graphviz, on text that holds nothing but numbers
        [program, "-Tplain"], input=_dot_text(level), capture_output=True, text=True, check=True
    ).stdout
    nodes = (line.split() for line in plain.splitlines() if line.startswith("node "))
    middles = {int(name): float(x) * POINTS for _, name, x, *_ in nodes}
    for number, item in enumerate(item for row in level.rows for item in row):
        item.x = middles[number]
    for row in level.rows:
        row.sort(key=lambda item: item.x)


def _dot_text(level: Level) -> str:
    number = {item: i for i, item in enumerate(item for row in level.rows for item in row)}
    lines = [f'digraph {{ nodesep={SPACE / POINTS:.3f}; node [shape=box, fixedsize=true, label=""]']
    sizes = {i: (item.width / POINTS, max(item.height, 1) / POINTS) for item, i in number.items()}
    lines += [f"{i} [width={width:.3f}, height={height:.3f}]" for i, (width, height) in sizes.items()]
    lines += [f"{{ rank=same; {'; '.join(str(number[item]) for item in row)} }}" for row in level.rows if row]
    for link in level.links:
        lines.append(f"{number[link.source]} -> {number[link.target]} [weight={max(1, round(level.pull(link)))}]")
    return "\n".join([*lines, "}"])
