"""A caption word by word: where the model looks at each word, and what else it could have said."""

from typing import Any, cast

from neuropil.config import Config, option
from neuropil.errors import InputError
from neuropil.lab.pictures import rounded, rows_of
from neuropil.lab.scenes import offered_scenes, scenes
from neuropil.runs.run import Run
from neuropil.tasks.captioning.predictor import CaptionWriter

MOST_SCENES, MOST_BEAMS = 24, 6


class CaptionRequest(Config):
    example: int = option(0, "number of the held-out picture", low=0, high=MOST_SCENES - 1)
    beam: int = option(1, "beam width", low=1, high=MOST_BEAMS)


def open_view(run: Run) -> dict[str, Any]:
    writer = cast(CaptionWriter, run.predictor)
    if not writer.model.config.attention:
        raise InputError(
            "the view captions opens captioners with attention",
            got="one without",
            fix="train it without --no-attention",
        )
    return {
        "system": run.name,
        "grid": list(writer.model.config.grid),
        "beams": MOST_BEAMS,
        "examples": offered_scenes(scenes(run, MOST_SCENES)),
        **CaptionRequest().to_dict(),
        "shown": caption(run, CaptionRequest()),
    }


def caption(run: Run, request: CaptionRequest) -> dict[str, Any]:
    writer, pictures = cast(CaptionWriter, run.predictor), scenes(run, MOST_SCENES)
    number = min(request.example, len(pictures) - 1)
    picture = pictures.pictures[number : number + 1]
    found = writer.caption(picture, beam_width=request.beam)
    words, maps = writer.attention(picture, found.texts)[0]
    return {
        "picture": rows_of(picture[0]),
        "caption": found.texts[0],
        "log_probability": found.log_probabilities[0],
        "references": list(pictures.captions[number]),
        "words": [
            {
                "word": word,
                "map": rounded(weights, 6),
                "share": each.share,
                "alternatives": [list(pair) for pair in each.alternatives],
            }
            for word, weights, each in zip(words, maps, writer.alternatives(picture, found.texts[0]), strict=True)
        ],
    }


ACTIONS = {"open": open_view, "caption": caption}
