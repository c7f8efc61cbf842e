import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from neuropil.data.augmentation import Augment
from neuropil.data.examples.batches import ExampleBatches
from neuropil.data.examples.dataset import Examples, Schema
from neuropil.protocols import Batch, Batches


def numbered_images(count: int) -> Examples:
    """Pictures of noise whose target is their own number."""
    images = torch.randint(0, 256, (count, 1, 4, 5), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    return Examples(
        images,
        torch.arange(count),
        Schema(kind="image", shape=(1, 4, 5), classes=tuple(map(str, range(count)))),
        "noise",
    )


def same(a: list[Batch], b: list[Batch]) -> bool:
    return len(a) == len(b) and all(
        torch.equal(x["input"], y["input"]) and torch.equal(x["target"], y["target"]) for x, y in zip(a, b, strict=True)
    )


counts, sizes, seeds = st.integers(0, 50), st.integers(1, 60), st.integers(0, 10**9)


@settings(deadline=None)
@given(counts, sizes, seeds, st.integers(0, 1000), st.booleans())
def test_a_pass_shows_each_example_once(count: int, size: int, seed: int, number: int, shuffle: bool):
    examples = numbered_images(count)
    batches = ExampleBatches(examples, size, seed, shuffle=shuffle)
    shown = list(batches.epoch(number))
    assert isinstance(batches, Batches)
    assert len(shown) == len(batches)
    assert all(len(batch["input"]) == size for batch in shown[:-1])
    assert sorted(torch.cat([batch["target"] for batch in shown]).tolist() if shown else []) == list(range(count))
    assert all(torch.equal(batch["input"], examples.inputs[batch["target"]]) for batch in shown)


@settings(deadline=None)
@given(counts, sizes, seeds, st.integers(0, 9), st.integers(0, 9))
def test_a_pass_that_goes_on_from_a_batch_is_the_tail_of_the_whole_pass(
    count: int, size: int, seed: int, number: int, start: int
):
    batches = ExampleBatches(
        numbered_images(count), size, seed, shuffle=True, augment=Augment(shift=2, rotate=30, zoom=0.3, flip=True)
    )
    assert same(list(batches.epoch(number, start)), list(batches.epoch(number))[start:])


def test_passes_differ_by_number_and_by_seed_and_repeat_for_both():
    examples = numbered_images(50)
    first, again = (ExampleBatches(examples, 8, 7, shuffle=True) for _ in range(2))
    other = ExampleBatches(examples, 8, 8, shuffle=True)
    assert same(list(first.epoch(3)), list(again.epoch(3)))
    assert not same(list(first.epoch(3)), list(first.epoch(4)))
    assert not same(list(first.epoch(3)), list(other.epoch(3)))


def test_each_batch_and_each_pass_is_augmented_anew():
    examples = numbered_images(1)
    twice = Examples(examples.inputs.repeat(2, 1, 1, 1), torch.tensor([0, 0]), examples.schema, "twice the same")
    batches = ExampleBatches(twice, 1, 0, shuffle=False, augment=Augment(rotate=90))
    (a, b), (c, _) = list(batches.epoch(0)), list(batches.epoch(1))
    assert not torch.equal(a["input"], b["input"])
    assert not torch.equal(a["input"], c["input"])


def test_batches_in_order_are_views_of_the_data():
    examples = numbered_images(10)
    (batch,) = ExampleBatches(examples, 10, 0, shuffle=False).epoch(0)
    assert batch["input"].data_ptr() == examples.inputs.data_ptr()


def test_batches_arrive_on_the_device():
    (batch,) = ExampleBatches(numbered_images(3), 3, 0, shuffle=True, device="meta").epoch(0)
    assert {values.device.type for values in batch.values()} == {"meta"}


@settings(deadline=None)
@given(st.integers(2, 300), st.integers(2, 70))
def test_no_batch_of_several_has_a_single_example(count: int, size: int):
    sizes = [
        len(batch["target"]) for batch in ExampleBatches(numbered_images(count), size, seed=0, shuffle=True).epoch(0)
    ]
    assert min(sizes) > 1
    assert max(sizes) <= size + 1
