"""`neuropil serve` with GPT-2 124M: 16 clients at once beside the same requests one after the other, prompts of 32
tokens and 64 new ones each, and CTranslate2 with the same model and all prompts in one batch. Floor: 4 times the tokens
a second of one at a time (goal 6), and every greedy answer the same."""

import argparse
import asyncio
import contextlib
import json
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import torch

from benchmarks.timing import ratio

PROMPT, VOCABULARY = 32, 50_257
END = "<|endoftext|>"
HEADER = ["weights", "", "tokens/s", "beside one at a time", "first token"]
ABOUT = (
    "`neuropil serve` with a model of GPT-2's 124M size: 16 clients at once and the same requests one after the other, "
    f"prompts of {PROMPT} tokens and 64 new ones, medians of three rounds; CTranslate2 has all prompts in one batch."
)


def save(folder: Path, **sizes: Any) -> None:
    """Random weights, as Hugging Face writes them, with a byte-level tokenizer of as many made-up merges."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    pairs = [(first, second) for first in letters for second in letters][: VOCABULARY - len(letters) - 1]
    words = [*letters, *(first + second for first, second in pairs)]
    tokenizer = Tokenizer(models.BPE({word: number for number, word in enumerate(words)}, pairs))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([END])
    special = {"bos_token": END, "eos_token": END, "unk_token": END}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special).save_pretrained(folder)
    torch.manual_seed(0)
    GPT2LMHeadModel(GPT2Config(**sizes)).save_pretrained(folder)


@contextlib.contextmanager
def server(folder: Path, *words: str) -> Iterator[tuple[str, int]]:
    """The command in a process of its own: its address, and the number of the process."""
    command = [sys.executable, "-m", "neuropil", "serve", f"gpt2={folder}", "--port", "0", *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None  # noqa: S101 (a pipe was asked for)
    try:
        for line in process.stdout:
            if found := re.match(r"Serving at (\S+)", line):
                yield found[1], process.pid
                break
    finally:
        process.terminate()
        process.stdout.read()
        if process.wait():
            raise RuntimeError(f"the server ended with {process.returncode}")


@dataclass(frozen=True)
class Answer:
    text: str
    tokens: int
    first: float
    """Seconds to the first token."""


async def ask(client: httpx.AsyncClient, prompt: Sequence[int], new: int) -> Answer:
    body = {"prompt": prompt, "max_tokens": new, "temperature": 0, "stream": True}
    body["stream_options"] = {"include_usage": True}
    begun, first, text, tokens = time.perf_counter(), 0.0, "", 0
    async with client.stream("POST", "/v1/completions", json=body) as answer:
        answer.raise_for_status()
        async for line in answer.aiter_lines():
            if not line.startswith("data: {"):
                continue
            first = first or time.perf_counter() - begun
            event = json.loads(line.removeprefix("data: "))
            text += "".join(choice["text"] for choice in event["choices"])
            tokens = (event["usage"] or {}).get("completion_tokens", tokens)
    return Answer(text, tokens, first)


async def at_once(client: httpx.AsyncClient, prompts: Sequence[Sequence[int]], new: int) -> list[Answer]:
    return list(await asyncio.gather(*(ask(client, prompt, new) for prompt in prompts)))


async def one_by_one(client: httpx.AsyncClient, prompts: Sequence[Sequence[int]], new: int) -> list[Answer]:
    return [await ask(client, prompt, new) for prompt in prompts]


def ctranslate2_batch(
    folder: Path, prompts: Sequence[Sequence[int]], new: int, precision: str
) -> Callable[[], int] | None:
    """All prompts in one batch of known lengths, which is what its `generate_batch` is made for; the tokens that it
    wrote."""
    try:
        import ctranslate2
    except ImportError:
        print("CTranslate2 is not installed, and left out")
        return None
    converted = str(folder / f"ctranslate2-{precision}")
    ctranslate2.converters.TransformersConverter(str(folder)).convert(converted, quantization=precision)
    threads = torch.get_num_threads()
    generator = ctranslate2.Generator(converted, device="cpu", compute_type=precision, intra_threads=threads)
    vocabulary = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))["model"]["vocab"]
    words = {number: word for word, number in vocabulary.items()}
    texts = [[words[token] for token in prompt] for prompt in prompts]

    def write() -> int:
        found = generator.generate_batch(
            texts, min_length=new, max_length=new, sampling_topk=1, include_prompt_in_result=False
        )
        return sum(len(each.sequences_ids[0]) for each in found)

    return write


@dataclass(frozen=True)
class Measured:
    """Rounds of each way: tokens a second, and all seconds to a first token."""

    precision: str
    rates: dict[str, list[float]]
    firsts: dict[str, list[float]]
    answers: int
    differing: int

    def first(self, name: str) -> str:
        middle, late = np.quantile(self.firsts[name], [0.5, 0.99])
        return f"p50 {1000 * middle:.0f} ms, p99 {1000 * late:.0f} ms"

    def rows(self) -> Iterator[list[str]]:
        for name, values in self.rates.items():
            if values:
                beside = ratio(values, self.rates["one at a time"])
                first = self.first(name) if name in self.firsts else ""
                yield [self.precision, name, f"{statistics.median(values):.0f}", beside, first]
        yield [
            self.precision,
            f"answers that differ from the one alone: {self.differing} of {self.answers}",
            "",
            "",
            "",
        ]


async def measure(arguments: argparse.Namespace, folder: Path) -> Measured:
    numbers = random.Random(0)  # noqa: S311
    prompts = [[numbers.randrange(VOCABULARY - 1) for _ in range(PROMPT)] for _ in range(arguments.clients)]
    peer = ctranslate2_batch(folder, prompts, arguments.new, arguments.precision)
    rates: dict[str, list[float]] = {"one at a time": [], "at once": [], "CTranslate2, one batch": []}
    firsts: dict[str, list[float]] = {"one at a time": [], "at once": []}
    differing = 0
    words = ("--slots", str(arguments.clients), "--precision", arguments.precision)
    with server(folder, *words) as (address, _):
        async with httpx.AsyncClient(base_url=address, timeout=600) as client:
            await at_once(client, prompts[:2], 4)
            for _ in range(arguments.rounds):
                texts: list[list[str]] = []
                for name, work in (("one at a time", one_by_one), ("at once", at_once)):
                    begun = time.perf_counter()
                    answers = await work(client, prompts, arguments.new)
                    rates[name].append(sum(each.tokens for each in answers) / (time.perf_counter() - begun))
                    firsts[name] += [each.first for each in answers]
                    texts.append([each.text for each in answers])
                differing += sum(alone != together for alone, together in zip(*texts, strict=True))
                if peer is not None:
                    begun = time.perf_counter()
                    rates["CTranslate2, one batch"].append(peer() / (time.perf_counter() - begun))
    return Measured(arguments.precision, rates, firsts, arguments.rounds * arguments.clients, differing)


def rows(words: Sequence[str] = ()) -> Iterator[list[str]]:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--new", type=int, default=64, help="new tokens of each request")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--precision", default="float32", choices=["float32", "int8"])
    arguments = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as name:
        save(Path(name))
        yield from asyncio.run(measure(arguments, Path(name))).rows()


def main(words: Sequence[str] = ()) -> None:
    for row in [HEADER, *rows(words)]:
        print("\t".join(row))


if __name__ == "__main__":
    main(sys.argv[1:])
