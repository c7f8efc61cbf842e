import itertools
import re
from collections import Counter
from functools import cache

import numpy as np
import pytest
import torch

from neuropil.data.captions.dataset import CaptionedPictures
from neuropil.data.captions.embedded import SIDES, WORDS, Plan, compose, divide_combinations, divide_digits, make_scenes
from neuropil.data.splits import Splits
from neuropil.errors import InputError
from real_data import digits

CAPTION = re.compile(
    r"an? (?P<a>\w+)( (?P<relation>left of|above) an? (?P<b>\w+)"
    r"( and an? (?P<c>\w+) (?P<side>below|above|on the right|on the left))?)?"
)


@pytest.fixture(scope="module", params=[1, 4], ids=["anywhere", "on a raster"])
def splits(request: pytest.FixtureRequest) -> Splits[CaptionedPictures]:
    return make_scenes(300, 60, 120, seed=5, raster=request.param)


def test_digits_stand_on_the_raster_that_was_asked_for():
    scenes = make_scenes(60, 0, 30, seed=1, raster=3)
    places = {
        place for scene in scenes.train.pictures[:, 0].numpy() for _, *corner in found_digits(scene) for place in corner
    }
    assert places == {0, 3, 6, 9, 12, 15}


def parts(splits: Splits[CaptionedPictures]) -> dict[str, CaptionedPictures]:
    return {"train": splits.train, "validation": splits.validation, "test": splits.test}


@cache
def known_digits() -> dict[bytes, int]:
    images, _ = digits()
    return {image.tobytes(): number for number, image in enumerate(images)}


def found_digits(scene: np.ndarray) -> list[tuple[int, int, int]]:
    """Which of scikit-learn's digits lie in a scene, and where: (number, row, column)."""
    known = known_digits()
    places = ((row, column) for row in range(scene.shape[0] - 7) for column in range(scene.shape[1] - 7))
    windows = ((row, column, scene[row : row + 8, column : column + 8].tobytes()) for row, column in places)
    return [(known[window], row, column) for row, column, window in windows if window in known]


def combination(caption: str) -> tuple[str, str, str] | None:
    match = CAPTION.fullmatch(caption)
    assert match is not None, caption
    return (match["relation"], match["a"], match["b"]) if match["relation"] else None


def test_captions_say_what_is_where(splits: Splits[CaptionedPictures]):
    """Read back from the pixels, by an eye that knows only what scikit-learn's digits look like."""
    _, classes = digits()
    for part in parts(splits).values():
        for scene, (caption,) in list(zip(part.pictures[:, 0].numpy(), part.captions, strict=True))[:60]:
            match = CAPTION.fullmatch(caption)
            assert match is not None
            found = {}
            for number, row, column in found_digits(scene):
                found.setdefault(WORDS[classes[number]], []).append((row, column))
            named = [match[name] for name in "abc" if match[name]]
            assert Counter({name: len(places) for name, places in found.items()}) == Counter(named)
            if len(set(named)) < len(named):
                continue  # two of one kind: who is who, the pixels do not say
            places = [found[name][0] for name in named]
            if len(named) > 1:
                along, across = (1, 0) if match["relation"] == "left of" else (0, 1)
                assert places[1][along] >= places[0][along] + 8
                assert abs(places[1][across] - places[0][across]) <= 1
                if len(named) == 3:
                    after = match["side"] in ("below", "on the right")
                    assert match["side"] in SIDES[match["relation"]]
                    assert all((places[2][across] - place[across]) * (1 if after else -1) >= 8 for place in places[:2])


def test_there_is_one_way_only_to_say_what_is_where(splits: Splits[CaptionedPictures]):
    """Of three digits two are in line; if two pairs were, either could be named first."""
    for scene, group in zip(splits.train.pictures[:, 0].numpy(), splits.train.groups, strict=True):
        if group == "three digits":
            places = [(row, column) for _, row, column in found_digits(scene)]
            in_line = [min(abs(a[0] - b[0]), abs(a[1] - b[1])) <= 2 for a, b in itertools.combinations(places, 2)]
            assert sum(in_line) == 1


def test_no_two_parts_share_a_hand_written_digit(splits: Splits[CaptionedPictures]):
    used = {
        name: {number for scene in part.pictures[:, 0].numpy() for number, _, _ in found_digits(scene)}
        for name, part in parts(splits).items()
    }
    assert all(len(numbers) > 50 for numbers in used.values())
    assert not used["train"] & used["test"]
    assert not used["train"] & used["validation"]
    assert not used["validation"] & used["test"]


def test_what_is_scored_are_combinations_that_training_has_not_seen(splits: Splits[CaptionedPictures]):
    seen = {name: {combination(text) for text in part.texts} - {None} for name, part in parts(splits).items()}
    assert not seen["train"] & seen["test"]
    assert not seen["train"] & seen["validation"]
    assert not seen["validation"] & seen["test"]
    assert len(seen["test"]) == 30
    assert all(combination(text) is not None for text in [*splits.test.texts, *splits.validation.texts])


def test_every_word_of_the_test_part_occurs_in_training():
    for seed in range(3):
        splits = make_scenes(4_000, 0, 500, seed)
        assert {word for text in splits.test.texts for word in text.split()} <= {
            word for text in splits.train.texts for word in text.split()
        }


def test_digits_and_combinations_are_divided_without_a_rest():
    digit_parts, combinations = divide_digits(3), divide_combinations(3)
    assert sorted(torch.cat(list(digit_parts.values())).tolist()) == list(range(1797))
    assert len(digit_parts["test"]) == round(0.2 * 1797)
    assert sum(map(len, combinations.values())) == 200
    assert len({each for part in combinations.values() for each in part}) == 200


def test_an_eight_is_an_eight():
    assert Plan((8,)).caption == "an eight"
    assert Plan((8, 1), "above").caption == "an eight above a one"
    assert Plan((2, 5, 9), "left of", "below").caption == "a two left of a five and a nine below"
    assert Plan((3, 8, 8), "above", "on the left").caption == "a three above an eight and an eight on the left"


def test_the_same_seed_gives_the_same_scenes_and_another_gives_others():
    first, again, other = (make_scenes(50, 5, 20, seed) for seed in (1, 1, 2))
    assert torch.equal(first.test.pictures, again.test.pictures)
    assert first.train.captions == again.train.captions
    assert not torch.equal(first.test.pictures, other.test.pictures)


def test_digits_of_a_scene_lie_apart():
    plans = [Plan((8, 8, 8), relation, side) for relation in SIDES for side in SIDES[relation]] * 15
    scenes = compose(plans, divide_digits(0)["train"], seed=0)
    ink = [len(found_digits(scene)) for scene in scenes[:, 0].numpy()]
    assert min(ink) == 3


def test_scenes_to_learn_from_and_to_score_are_needed():
    with pytest.raises(InputError) as error:
        make_scenes(100, 0, 0)
    assert str(error.value) == "scenes are needed to learn from and to score, but got 100 and 0."
