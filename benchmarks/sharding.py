"""Memory of one process that trains a GPT-2-like model: by itself, with DDP, FSDP2 and tensor parallel, and with
recomputed activations (activation checkpointing). Goal: FSDP2 on 4 processes keeps a third of the state or less.

    python -m benchmarks.sharding

What a process keeps between updates (weights, gradients, moments) is counted from its tensors. The peak is that of its
resident memory (VmHWM) in the second update, above what it had before the model was built; the kernel is told to forget
the peak of building it.
"""

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

UPDATES = 2
MEGABYTE = 1e6


@dataclass(frozen=True)
class Case:
    """A way to train: `data` × `tensor` processes; without `fsdp` those along the first axis have whole models."""

    name: str
    data: int = 1
    tensor: int = 1
    fsdp: bool = False
    recompute: bool = False
    width: int = 512
    heads: int = 8
    layers: int = 8
    vocabulary_size: int = 4_000
    context: int = 256
    batch_size: int = 8
    """Of all processes together."""

    @property
    def processes(self) -> int:
        return self.data * self.tensor


@dataclass(frozen=True)
class Memory:
    """Bytes of the process that has most."""

    parameters: int
    """How many numbers the whole model has."""
    state: int
    """Weights, gradients and moments of this process."""
    peak: int


CASES = [
    case
    for recompute in (False, True)
    for case in (
        Case("one process", recompute=recompute),
        Case("DDP, 2", data=2, recompute=recompute),
        Case("FSDP2, 2", data=2, fsdp=True, recompute=recompute),
        Case("FSDP2, 4", data=4, fsdp=True, recompute=recompute),
        Case("tensor parallel, 2", tensor=2, recompute=recompute),
    )
]


def measure(case: Case) -> Memory:
    """In processes of their own."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "MALLOC_MMAP_THRESHOLD_": "65536"}  # freed at once
        command = [sys.executable, "-m", "benchmarks.sharding", json.dumps(asdict(case)), folder]
        ranks = range(case.processes)
        started = [subprocess.Popen([*command, str(rank)], env=environment, stdout=subprocess.PIPE) for rank in ranks]
        answers = [json.loads(process.communicate()[0].splitlines()[-1]) for process in started]
    return Memory(**{name: max(answer[name] for answer in answers) for name in answers[0]})


def main() -> None:
    alone = sharded = measure(CASES[0])
    print(
        f"{alone.parameters:,} parameters, AdamW in float32, {CASES[0].batch_size} windows of {CASES[0].context} tokens"
    )
    print(f"{'':22}{'recompute':>10}{'kept, MB':>10}{'of one':>8}{'peak, MB':>10}{'of one':>8}")
    for case in CASES:
        memory = alone if case == CASES[0] else measure(case)
        kept, peak = f"{memory.state / MEGABYTE:,.0f}", f"{memory.peak / MEGABYTE:,.0f}"
        shares = [f"{100 * memory.state / alone.state:.0f} %", f"{100 * memory.peak / alone.peak:.0f} %"]
        recompute = "yes" if case.recompute else "no"
        print(f"{case.name:22}{recompute:>10}{kept:>10}{shares[0]:>8}{peak:>10}{shares[1]:>8}", flush=True)
        sharded = memory if case.data == 4 else sharded
    share = sharded.state / alone.state
    print(f"goal {'met' if share <= 1 / 3 else 'MISSED'}: FSDP2 on 4 processes keeps {100 * share:.0f} % of the state")


# --- in each process --------------------------------------------------------------------------------------------------


def train(case: Case, folder: Path, rank: int) -> Memory:
    import torch
    from torch import distributed

    torch.set_num_threads(1)
    if case.processes > 1:
        meeting = f"file://{folder}/store"
        distributed.init_process_group("gloo", init_method=meeting, rank=rank, world_size=case.processes)
    # What a first small model imports and prepares is no part of the measured one.
    _update(replace(case, width=16, heads=2, layers=1, vocabulary_size=10, context=4))
    before = _resident("VmRSS")
    model, optimizer, parameters = _update(case)
    peak = _resident("VmHWM") - before
    kept = [tensor for weight in model.parameters() for tensor in (weight, weight.grad) if tensor is not None]
    kept += [tensor for state in optimizer.state.values() for tensor in state.values()]
    return Memory(parameters, sum(_local_bytes(tensor) for tensor in kept), peak)


def _local_bytes(tensor: Any) -> int:
    from neuropil.training.distributed.dtensor import local

    return local(tensor).numel() * tensor.element_size()


def _update(case: Case) -> tuple[Any, Any, int]:
    """A model after some updates, its optimiser, and how many parameters the whole has."""
    import torch

    from neuropil.models.gpt2 import GPT2, GPT2Config
    from neuropil.parts.objectives import NextTokenInWindow
    from neuropil.training.distributed.activation_checkpointing import recompute
    from neuropil.training.distributed.gradients import GradientSum
    from neuropil.training.distributed.processes import World
    from neuropil.training.optimizers import build_optimizer

    torch.manual_seed(0)
    config = GPT2Config(
        width=case.width,
        heads=case.heads,
        layers=case.layers,
        context=case.context,
        vocabulary_size=case.vocabulary_size,
        dropout=0.0,
        attention_dropout=0.0,
    )
    model = GPT2(config)
    parameters = sum(weight.numel() for weight in model.parameters())
    if case.recompute:
        recompute(model, model.parallel_plan().blocks)
    if case.fsdp or case.tensor > 1:
        from neuropil.training.distributed.sharded_model import ShardedModel, mesh_of

        ShardedModel(model, mesh_of(torch.device("cpu"), case.data, case.tensor), fsdp=case.fsdp)
    learner = NextTokenInWindow(model)
    phase = learner.phases()[0]
    optimizer = build_optimizer("adamw", phase.parameters, learning_rate=1e-4)
    gradients = GradientSum([phase], World(0, 1 if case.fsdp else case.data))
    for update in range(UPDATES):
        if update == 1:
            Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")  # VmHWM begins anew
        shape = case.batch_size // case.data, case.context
        loss = learner.loss({name: torch.randint(case.vocabulary_size, shape) for name in ("input", "target")})
        optimizer.zero_grad()
        with gradients.of(phase, last=True):
            loss.backward()
        optimizer.step()
    return model, optimizer, parameters


def _resident(which: str) -> int:
    """Bytes of this process: now (VmRSS), or at most since the kernel forgot (VmHWM)."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(which))


if __name__ == "__main__":
    if sys.argv[1:]:
        print(json.dumps(asdict(train(Case(**json.loads(sys.argv[1])), Path(sys.argv[2]), int(sys.argv[3])))))
    else:
        main()
