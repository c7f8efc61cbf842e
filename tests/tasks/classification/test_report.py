import torch

from neuropil.data.examples.dataset import Examples, Schema
from neuropil.inspection.report.page import Gallery
from neuropil.tasks.classification.report import data_section


def captions_shown(targets: list[int], classes: tuple[str, ...]) -> list[str]:
    schema = Schema(kind="image", shape=(1, 2, 2), classes=classes)
    inputs = torch.zeros(len(targets), 1, 2, 2, dtype=torch.uint8)
    labels = torch.tensor(targets) if classes else torch.tensor(targets, dtype=torch.float32)[:, None]
    section = data_section({"train": Examples(inputs, labels, schema, "pictures")}, None)
    (gallery,) = (block for block in section.blocks if isinstance(block, Gallery))
    return [each.caption for each in gallery.items]


def test_pictures_of_all_classes_are_shown_though_files_come_one_class_after_the_other():
    shown = captions_shown([0] * 40 + [1] * 3 + [2] * 40, ("cat", "dog", "fish"))
    assert shown == [*("cat", "dog", "fish") * 3, "cat", "fish", "cat"]


def test_pictures_with_numbers_are_shown_in_their_order():
    assert captions_shown([5, 3, 5], ()) == ["5", "3", "5"]
