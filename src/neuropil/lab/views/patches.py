"""Attention over the patches of a picture: where each head looks from the class token or from a patch, what reaches it
through all layers, and the answer without some of the heads. Of CLIP the vision tower, and texts beside pictures."""

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor

from neuropil.config import option
from neuropil.errors import InputError
from neuropil.inspection.attention_spread import distance, entropy
from neuropil.inspection.heads import masked_heads
from neuropil.inspection.recording import record
from neuropil.lab.bounds import require_length
from neuropil.lab.heads import MOST_HEADS, HeadsRequest, change, layers_of, require_layer, rolled_out
from neuropil.lab.pictures import MOST_PIXELS, PictureRequest, chosen_picture, offered, rounded, rows_of
from neuropil.lab.scenes import offered_scenes, scenes
from neuropil.models.attention import PatchAttention
from neuropil.models.clip import CLIP
from neuropil.models.vit import ViT
from neuropil.runs.run import Run
from neuropil.tasks.classification.threats import require_classes
from neuropil.tasks.predictor import device_of
from neuropil.tasks.retrieval.predictor import Retriever

MOST_ANSWERS, MOST_SCENES, MOST_TEXTS, MOST_CHARACTERS = 10, 12, 8, 120
CLASS_TOKEN = -1


class LookRequest(PictureRequest, HeadsRequest):
    layer: str = option("", "name of the attention module that is shown; the last by default")
    head: int = option(0, "its head, from 0", low=0, high=MOST_HEADS)
    query: int = option(
        CLASS_TOKEN,
        "the patch that looks, row by row from 0; −1 for the class token",
        low=CLASS_TOKEN,
        high=MOST_PIXELS,
    )

    def validate(self) -> None:
        PictureRequest.validate(self)
        HeadsRequest.validate(self)


class MatchRequest(HeadsRequest):
    texts: tuple[str, ...] = option(("a six",), "texts to compare with the pictures")

    def validate(self) -> None:
        super().validate()
        require_length("texts", self.texts, MOST_TEXTS, fewest=1)
        for text in self.texts:
            require_length("a text", text, MOST_CHARACTERS)


def open_view(run: Run) -> dict[str, Any]:
    layers = layers_of(run.model, vision_of(run.model))
    if not layers:
        raise InputError("attention is shown of models with heads", got="one whose heads were all removed")
    request = LookRequest(layer=layers[-1]["name"], query=CLASS_TOKEN if has_class_token(run.model) else 0)
    facts = {
        "system": run.name,
        "layers": layers,
        "grid": list(grid_of(run.model)),
        "class_token": has_class_token(run.model),
        "layer": request.layer,
        "head": request.head,
        "query": request.query,
        "off": [],
    }
    if isinstance(run.predictor, Retriever):
        pictures = scenes(run, MOST_SCENES)
        texts = [captions[0] for captions in pictures.captions[:MOST_TEXTS]]
        match = {"texts": texts, "match": compare(run, MatchRequest(texts=tuple(texts)))}
        return {**facts, "examples": offered_scenes(pictures), **match, "shown": look(run, request)}
    require_classes(run.predictor.schema, run.folder.name)
    return {**facts, **offered(run), "texts": None, "shown": look(run, request)}


