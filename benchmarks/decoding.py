"""GPT-2 124M, batch 1, 64 tokens after a prompt of 32: ours in three precisions beside Hugging Face's `generate` and
CTranslate2. Floors: 2.4 times as fast as Hugging Face in float32, 2.2 times in bfloat16, 2.2 times as fast as
CTranslate2 in int8; 90 % of the measured bandwidth in float32, 80 % in bfloat16; the first token after a warm start no
later than Hugging Face's, and no more memory to load."""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numba import njit

from benchmarks.timing import alternate, ratio
from neuropil.models.gpt2 import GPT2
from neuropil.sampling.gpt2_cpu.decoder import FastDecoder
from neuropil.training.precision import prepare_bfloat16

PROMPT, NEW, ROUNDS, STARTS = list(range(100, 132)), 64, 3, 3
SPECIAL = {"unk_token": "t0", "bos_token": "t50256", "eos_token": "t50256"}

START = {
    "neuropil": """
from neuropil.models.gpt2 import GPT2
from neuropil.sampling.gpt2_cpu.decoder import FastDecoder
decoder = FastDecoder(GPT2.from_pretrained(sys.argv[1]))
decoder.step(tokens, decoder.begin()).argmax()
""",
    "Hugging Face": """
from transformers import GPT2LMHeadModel
model = GPT2LMHeadModel.from_pretrained(sys.argv[1])
model.generate(tokens, attention_mask=torch.ones_like(tokens), max_new_tokens=1, do_sample=False, pad_token_id=0)
""",
}
"""To the first token, because weights that lie in a file are in memory only once they have been read."""
BEFORE = """
import sys, torch
tokens = torch.arange(100, 132)[None]
"""
AFTER = """
with open("/proc/self/status") as status:
    print(next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmHWM:")))
"""
"""The peak of the process itself; what `getrusage` says begins with that of the process which started it."""


def save(folder: Path) -> None:
    """Random weights, as Hugging Face writes them, with a tokenizer of made-up words, which CTranslate2 asks for."""
    from tokenizers import Tokenizer, models
    from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config())
    model.save_pretrained(folder)
    words = Tokenizer(
        models.WordLevel({f"t{token}": token for token in range(model.config.vocab_size)}, SPECIAL["unk_token"])
    )
    PreTrainedTokenizerFast(tokenizer_object=words, **SPECIAL).save_pretrained(folder)


def neuropil(model: GPT2, precision: str) -> Callable[[], None]:
    decoder = FastDecoder(model, precision)

    def write() -> None:
        state, entering = decoder.begin(), torch.tensor([PROMPT])
        for _ in range(NEW):
            entering = decoder.step(entering, state).argmax(-1, keepdim=True)

    return write


def hugging_face(folder: Path, dtype: torch.dtype) -> Callable[[], None]:
    from transformers import GPT2LMHeadModel

    model: Any = GPT2LMHeadModel.from_pretrained(folder, dtype=dtype)
    prompt = torch.tensor([PROMPT])
    present = torch.ones_like(prompt)

    def write() -> None:
        model.generate(
            prompt, attention_mask=present, min_new_tokens=NEW, max_new_tokens=NEW, do_sample=False, pad_token_id=0
        )

    return write


def ctranslate2_int8(folder: Path) -> Callable[[], None]:
    import ctranslate2

    converted = str(folder / "ctranslate2")
    ctranslate2.converters.TransformersConverter(str(folder)).convert(converted, quantization="int8")
    generator = ctranslate2.Generator(
        converted, device="cpu", compute_type="int8", intra_threads=torch.get_num_threads()
    )
    prompt = [[f"t{token}" for token in PROMPT]]

    def write() -> None:
        generator.generate_batch(
            prompt, min_length=NEW, max_length=NEW, sampling_topk=1, include_prompt_in_result=False
        )

    return write


@njit(fastmath=True, nogil=True)
def total(numbers: np.ndarray) -> float:
    """Of the rows at the same time: memory delivers more where it is read in several places."""
    found = np.zeros(4, np.float32)
    for column in range(numbers.shape[1]):
        found[0] += numbers[0, column]
        found[1] += numbers[1, column]
        found[2] += numbers[2, column]
        found[3] += numbers[3, column]
    return found.sum()


