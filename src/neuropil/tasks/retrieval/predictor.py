"""A trained CLIP: embeddings of images and texts in one space, zero-shot classification, and search among a user's
images."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from neuropil.data.captions.batches import MatchingBatches, encode_matches, padded_captions
from neuropil.data.captions.dataset import CaptionedPictures
from neuropil.data.captions.files import read_captions
from neuropil.data.examples.files import pictures_of, read_pictures
from neuropil.data.formats.images import GREY_MODES, convert, images_below, is_image, open_image, require_pixels
from neuropil.data.formats.images import read_images as read_images
from neuropil.data.tokenizers.published import PublishedTokenizer
from neuropil.errors import InputError
from neuropil.inspection.report.page import Block, Gallery, Report, Section, Text, Thumbnail, write_report
from neuropil.models.clip import CLIP, ContrastiveMatching
from neuropil.progress import tracked
from neuropil.tasks.captioning.predictor import CaptionColumns
from neuropil.tasks.predictor import Predictions, Source, device_of, only_source
from neuropil.tasks.retrieval.scores import POOL
from neuropil.training.evaluation import evaluate

AT_ONCE = 128
SHOWN_SIDE = 240
"""Pixels of a picture on the page, at most."""


@dataclass(frozen=True)
class Embeddings:
    vectors: Float[Tensor, "example shared"]
    """Of unit length: the product of two is their cosine similarity, from −1 to 1."""

    def __len__(self) -> int:
        return len(self.vectors)

    def lines(self) -> list[list[str]]:
        return [[f"{value:.5f}" for value in row] for row in self.vectors.tolist()]

    def records(self) -> list[dict[str, Any]]:
        return [{"vector": row} for row in self.vectors.tolist()]


@dataclass(frozen=True)
class Retriever:
    model: CLIP
    tokenizer: PublishedTokenizer
    columns: CaptionColumns = field(default_factory=CaptionColumns)

    @classmethod
    def restore(cls, model: CLIP, facts: Mapping[str, Any], folder: Path) -> Self:
        return cls(model, PublishedTokenizer.restore(folder), facts["columns"])

    def predict(self, inputs: Any) -> Embeddings:
        """Embeddings of images: bytes as a tensor or an array, one or several, or the path or paths of files."""
        return Embeddings(self.embed_images(pictures_of(inputs, self.model.config.vision.shape)))

    def read(self, paths: Sequence[Path]) -> tuple[Tensor, list[str]]:
        return read_pictures(paths, self.model.config.vision.shape)

    def read_labelled(self, source: Source) -> CaptionedPictures:
        given = only_source(source, "captions are read from")
        return read_captions(given, shape=self.model.config.vision.shape, **self.columns)[0]

    def evaluate(self, pictures: CaptionedPictures) -> dict[str, float]:
        matches = encode_matches(pictures, self.tokenizer, self.model.config.text.context)
        batches = MatchingBatches(matches, POOL, seed=0, shuffle=False, device=device_of(self.model))
        return evaluate(ContrastiveMatching(self.model), batches)

    def search(self, paths: Sequence[Path]) -> "ImageSearch":
        return ImageSearch(self, paths)

    @torch.no_grad()
    def embed_images(self, images: UInt8[Tensor, "image channel height width"]) -> Float[Tensor, "image shared"]:
        portions, device = tracked(images.split(AT_ONCE), "Looking at pictures"), device_of(self.model)
        return torch.cat([self.model.embed_pictures(some.to(device)).cpu() for some in portions])

    @torch.no_grad()
    def embed_texts(self, texts: Sequence[str]) -> Float[Tensor, "text shared"]:
        if not texts or not all(text.strip() for text in texts):
            raise InputError("a text must say something", got="an empty one" if texts else "none")
        tokens, _ = padded_captions(list(texts), self.tokenizer, self.model.config.text.context)
        device = device_of(self.model)
        return torch.cat([self.model.embed_texts(some.long().to(device)).cpu() for some in tokens.split(AT_ONCE)])

    def classify_images(self, images: UInt8[Tensor, "image channel height width"], texts: Sequence[str]) -> Predictions:
        """Zero-shot classification: which of the texts fits each image best, and how surely."""
        return self.classify_embedded(self.embed_images(images), texts)

    @torch.no_grad()
    def classify_embedded(self, images: Float[Tensor, "image shared"], texts: Sequence[str]) -> Predictions:
        """The same for images that were embedded before."""
        device = device_of(self.model)
        # p(text j | image i) = softmax_j(z_ij)
        logits = self.model.compare(images.to(device), self.embed_texts(texts).to(device))
        return Predictions(logits.softmax(-1).cpu(), tuple(texts))


@dataclass(frozen=True)
class Ranking:
    """What was asked for, and the files that fit it best, with their cosine similarity, the best first."""

    query: str
    files: list[Path]
    scores: list[float]


class ImageSearch:
    """Images that were embedded once, to be searched as often as one likes."""

    def __init__(self, retriever: Retriever, paths: Sequence[Path]):
        self.retriever, self.files = retriever, image_files(paths)
        self.vectors: Float[Tensor, "image shared"] = retriever.embed_images(self._read(self.files))

    def rank(self, query: str, top: int | None = None) -> Ranking:
        """By a text, or by the picture in a file of that name; the latter is not found again among the others."""
        asked = Path(query) if is_image(Path(query)) and Path(query).is_file() else None
        embed = (
            self.retriever.embed_texts if asked is None else lambda _: self.retriever.embed_images(self._read([asked]))
        )
        scores = (self.vectors @ embed([query])[0]).tolist()
        order = sorted(range(len(scores)), key=lambda index: -scores[index])
        if asked is not None:
            order = [index for index in order if self.files[index].resolve() != asked.resolve()]
        return Ranking(query, [self.files[index] for index in order[:top]], [scores[index] for index in order[:top]])

    def classify(self, texts: Sequence[str]) -> Predictions:
        """Which of the texts fits each image best."""
        return self.retriever.classify_embedded(self.vectors, texts)

    def write_page(self, path: Path, rankings: Sequence[Ranking]) -> None:
        """The images that were found, on one page."""
        sections = []
        for each in rankings:
            thumbnails = [_thumbnail(file, score) for file, score in zip(each.files, each.scores, strict=True)]
            sections.append(Section(each.query, list[Block]([Gallery(thumbnails)])))
        words = "The cosine similarity, from −1 to 1, of the picture found and of what was asked for."
        note = Section("What the numbers say", [Text(words)])
        summary = f"The best of {len(self.files):,} pictures."
        write_report(path, Report("neuropil · search", summary, [*sections, note]))

    def _read(self, files: Sequence[Path]) -> UInt8[Tensor, "image channel height width"]:
        return read_images(files, self.retriever.model.config.vision.shape).values


def image_files(paths: Sequence[Path]) -> list[Path]:
    """All images in the folders, at any depth, and the files themselves."""
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
            rule = "pictures are read from image files, such as PNG or JPEG, and folders of them"
            raise InputError(rule, got=path.name)
        else:
            found.append(path)
    if not found:
        raise InputError("a search needs pictures to look at", got="none", fix="add --images with a folder or files")
    return list(dict.fromkeys(found))


def _thumbnail(file: Path, score: float) -> Thumbnail:
    import numpy as np
    from PIL import ImageOps

    with open_image(file) as image:
        image.draft(image.mode, (2 * SHOWN_SIDE, 2 * SHOWN_SIDE))
        require_pixels(image, file.name)
        upright = convert(ImageOps.exif_transpose(image), "L" if image.mode in GREY_MODES else "RGB", file.name)
        upright.thumbnail((SHOWN_SIDE, SHOWN_SIDE))
        return Thumbnail(np.array(upright), file.name, f"{score:.3f}")
