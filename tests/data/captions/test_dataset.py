import torch

from neuropil.data.captions.dataset import CaptionedPictures


def test_some_pictures_bring_their_own_captions():
    pictures = torch.arange(3 * 4, dtype=torch.uint8).reshape(3, 1, 2, 2)
    data = CaptionedPictures(pictures, [["a"], ["b", "c"], ["d"]], ["x", "y", "x"], "three")
    some = data.take(torch.tensor([1, 0]))
    assert torch.equal(some.pictures, pictures[[1, 0]])
    assert (some.captions, some.groups, some.source) == ([["b", "c"], ["a"]], ["y", "x"], "three")
    assert (data.texts, len(data), data.shape) == (["a", "b", "c", "d"], 3, (1, 2, 2))
    assert CaptionedPictures(pictures, data.captions, (), "").take(torch.tensor([2])).groups == ()
