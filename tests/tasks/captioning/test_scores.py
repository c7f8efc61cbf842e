import pytest
import sacrebleu
import torch

from neuropil.data.captions.dataset import CaptionedPictures
from neuropil.data.splits import Splits
from neuropil.tasks.captioning.scores import baselines, nearest_captions, score_captions


def test_any_of_a_pictures_captions_may_be_met():
    scores = score_captions(["a dog , at home", "a cat"], [["a dog, at home", "a dog"], ["the cat"]])
    assert scores["exact_accuracy"] == 0.5


def test_bleu_is_sacrebleus():
    ours, theirs = (
        ["the cat sat on the mat", "a dog"],
        [["the cat sat on a mat", "a cat sat there"], ["a dog ran away", "a dog is here"]],
    )
    assert score_captions(ours, theirs)["bleu"] == pytest.approx(
        sacrebleu.corpus_bleu(ours, [list(each) for each in zip(*theirs, strict=True)]).score
    )


def test_pictures_may_have_different_numbers_of_captions():
    scores = score_captions(
        ["the cat sat on a mat", "a dog ran very fast"], [["the cat sat on a mat"], ["no", "a dog ran very fast"]]
    )
    assert scores["bleu"] == pytest.approx(100)
    assert scores["exact_accuracy"] == 1


def test_captions_of_three_words_that_are_all_right_have_the_full_bleu():
    captions = ["a red square", "a blue circle"]
    assert score_captions(captions, [[text] for text in captions])["bleu"] == pytest.approx(100)


def test_single_words_have_no_bleu():
    assert set(score_captions(["seven"], [["seven"]])) == {"exact_accuracy"}


def test_a_word_that_is_not_known_is_never_right():
    assert score_captions(["a \N{REPLACEMENT CHARACTER}"], [["a platypus"]])["exact_accuracy"] == 0


def test_the_nearest_picture_is_the_one_whose_pixels_differ_least():
    torch.manual_seed(0)
    pictures = torch.randint(0, 256, (300, 1, 5, 5), dtype=torch.uint8)
    train = CaptionedPictures(pictures, [[str(index), "other"] for index in range(300)], (), "")
    noisy = (pictures.int() + torch.randint(-9, 10, pictures.shape)).clamp(0, 255).to(torch.uint8)
    assert nearest_captions(train, noisy) == [str(index) for index in range(300)]
    test = CaptionedPictures(noisy[:2], [["0"], ["5"]], (), "")
    found = baselines(Splits(train, test, test, ()))
    assert found == {
        "the caption of the nearest training picture": ["0", "1"],
        "the most common caption": ["other", "other"],
    }
