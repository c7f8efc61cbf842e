"""GPT-2 124M, batch 1, greedily, in every kind of weights that we have, beside Hugging Face, CTranslate2, llama.cpp and
OpenVINO in theirs: tokens a second after a prompt of 32, seconds to the first token after a prompt of 512, and the
first token of a new process. Each library has a process and the same number of threads, and all but the one whose turn
it is are stopped. Before anything is timed, everybody's logits are compared with Hugging Face's.

    python -m benchmarks.decoding [--folder GPT2] [--libraries neuropil llama.cpp ...] [--environments FOLDER]

The weights are random, or those of a folder as Hugging Face writes it, in which what other libraries make of it is
kept. llama.cpp and OpenVINO have environments of their own in `--environments` (the user's cache, if not told), which
are made when they are missing: llama.cpp is compiled for this processor from the package llama-cpp-python, in about
five minutes, and OpenVINO comes with optimum-intel. To use others, put virtual environments named `llama.cpp` and
`openvino` there, and an empty file `installed` in each.

Floors: 2.4 times as fast as Hugging Face in float32, 2.2 times in bfloat16, 2.2 times as fast as CTranslate2 in int8;
90 % of the measured bandwidth in float32, 80 % in bfloat16; the first token after a warm start no later than Hugging
Face's, and no more memory to load."""

import dataclasses
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import get_args

import numpy as np
import torch
from numba import njit

from benchmarks.timing import alternate, ratio
from benchmarks.workers import ENVIRONMENTS, Worker, interpreter
from neuropil.cli.arguments import parse
from neuropil.config import Config, option
from neuropil.runs.environment import environment
from neuropil.sampling.gpt2_cpu.decoder import Precision
from neuropil.training.precision import VARIABLE, prepare_bfloat16

PROMPT, NEW, LONG_PROMPT, ROUNDS, STARTS = list(range(100, 132)), 64, list(range(100, 612)), 3, 3
SPECIAL = {"unk_token": "t0", "bos_token": "t50256", "eos_token": "t50256"}
WEIGHTS: dict[str, tuple[str, ...]] = {
    "neuropil": get_args(Precision),
    "Hugging Face": ("float32", "bfloat16"),
    "CTranslate2": ("float32", "int8"),
    "llama.cpp": ("float32", "BF16", "Q8_0", "Q4_0"),
    "OpenVINO": ("float32", "bfloat16", "int8"),
}
PRECISIONS = {"BF16": "bfloat16", "Q8_0": "int8", "Q4_0": "int4"}
"""Of ours, the one with as many bits."""
FARTHEST = {"float32": 0.01, "bfloat16": 0.05, "int8": 0.1, "int4": 0.5}
"""Root of the mean squared error of logits, in units of their standard deviation, from which it is another model."""
ABOUT = (
    f"GPT-2 124M with random weights, one text, greedily: tokens a second of the {NEW - 1} after a prompt of "
    f"{len(PROMPT)} and the first; how many times as fast neuropil is with weights of as many bits; bytes of weights "
    "read a second, of those that all threads together read at best; and the root of the mean squared error of logits "
    "beside Hugging Face's in float32, in standard deviations."
)
HEADER = ["library, weights", "tokens/s", "times as fast is neuropil", "share of bandwidth", "error of logits"]
PROMPT_ABOUT = (
    f"To the first token after a prompt of {len(LONG_PROMPT)}, in the same run: seconds, and how many times as long "
    "others take."
)
PROMPT_PEERS = ("Hugging Face float32", "OpenVINO bfloat16", "OpenVINO int8")
PROMPT_HEADER = ["library, weights", "seconds", *(f"times as long takes {peer}" for peer in PROMPT_PEERS)]

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


class Arguments(Config):
    folder: Path | None = option(None, "weights as Hugging Face writes them, and what other libraries made of them")
    libraries: tuple[str, ...] = option(tuple(WEIGHTS), "libraries that take part beside Hugging Face")
    environments: Path = option(ENVIRONMENTS, "where libraries with other packages have virtual environments")
    rounds: int = option(ROUNDS, "rounds that are timed", low=1)
    starts: bool = option(True, "time new processes too")


@dataclass(frozen=True)
class Engine:
    """One kind of weights in one library."""

    worker: Worker
    library: str
    weights: str
    bytes_read: int

    @property
    def name(self) -> str:
        return f"{self.library} {self.weights}"

    @property
    def precision(self) -> str:
        return PRECISIONS.get(self.weights, self.weights)

    def write(self, prompt: Sequence[int], new: int) -> list[float]:
        """Seconds to the first token, and of those after it."""
        return self.worker.tell("write", precision=self.weights, prompt=prompt, new=new)

    def logits(self, tokens: Sequence[Sequence[int]], folder: Path) -> np.ndarray:
        """After each token of texts of equal length."""
        out = folder / "logits.npy"
        self.worker.tell("logits", precision=self.weights, tokens=tokens, out=str(out))
        return np.load(out)


@contextmanager
def loaded(
    folder: Path, weights: Mapping[str, Sequence[str]] = WEIGHTS, environments: Path = ENVIRONMENTS
) -> Iterator[list[Engine]]:
    """These kinds of weights of these libraries; without one that cannot be installed, which is said."""
    threads = torch.get_num_threads()
    with ExitStack() as stack:
        engines = []
        for library, kinds in weights.items():
            try:
                python = interpreter_of(library, environments)
            except subprocess.CalledProcessError as error:
                print(f"{library} takes no part, because it could not be installed: {error}")
                continue
            worker = Worker("benchmarks.decoding_worker", library, python, {"OMP_NUM_THREADS": str(threads)})
            stack.callback(worker.close)
            for kind in kinds:
                size = worker.tell("load", folder=str(folder), precision=kind, threads=threads)
                engines.append(Engine(worker, library, kind, size))
        yield engines


