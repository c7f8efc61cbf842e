"""Pictures of the user's, ranked by how well they fit a text or another picture, by any CLIP: a run's, or one in a Hugging Face folder."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jaxtyping import Float, UInt8
from torch import Tensor

from neuropil.data.formats.images import images_below, is_image, read_pictures
from neuropil.errors import InputError
from neuropil.inspection.report.page import Block, Gallery, Report, Section, Text, Thumbnail, write_report
from neuropil.tasks.recipe import Predictions
from neuropil.tasks.retrieval.experiment import Matcher

SHOWN_SIDE = 240
"""Pixels of a picture on the page, at most."""


@dataclass(frozen=True)
class Ranking:
    """What was asked for, and the files that fit it best, with their similarity from −1 to 1, the best first."""

    query: str
    files: list[Path]
    scores: list[float]


class PictureSearch:
    """Pictures that were looked at once, to be asked for as often as one likes."""

    def __init__(self, matcher: Matcher, paths: Sequence[Path]):
        self.matcher, self.files = matcher, picture_files(paths)
        self.vectors: Float[Tensor, "picture shared"] = matcher.see(self._read(self.files))

    def rank(self, query: str, top: int | None = None) -> Ranking:
        """By a text, or by the picture in a file of that name; the latter is not found again among the others."""
        asked = Path(query) if is_image(Path(query)) and Path(query).is_file() else None
        vector = self.matcher.understand([query]) if asked is None else self.matcher.see(self._read([asked]))
        scores = (self.vectors @ vector[0]).tolist()
        order = sorted(range(len(scores)), key=lambda index: -scores[index])
        if asked is not None:
            order = [index for index in order if self.files[index].resolve() != asked.resolve()]
        return Ranking(query, [self.files[index] for index in order[:top]], [scores[index] for index in order[:top]])

    def classify(self, texts: Sequence[str]) -> Predictions:
        """Which of the texts fits each picture best."""
        return self.matcher.classes_of(self.vectors, texts)

    def _read(self, files: Sequence[Path]) -> UInt8[Tensor, "picture channel height width"]:
        return read_pictures(files, self.matcher.model.config.vision.shape).values


def picture_files(paths: Sequence[Path]) -> list[Path]:
    """All pictures in the folders, at any depth, and the files themselves."""
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside = images_below(path)
            if not inside:
                raise InputError("a folder to search must hold pictures", got=f"none in {path.as_posix()!r}")
            found += inside
        elif not path.exists():
            raise InputError("pictures are read from files that exist", got=f"{path.as_posix()!r}")
        elif not is_image(path):
            raise InputError(
                "pictures are read from image files, such as PNG or JPEG, and folders of them", got=path.name
            )
        else:
            found.append(path)
    if not found:
        raise InputError("a search needs pictures to look at", got="none", fix="add --images with a folder or files")
    return list(dict.fromkeys(found))


def write_page(path: Path, rankings: Sequence[Ranking], count: int) -> None:
    """The pictures that were found, on one page."""
    sections = [
        Section(
            each.query,
            list[Block](
                [Gallery([_thumbnail(file, score) for file, score in zip(each.files, each.scores, strict=True)])]
            ),
        )
        for each in rankings
    ]
    note = Section(
        "What the numbers say",
        [Text("The cosine of two vectors, from −1 to 1: of the picture found and of what was asked for.")],
    )
    write_report(path, Report("neuropil · search", f"The best of {count:,} pictures.", [*sections, note]))


def _thumbnail(file: Path, score: float) -> Thumbnail:
    import numpy as np
    from PIL import ImageOps

    from neuropil.data.formats.images import GREY_MODES, convert, open_image

    with open_image(file) as image:
        upright = convert(ImageOps.exif_transpose(image), "L" if image.mode in GREY_MODES else "RGB")
        upright.thumbnail((SHOWN_SIDE, SHOWN_SIDE))
        return Thumbnail(np.array(upright), file.name, f"{score:.3f}")