@torch.no_grad()
def look(run: Run, request: LookRequest) -> dict[str, Any]:
    model, off = run.model, request.removed
    retrieves = isinstance(run.predictor, Retriever)
    picture = chosen_scene(run, request) if retrieves else chosen_picture(run, request)
    before = None if retrieves else run.predict(picture).scores[0]
    with masked_heads(model, off) if off else nullcontext():
        with record(model, layers=f"{vision_of(model)}*") as tape:
            seen = picture.to(device_of(model))
            model.vision(seen) if isinstance(model, CLIP) else model(seen)
        after = run.predict(picture).scores[0] if off and not retrieves else before
    weights = {name: each.cpu() for name, each in tape.attention.items() if each.shape[1]}
    require_layer(weights, request.layer or next(reversed(weights)), request.head)
    rows, columns = grid_of(model)
    row = request.query + has_class_token(model)
    if not 0 <= row < rows * columns + has_class_token(model):
        raise InputError(f"query must be one of the {rows * columns} patches, counted from 0", got=f"{request.query}")
    classes = run.predictor.schema.classes if before is not None else ()
    return {
        "picture": rows_of(picture[0]),
        "glance": [head_maps(name, each[0], row, (rows, columns)) for name, each in weights.items()],
        "rollout": rounded(on_grid(rolled_out(weights, off)[row], (rows, columns)), 6),
        "answers": []
        if before is None or after is None
        else [{"title": "Class", "rows": change(before, after, lambda index: classes[index], MOST_ANSWERS)}],
    }


def head_maps(name: str, weights: Float[Tensor, "head place place"], row: int, grid: tuple[int, int]) -> dict[str, Any]:
    """The weights of one query over the grid, with the entropy of all queries, and how far patches look among patches,
    in patches."""
    first = weights.shape[-1] - grid[0] * grid[1]
    among = weights[:, first:, first:]
    places = torch.cartesian_prod(*(torch.arange(float(side)) for side in grid))
    far = distance(among / among.sum(-1, keepdim=True).clamp(min=1e-12), places)
    return {
        "name": name,
        "maps": rounded(on_grid(weights[:, row], grid), 6),
        "entropy": entropy(weights).mean(-1).tolist(),
        "distance": far.mean(-1).tolist(),
    }


def on_grid(weights: Float[Tensor, "*head place"], grid: tuple[int, int]) -> Float[Tensor, "*head row column"]:
    """Without the class token, which stands before the patches."""
    patches = weights[..., weights.shape[-1] - grid[0] * grid[1] :]
    return rearrange(patches, "... (row column) -> ... row column", row=grid[0])


@torch.no_grad()
def compare(run: Run, request: MatchRequest) -> dict[str, Any]:
    """Texts with the held-out pictures, by the whole model and without the removed heads."""
    if not isinstance(run.predictor, Retriever):
        raise InputError("texts are compared with pictures by a run of clip", got=f"a run of {run.name}")
    pictures, off = scenes(run, MOST_SCENES).pictures, request.removed
    whole = matched(run.predictor, pictures, request.texts)
    with masked_heads(run.model, off) if off else nullcontext():
        similarity, probabilities = matched(run.predictor, pictures, request.texts) if off else whole
    return {
        "similarity": rounded(similarity, 5),
        "before": rounded(whole[1], 6),
        "probabilities": rounded(probabilities, 6),
    }


def matched(
    retriever: Retriever, pictures: Tensor, texts: Sequence[str]
) -> tuple[Float[Tensor, "text picture"], Float[Tensor, "text picture"]]:
    """Cosines, and the probabilities of the texts for each picture."""
    seen = retriever.embed_images(pictures)
    return retriever.embed_texts(texts) @ seen.T, retriever.classify_embedded(seen, texts).scores.T


# --- models and their pictures ----------------------------------------------------------------------------------------


def vision_of(model: Any) -> str:
    """How the names of the modules that see begin."""
    return "vision." if isinstance(model, CLIP) else ""


def has_class_token(model: Any) -> bool:
    return isinstance(model, ViT | CLIP)


def grid_of(model: Any) -> tuple[int, int]:
    if isinstance(model, PatchAttention):
        return model.config.grid
    return (model.vision if isinstance(model, CLIP) else model).patches.grid


def chosen_scene(run: Run, request: LookRequest) -> Tensor:
    number = min(request.example, len(scenes(run, MOST_SCENES)) - 1)
    return scenes(run, MOST_SCENES).pictures[number : number + 1]


ACTIONS = {"open": open_view, "look": look, "compare": compare}