def bandwidth() -> float:
    """Bytes a second that all threads together read: the best of several sums over 256 MB, each of PyTorch's and of our
    own."""
    threads = torch.get_num_threads()
    numbers = torch.ones(2**26)
    parts = [part.view(4, -1).numpy() for part in numbers[: 2**26 // (4 * threads) * 4 * threads].chunk(threads)]
    with ThreadPoolExecutor(threads) as pool:
        sums = [lambda: list(pool.map(total, parts)), numbers.sum]
        return numbers.nbytes / min(timed(work) for work in sums * 10)


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def bytes_read(decoder: FastDecoder) -> int:
    """For one token: every matrix with its scales and biases; keys, values and norms are next to nothing."""
    matrices = [matrix for layer in decoder.layers for matrix in layer.matrices]
    return sum(array.nbytes for matrix in [*matrices, decoder.output] for array in matrix)


def start(name: str, folder: Path) -> tuple[float, float]:
    """Seconds and megabytes of a process of its own."""
    begun = time.perf_counter()
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"}
    script = BEFORE + START[name] + AFTER
    done = subprocess.run(
        [sys.executable, "-c", script, str(folder)], capture_output=True, text=True, check=True, env=environment
    )
    return time.perf_counter() - begun, float(done.stdout)


def print_speed(folder: Path) -> None:
    model = GPT2.from_pretrained(folder)
    work = {f"neuropil {precision}": neuropil(model, precision) for precision in ("float32", "bfloat16", "int8")}
    work["Hugging Face float32"] = hugging_face(folder, torch.float32)
    work["Hugging Face bfloat16"] = hugging_face(folder, torch.bfloat16)
    work["CTranslate2 int8"] = ctranslate2_int8(folder)
    delivered = bandwidth()
    seconds = alternate(work, ROUNDS)
    delivered = max(delivered, bandwidth())
    print(f"measured bandwidth: {delivered / 1e9:.1f} GB/s by {torch.get_num_threads()} threads")
    for name, values in seconds.items():
        print(f"{name}: {NEW / statistics.median(values):.1f} tokens/s")
    for ours, theirs in (
        ("neuropil float32", "Hugging Face float32"),
        ("neuropil bfloat16", "Hugging Face bfloat16"),
        ("neuropil int8", "CTranslate2 int8"),
    ):
        print(f"{theirs} / {ours}: {ratio(seconds[theirs], seconds[ours])}")
    for precision in ("float32", "bfloat16", "int8"):
        share = single_token_share(FastDecoder(model, precision), delivered)
        print(f"share of the bandwidth, {precision}: {100 * share:.0f} %")


def single_token_share(decoder: FastDecoder, delivered: float) -> float:
    """Of tokens after the prompt, by the median: a prompt is no matter of bandwidth."""
    state, one = decoder.begin(), torch.tensor([[100]])
    decoder.step(torch.tensor([PROMPT]), state)
    seconds = [timed(lambda: decoder.step(one, state)) for _ in range(NEW)]
    return bytes_read(decoder) / statistics.median(seconds) / delivered


def print_starts(folder: Path) -> None:
    seconds: dict[str, list[float]] = {name: [] for name in START}
    memory: dict[str, list[float]] = {name: [] for name in START}
    for number in range(STARTS + 1):  # the first compiles what is not yet on disk, and is thrown away
        for name in list(START)[:: 1 if number % 2 else -1]:
            taken, peak = start(name, folder)
            seconds[name].append(taken)
            memory[name].append(peak)
    for name in START:
        print(
            f"{name}: first token after {min(seconds[name][1:]):.2f} s from a warm start, at most "
            f"{min(memory[name][1:]):.0f} MB of memory"
        )
    for what, values in (("seconds", seconds), ("memory", memory)):
        print(
            f"{what} to the first token, neuropil / Hugging Face: "
            f"{ratio(values['neuropil'][1:], values['Hugging Face'][1:])}"
        )


def main() -> None:
    prepare_bfloat16()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        save(folder)
        print_starts(folder)
        print_speed(folder)


if __name__ == "__main__":
    main()
