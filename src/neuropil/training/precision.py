"""Products in bfloat16 on any processor.

Some virtual machines announce instructions (AMX) that end the process when they are used, and some processors only
emulate bfloat16. Neither can be asked for, only tried: a child process multiplies, once per machine, and how it
succeeded is kept in the user's cache folder. A trial that failed may do better on a day with more time and memory.

oneDNN, which multiplies for PyTorch, reads its limit of the instruction set (`ONEDNN_MAX_CPU_ISA`) at its first use,
which nearly any operation is, in float32 too. So `prepare_bfloat16` comes before anything is computed.
"""

import contextlib
import functools
import hashlib
import json
import os
import platform
import signal
import subprocess
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch

from neuropil.errors import InputError
from neuropil.files import cache_folder, write_text

VARIABLE = "ONEDNN_MAX_CPU_ISA"
LIMITS = (None, "AVX512_CORE_BF16", "AVX512_CORE", "AVX2")
"""Tried in this order: none, without AMX, without bfloat16's own instructions, without AVX-512."""
SLOWER = 1.1
"""bfloat16 is called slower where it takes so many times as long as float32; less is noise."""
SECONDS = 300

PROGRAM = """
import time
import torch
from torch.nn import functional as F

torch.set_num_threads(1)
x, weight = torch.randn(256, 256), torch.randn(256, 256, requires_grad=True)

def seconds(reduced):
    start = time.perf_counter()
    with torch.autocast("cpu", torch.bfloat16, enabled=reduced):
        y = F.linear(x, weight)
    y.float().sum().backward()
    return time.perf_counter() - start

times = [(seconds(True), seconds(False)) for _ in range(20)]  # in turns: other programs hinder both
reduced, single = (min(column) for column in zip(*times))
with torch.autocast("cpu", torch.bfloat16):  # kernels of their own
    query = torch.randn(2, 4, 64, 32, requires_grad=True).bfloat16()
    F.scaled_dot_product_attention(query, query, query).float().sum().backward()
    F.conv2d(torch.randn(2, 16, 16, 16), torch.randn(16, 16, 3, 3, requires_grad=True)).float().sum().backward()
    torch.bmm(query[0], query[0].mT)
    for kind in (torch.nn.LSTM, torch.nn.GRU):
        try:
            kind(32, 32)(torch.randn(8, 4, 32))[0].float().sum().backward()
        except RuntimeError:
            pass  # no kernel for it here: then it is not used
print(reduced / single)
"""


@dataclass(frozen=True)
class Bfloat16:
    """What a processor does with bfloat16: under which limit of the instruction set it multiplies (None: no limit), and
    how many times as long as in float32 a product takes."""

    limit: str | None = None
    ratio: float = 1.0


@functools.cache
def prepare_bfloat16() -> Bfloat16:
    """Make products in bfloat16 safe in this process: call it before anything is computed. One notice, on stderr."""
    found = remembered() or remember(probe())
    if found.limit is not None:
        lower_limit(found.limit)
        remember(replace(found, limit=None))  # for processes started from here, which get the variable too
        _notify(
            f"this processor fails at instructions that it announces; {VARIABLE}={found.limit} is set, "
            "so that bfloat16 does without them"
        )
    if found.ratio > SLOWER:
        _notify(
            f"bfloat16 is slower than float32 on this processor: a product takes {found.ratio:.1f} times as long; "
            "leave out --precision to train faster"
        )
    return found


def probe(program: str = PROGRAM) -> Bfloat16:
    """Run `program`, which multiplies and prints the ratio, in children with ever lower limits while they meet
    instructions that the processor does not have."""
    failure = ""
    for limit in LIMITS:
        environment = os.environ | ({VARIABLE: limit} if limit else {})
        try:
            child = subprocess.run(  # noqa: S603 - a program of our own
                [sys.executable, "-P", "-c", program], env=environment, capture_output=True, text=True, timeout=SECONDS
            )
        except subprocess.TimeoutExpired:
            failure = f"took more than {SECONDS} s"
            break
        if child.returncode == 0:
            return Bfloat16(limit, float(child.stdout))
        failure = _end(child.returncode, child.stderr)
        if child.returncode != -signal.SIGILL:
            break
    raise InputError(
        "bfloat16 needs a processor that multiplies in it",
        got=f"one on which a trial {failure}",
        fix="use precision float32",
    )


def lower_limit(limit: str) -> None:
    """Set oneDNN's limit, and refuse where it has already read another."""
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = limit
    # oneDNN does not tell its limit, but which data types it supports: every processor with AMX has float16 too.
    above = "bf16" if limit == "AVX2" else "fp16"
    if getattr(torch.ops.mkldnn, f"_is_mkldnn_{above}_supported")():
        del os.environ[VARIABLE]
        if before is not None:
            os.environ[VARIABLE] = before
        raise InputError(
            f"bfloat16 needs {VARIABLE}={limit} on this processor before anything is computed",
            got="a process that has computed already",
            fix="set it in the environment and start again",
        )


# --- what is kept -----------------------------------------------------------------------------------------------------


def remembered() -> Bfloat16 | None:
    try:
        found = json.loads(_path().read_text(encoding="utf-8"))
    except (OSError, ValueError, RuntimeError):  # not there, damaged (or too deep, a RuntimeError), no home
        return None
    match found:
        case {"limit": limit, "ratio": float(ratio), **other} if limit in LIMITS and not other:
            return Bfloat16(limit, ratio)
    return None  # damaged, of another version


def remember(found: Bfloat16) -> Bfloat16:
    with contextlib.suppress(
        OSError, RuntimeError
    ):  # a home that is read-only or missing: the next process tries again
        write_text(_path(), json.dumps(asdict(found)) + "\n")
    return found


def _path() -> Path:
    key = "\n".join((*_processor(), torch.__version__, PROGRAM, os.environ.get(VARIABLE, "")))
    return cache_folder() / f"bfloat16-{hashlib.sha256(key.encode()).hexdigest()[:16]}.json"


def _processor() -> list[str]:
    """Model and announced instructions; the kernel too, as it decides what they may be used for."""
    known = [platform.machine(), platform.processor(), platform.release()]
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").partition("\n\n")[0].splitlines()
    except OSError:
        return known
    return known + [line for line in lines if line.lower().startswith(("model name", "flags", "features", "cpu part"))]


def _end(code: int, errors: str) -> str:
    if code < 0:
        return f"ended by {signal.Signals(-code).name}"
    return f"failed ({(errors.strip().splitlines() or [f'exit code {code}'])[-1]})"


def _notify(sentence: str) -> None:
    sys.stderr.write(f"neuropil: {sentence}.\n")