def interpreter_of(library: str, environments: Path) -> str:
    if library == "llama.cpp":
        packages = ["numpy", "safetensors", "gguf==0.19.0", "llama-cpp-python==0.3.36"]
        return interpreter(library, packages, folder=environments, variables={"CMAKE_ARGS": " ".join(llama_flags())})
    if library == "OpenVINO":
        packages = ["torch==2.13.0", "openvino==2026.4.1", "optimum-intel==2.2.0", "nncf==3.4.0", "datasets<5"]
        return interpreter(library, packages, folder=environments, constrained=False)
    return sys.executable


def llama_flags() -> list[str]:
    """For this processor, and without AMX where the processor announces it and fails."""
    flags = ["-DLLAVA_BUILD=OFF"]
    if VARIABLE not in os.environ:
        return flags
    features = Path("/proc/cpuinfo").read_text().split()
    names = {
        "avx512f": "AVX512",
        "avx512vbmi": "AVX512_VBMI",
        "avx512_vnni": "AVX512_VNNI",
        "avx512_bf16": "AVX512_BF16",
    }
    return [*flags, "-DGGML_NATIVE=OFF", *(f"-DGGML_{name}=ON" for each, name in names.items() if each in features)]


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


def start(name: str, folder: Path) -> tuple[float, float]:
    """Seconds and megabytes of a process of its own."""
    begun = time.perf_counter()
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"}
    script = BEFORE + START[name] + AFTER
    done = subprocess.run(
        [sys.executable, "-c", script, str(folder)], capture_output=True, text=True, check=True, env=environment
    )
    return time.perf_counter() - begun, float(done.stdout)


def measure(engines: Sequence[Engine], prompt: Sequence[int], new: int, rounds: int) -> dict[str, list[list[float]]]:
    """By engine and round, what `write` says."""
    found: dict[str, list[list[float]]] = {engine.name: [] for engine in engines}
    alternate(
        {engine.name: partial(write_and_keep, engine, prompt, new, found[engine.name]) for engine in engines}, rounds
    )
    return {name: values[1:] for name, values in found.items()}


def write_and_keep(engine: Engine, prompt: Sequence[int], new: int, found: list[list[float]]) -> None:
    found.append(engine.write(prompt, new))


def errors(engines: Sequence[Engine]) -> dict[str, float]:
    """Of everybody's logits, whose common part is no matter, beside Hugging Face's in float32."""
    with tempfile.TemporaryDirectory() as name:
        logits = {engine.name: engine.logits([PROMPT], Path(name))[0] for engine in engines}
    centred = {name: values - values.mean(-1, keepdims=True) for name, values in logits.items()}
    right = centred["Hugging Face float32"]
    found = {name: float(np.sqrt(np.mean((values - right) ** 2)) / right.std()) for name, values in centred.items()}
    for engine in engines:
        if not found[engine.name] < FARTHEST[engine.precision]:
            raise SystemExit(f"{engine.name} computes another model: an error of logits of {found[engine.name]:.2g}.")
    return found


def tables(arguments: Arguments) -> tuple[list[list[str]], list[list[str]]]:
    """Rows for HEADER and for PROMPT_HEADER."""
    prepare_bfloat16()
    weights = {name: kinds for name, kinds in WEIGHTS.items() if name in {*arguments.libraries, "Hugging Face"}}
    with folder_of(arguments.folder) as folder, loaded(folder, weights, arguments.environments) as engines:
        error = errors(engines)
        delivered = bandwidth()
        writing = measure(engines, PROMPT, NEW, arguments.rounds)
        delivered = max(delivered, bandwidth())
        print(f"measured bandwidth: {delivered / 1e9:.1f} GB/s by {torch.get_num_threads()} threads", flush=True)
        reading = measure(engines, LONG_PROMPT, 1, arguments.rounds)
    after = {name: [rest for _, rest in values] for name, values in writing.items()}
    first = {name: [seconds for seconds, _ in values] for name, values in reading.items()}
    speeds, prompts = [], []
    for engine in engines:
        speed = (NEW - 1) / statistics.median(after[engine.name])
        ours = f"neuropil {engine.precision}"
        compared = ratio(after[engine.name], after[ours]) if ours in after and ours != engine.name else ""
        share = f"{100 * engine.bytes_read * speed / delivered:.0f} %"
        speeds.append([engine.name, f"{speed:.1f}", compared, share, f"{error[engine.name]:.1e}"])
        beside = [
            ratio(first[peer], first[engine.name]) if peer in first and peer != engine.name else ""
            for peer in PROMPT_PEERS
        ]
        prompts.append([engine.name, f"{statistics.median(first[engine.name]):.3f}", *beside])
    return speeds, prompts


@contextmanager
def folder_of(given: Path | None) -> Iterator[Path]:
    """The given one, or one of random weights for a while."""
    if given is not None:
        yield given
        return
    with tempfile.TemporaryDirectory() as name:
        save(Path(name))
        yield Path(name)


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


def main(words: Sequence[str] = ()) -> None:
    arguments = parse(Arguments(), words, command="decoding", about="GPT-2 124M beside other libraries.")
    print(f"{environment()['processor']}, {torch.get_num_threads()} threads, torch {torch.__version__}")
    with folder_of(arguments.folder) as folder:
        speeds, prompts = tables(dataclasses.replace(arguments, folder=folder))
        for header, rows in ((HEADER, speeds), (PROMPT_HEADER, prompts)):
            print(f"\n{' | '.join(header)}")
            print("\n".join(" | ".join(row) for row in rows), flush=True)
        if arguments.starts:
            print()
            print_starts(folder)


if __name__ == "__main__":
    main(sys.argv[1:])
