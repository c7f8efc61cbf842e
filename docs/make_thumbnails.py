"""`make lab-pictures`: small pictures of the systems for the lab's first page, from the pictures of the docs.

A system whose page has no picture of its own name gets the first one that its page shows."""

import io
import re
import subprocess
from pathlib import Path

from PIL import Image

from neuropil.recipes import SYSTEMS

DOCS = Path(__file__).parent
TARGET = DOCS.parent / "src" / "neuropil" / "lab" / "page" / "pictures"
WIDTH, HEIGHT = 448, 252


def picture_of(page: Path, name: str) -> Path | None:
    own = DOCS / "pictures" / f"{name.replace('_', '-')}.svg"
    if own.is_file():
        return own
    shown = re.findall(r"pictures/([\w-]+\.svg)", page.read_text(encoding="utf-8"))
    return DOCS / "pictures" / shown[0] if shown else None


def main() -> None:
    TARGET.mkdir(exist_ok=True)
    for system in SYSTEMS:
        drawn = picture_of(DOCS / "systems" / system.page, system.name)
        if drawn is None:
            print(f"{system.name}: no picture")
            continue
        png = subprocess.run(  # noqa: S603
            ["rsvg-convert", "--width", str(2 * WIDTH), "--background-color", "white", str(drawn)],  # noqa: S607
            check=True,
            capture_output=True,
        ).stdout
        image = Image.open(io.BytesIO(png)).convert("RGB")
        image.thumbnail((WIDTH, HEIGHT), Image.Resampling.LANCZOS)
        image.save(TARGET / f"{system.name}.webp", quality=80, method=6)


if __name__ == "__main__":
    main()
