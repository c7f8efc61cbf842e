"""GPT-2 124M, 16 texts at once in slots of one decoder beside one at a time, in every precision, and beside
CTranslate2 with a batch of 16. Floors: 4 times the tokens a second of one at a time in float32 on two cores, and no
answer different from the one alone."""

import statistics
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import get_args

import torch

from benchmarks.decoding import bandwidth, save
from benchmarks.decoding_worker import bytes_read
from benchmarks.timing import alternate, ratio
from neuropil.models.gpt2 import GPT2
from neuropil.runs.environment import environment
from neuropil.sampling.gpt2_cpu.decoder import FastDecoder, Precision
from neuropil.sampling.gpt2_cpu.slots import FastSlots
from neuropil.sampling.text.slots import SlottedDecoder

ROWS, PROMPT, NEW, STEPS, ROUNDS = 16, 32, 32, 8, 9
PROMPTS = [[100 + 7 * row + 3 * place for place in range(PROMPT)] for row in range(ROWS)]


def write(decoder: SlottedDecoder, prompts: Sequence[Sequence[int]]) -> list[list[int]]:
    """The likeliest tokens after each prompt, all prompts at once."""
    slots = range(len(prompts))
    for slot in slots:
        decoder.clear(slot)
    texts = [[int(decoder.read(slot, prompts[slot]).argmax())] for slot in slots]
    while len(texts[0]) < NEW:
        logits = decoder.step(slots, [text[-1] for text in texts])
        for text, token in zip(texts, logits.argmax(1).tolist(), strict=True):
            text.append(token)
    return texts


def steps_of(decoder: FastDecoder, rows: int) -> Callable[[], None]:
    """A few tokens more for each of so many texts, whenever it is called."""
    slotted = FastSlots(decoder, rows)
    for slot in range(rows):
        slotted.read(slot, PROMPTS[slot])

    def step() -> None:
        for _ in range(STEPS):
            slotted.step(range(rows), [100] * rows)

    return step


def print_steps(decoder: FastDecoder, delivered: float) -> None:
    """After the prompts, which are no matter of bandwidth."""
    seconds = alternate({"one": steps_of(decoder, 1), "all": steps_of(decoder, ROWS)}, ROUNDS)
    one, several = (statistics.median(seconds[name]) / STEPS for name in ("one", "all"))
    share = bytes_read(decoder) / one / delivered
    print(
        f"{decoder.precision}: {1 / one:.1f} tokens/s one at a time ({100 * share:.0f} % of the bandwidth), "
        f"{ROWS / several:.1f} for {ROWS} texts at once"
    )
    gained = ratio([ROWS * taken for taken in seconds["one"]], seconds["all"])
    print(f"{decoder.precision}, {ROWS} at once / one at a time: {gained}")
    alone, slotted = FastSlots(decoder, 1), FastSlots(decoder, ROWS)
    answers = [write(alone, [prompt])[0] for prompt in PROMPTS]
    differing = sum(a != b for a, b in zip(write(slotted, PROMPTS), answers, strict=True))
    kilobytes = slotted.slot_bytes(1) / 1e3
    print(f"{decoder.precision}: {differing} of {ROWS} answers differ; a token of a text takes {kilobytes:.1f} kB")


def ctranslate2_batch(folder: Path, precision: str) -> Callable[[], object]:
    import ctranslate2

    converted = str(folder / f"ctranslate2-{precision}")
    ctranslate2.converters.TransformersConverter(str(folder)).convert(converted, quantization=precision)
    generator = ctranslate2.Generator(
        converted, device="cpu", compute_type=precision, intra_threads=torch.get_num_threads()
    )
    prompts = [[f"t{token}" for token in prompt] for prompt in PROMPTS]
    options = {"min_length": NEW, "max_length": NEW, "sampling_topk": 1, "include_prompt_in_result": False}
    return lambda: generator.generate_batch(prompts, **options)


def print_beside(decoder: FastDecoder, folder: Path) -> None:
    """Prompts and all."""
    slotted, precision = FastSlots(decoder, ROWS), decoder.precision
    work = {"neuropil": lambda: write(slotted, PROMPTS), "CTranslate2": ctranslate2_batch(folder, precision)}
    seconds = alternate(work, 3)
    for name, values in seconds.items():
        print(f"{name} {precision}, {ROWS} texts with prompts: {ROWS * NEW / statistics.median(values):.1f} tokens/s")
    print(f"CTranslate2 / neuropil, {precision}: {ratio(seconds['CTranslate2'], seconds['neuropil'])}")


def main() -> None:
    print(f"{environment()['processor']}, {torch.get_num_threads()} threads")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        save(folder)
        model = GPT2.from_pretrained(folder)
        decoders = {precision: FastDecoder(model, precision) for precision in get_args(Precision)}
        delivered = bandwidth()
        print(f"measured bandwidth: {delivered / 1e9:.1f} GB/s")
        for decoder in decoders.values():
            print_steps(decoder, delivered)
        for precision in ("float32", "int8"):
            print_beside(decoders[precision], folder)


if __name__ == "__main__":
    main()
