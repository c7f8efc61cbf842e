"""What the processes of a group do in tests of sharded models; each function is called in all of them."""

import os
import re
import resource
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, distributed, nn

from neuropil.errors import InputError, RunError, StorageError
from neuropil.models import bert, clip, gpt2, transformer, vit
from neuropil.parts.objectives import Classification, MaskedToken, NextTokenInWindow, Objective, SequenceToSequence
from neuropil.protocols import Batch, OptimizerName
from neuropil.training.averages import WeightAverage
from neuropil.training.config import TrainingConfig
from neuropil.training.distributed import dtensor, sharded_checkpoint
from neuropil.training.distributed.dtensor import clip_gradients
from neuropil.training.distributed.processes import World
from neuropil.training.distributed.sharded_model import ShardedModel, mesh_of
from neuropil.training.divergence import diverged, finite
from neuropil.training.interruption import Interrupted
from neuropil.training.loop import fit
from neuropil.training.optimizers import build_optimizer
from neuropil.training.weights import load_model, save_model

SMALL = {"width": 16, "heads": 4, "layers": 2, "dropout": 0.0}
STACK = {**SMALL, "attention_dropout": 0.0}
MODELS = {
    "gpt2": lambda: gpt2.GPT2(gpt2.GPT2Config(**STACK, context=8, vocabulary_size=30)),
    "bert": lambda: bert.MaskedBERT(bert.BERTConfig(**STACK, context=8, vocabulary_size=30)),
    "bert_classifier": lambda: bert.BERTClassifier(bert.BERTConfig(**STACK, context=8, vocabulary_size=30, classes=3)),
    "transformer": lambda: transformer.Transformer(
        transformer.TransformerConfig(**SMALL, source_vocabulary_size=30, target_vocabulary_size=30)
    ),
    "vit": lambda: vit.ViT(vit.ViTConfig(**STACK, patch=2, shape=(1, 4, 4), classes=3)),
    "clip": lambda: clip.CLIP(
        clip.CLIPConfig(
            embedding_size=8,
            vision=clip.VisionTowerConfig(**STACK, patch=2, shape=(1, 4, 4)),
            text=clip.TextTowerConfig(**STACK, context=8, vocabulary_size=30, end=29),
        )
    ),
}
BATCH, UPDATES = 8, 3


def learner_of(system: str, model: nn.Module) -> Objective[Any]:
    kinds: dict[str, Any] = {
        "gpt2": NextTokenInWindow,
        "bert": MaskedToken,
        "transformer": SequenceToSequence,
        "clip": clip.ContrastiveMatching,
    }
    return kinds.get(system, Classification)(model)


def batch_of(system: str, update: int) -> dict[str, Tensor]:
    draw = torch.Generator().manual_seed(update)
    tokens, others = (torch.randint(4, 29, (BATCH, 8), generator=draw) for _ in range(2))
    pictures, classes = torch.rand(BATCH, 1, 4, 4, generator=draw), torch.randint(3, (BATCH,), generator=draw)
    captions = torch.cat([tokens[:, :-1], torch.full((BATCH, 1), 29)], 1)
    return {
        "gpt2": {"input": tokens, "target": others},
        "bert": {"input": tokens, "target": others, "scored": (torch.arange(8) < 2).expand(BATCH, -1)},
        "bert_classifier": {"input": tokens, "target": classes},
        "transformer": {"source": tokens, "target": others},
        "vit": {"input": pictures, "target": classes},
        "clip": {"picture": pictures, "caption": captions, "group": torch.arange(BATCH)},
    }[system]


class Training:
    """A model, whole or divided, on its way."""

    def __init__(self, system: str, data: int = 1, tensor: int = 1, optimizer: OptimizerName = "adamw", **options: Any):
        # In double precision, sums in another order make no difference that Adam could enlarge.
        torch.set_default_dtype(options.get("dtype", torch.float64))
        torch.manual_seed(0)
        self.system, self.data, self.model, self.rank = system, data, MODELS[system](), 0
        self.sharded = None
        if data * tensor > 1:
            mesh = mesh_of(torch.device("cpu"), data, tensor)
            self.rank = mesh["data"].get_local_rank()
            self.sharded = ShardedModel(self.model, mesh, fsdp=data > 1, recompute=bool(options.get("recompute")))
        self.learner = learner_of(system, self.model)
        self.phase = self.learner.phases()[0]
        tables = [module.weight for module in self.model.modules() if isinstance(module, nn.Embedding)]
        rates = {"learning_rate": 0.01, "weight_decay": 0.1}
        matrices = self.sharded.matrices() if self.sharded else ()
        parameters = self.phase.parameters
        self.optimizer = build_optimizer(optimizer, parameters, **rates, embeddings=tables, matrices=matrices)
        self.average = WeightAverage(self.model, 0.9)
        self.trained = self.model, {self.phase.name: self.optimizer}, [self.phase], self.average
        self.step = 0

    def update(self, shares: int | None = None) -> float:
        """By this process's share of the batch, or, one after the other, by so many shares."""
        batch, parts = batch_of(self.system, self.step), self.data if shares is None else shares
        rows = [{name: rows.chunk(parts)[part] for name, rows in batch.items()} for part in range(parts)]
        losses = [self.learner.loss(each) / parts for each in (rows if shares else rows[self.rank : self.rank + 1])]
        self.optimizer.zero_grad()
        torch.stack(losses).sum().backward()
        clip_gradients(list(self.phase.parameters.values()), 0.5)
        self.optimizer.step()
        self.step += 1
        self.average.update(self.step)
        return float(torch.stack(losses).detach().sum())

    def loss_of(self, number: int) -> float:
        """Of all of a batch, without gradients."""
        with torch.no_grad():
            return float(self.learner.loss(batch_of(self.system, number)))

    def parts(self) -> Mapping[str, Sequence[str]]:
        """Of weights that this model has in one piece."""
        return {} if self.sharded else self.model.parallel_plan().parts

    def resume(self, folder: Path) -> None:
        for latest in sharded_checkpoint.finished(folder)[-1:]:
            state, learner_state = sharded_checkpoint.load(latest, self.trained, self.parts())
            self.step = state["step"]
            assert torch.equal(learner_state["rows"], torch.arange(self.step))

    def weights(self, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Whole, by the names of a whole model."""
        parts = self.sharded.plan.parts if self.sharded else {}
        inside = {part for names in parts.values() for part in names}
        found = {name: dtensor.whole(tensor).detach() for name, tensor in state.items()}
        joined = {name: torch.cat([found[part] for part in names]) for name, names in parts.items()}
        return {name: tensor for name, tensor in found.items() if name not in inside} | joined


def difference(one: Training, other: Training) -> float:
    """The largest, of any weight or average."""
    pairs = [
        (one.weights(mine), other.weights(yours))
        for mine, yours in (
            (one.model.state_dict(), other.model.state_dict()),
            (one.average.average, other.average.average),
        )
    ]
    assert all(mine.keys() == yours.keys() for mine, yours in pairs)
    return max(float((mine[name] - yours[name]).abs().max()) for mine, yours in pairs for name in mine)


def trained_alike(system: str, data: int, tensor: int, optimizer: OptimizerName = "adamw", **options: Any) -> float:
    """How far the weights are from those of one process after a few updates by the same batches."""
    one, divided = Training(system, optimizer=optimizer), Training(system, data, tensor, optimizer, **options)
    shares = data if system == "clip" else None  # what is compared with what is the batch of a process
    for _ in range(UPDATES):
        one.update(shares)
        divided.update()
    return difference(one, divided)


def evaluated_alike(data: int, tensor: int) -> float:
    """How far losses of the average, which is in the model's place between updates, are from those of one process. A
    pass without gradients must not leave weights behind that the next one takes for its own."""
    ways = [Training("gpt2"), Training("gpt2", data, tensor)]
    found: list[list[float]] = []
    for way in ways:
        losses = []
        for update in range(UPDATES):
            losses.append(way.loss_of(BATCH))
            with way.average.in_place():
                losses.append(way.loss_of(BATCH + update))
            way.update()
        found.append(losses)
    return max(abs(one - other) for one, other in zip(*found, strict=True))


def go_on(system: str, folder: str, data: int, tensor: int, optimizer: OptimizerName) -> list[str]:
    """Some updates from the last checkpoint on, if there is one, and another checkpoint; what was unpickled."""
    unpickled: list[str] = []
    sys.addaudithook(lambda event, facts: unpickled.append(event) if event == "pickle.find_class" else None)
    way = Training(system, data, tensor, optimizer)
    way.resume(Path(folder))
    for _ in range(2):
        way.update()
    sharded_checkpoint.save(
        Path(folder), {"step": way.step}, way.trained, way.parts(), {"rows": torch.arange(way.step)}
    )
    return unpickled


def went_on(system: str, folder: str, optimizer: OptimizerName) -> dict[str, float]:
    """How far one process, which goes on with what others have done, is from one that did it all."""
    one, other = Training(system, optimizer=optimizer), Training(system, optimizer=optimizer)
    other.resume(Path(folder))
    steps = other.step
    for _ in range(steps + 1):
        one.update()
    other.update()
    return {"steps": steps, "difference": difference(one, other)}


def written(system: str, folder: str, data: int, tensor: int) -> dict[str, bool]:
    """Whether the file of a divided model is the one that its whole would have written, and whether the whole model
    that is made of it is as before."""
    way, path = Training(system, data, tensor), Path(folder) / "model.safetensors"
    way.update()
    weights = way.weights(way.model.state_dict())
    assert way.sharded is not None
    way.sharded.undivided.write(path)
    way.sharded.undivided.restore()
    load_model(path, way.model)
    restored, fresh = way.model.state_dict(), Training(system).model
    mine = path.with_name(f"{distributed.get_rank()}.safetensors")
    save_model(mine, way.model)
    same = all(torch.equal(restored[name], weight) for name, weight in weights.items())
    with torch.no_grad():
        loss = learner_of(system, way.model).loss(batch_of(system, 0))
    fresh.load_state_dict(restored)
    with torch.no_grad():
        expected = learner_of(system, fresh).loss(batch_of(system, 0))
    plain = type(way.model) is type(fresh) and str(way.model) == str(fresh)
    return {
        "bytes": mine.read_bytes() == path.read_bytes(),
        "weights": same,
        "loss": bool(loss == expected),
        "modules": plain,
    }


def broken(data: int, tensor: int) -> dict[str, Any]:
    """What is said of a model in which one process alone has a weight that is no number."""
    way = Training("gpt2", data, tensor)
    way.update()
    before = finite(way.model)
    weights = dict(way.model.named_parameters())
    if distributed.get_rank() == distributed.get_world_size() - 1:
        dtensor.local(weights["blocks.1.feed_forward.outer.weight"]).view(-1)[-1] = torch.nan
    after, batch = finite(way.model), batch_of("gpt2", 0)
    where = {"phase": "next token", "value": torch.nan, "step": 1, "learning_rate": 0.1}
    error = diverged(way.model, lambda: way.learner.loss(batch), kept="nothing is kept", **where)
    return {"before": before, "after": after, "error": str(error)}


def refused(tensor: int, **sizes: int) -> str:
    model = gpt2.GPT2(gpt2.GPT2Config(**{**STACK, **sizes}, context=8, vocabulary_size=30))
    try:
        ShardedModel(model, mesh_of(torch.device("cpu"), 1, tensor), fsdp=False)
    except InputError as error:
        return str(error)
    return "nothing"


def in_bfloat16(data: int) -> list[float]:
    """The loss of one process under autocast, and that of the divided model with weights gathered in bfloat16."""
    torch.set_default_dtype(torch.float32)
    found = []
    for divided in (False, True):
        torch.manual_seed(0)
        model, rank = MODELS["gpt2"](), 0
        if divided:
            mesh = mesh_of(torch.device("cpu"), data, 1)
            rank = mesh["data"].get_local_rank()
            ShardedModel(model, mesh, fsdp=True, precision="bfloat16")
        batch = {name: rows.chunk(data) for name, rows in batch_of("gpt2", 0).items()}
        with torch.autocast("cpu", torch.bfloat16):
            shares = [learner_of("gpt2", model).loss({name: rows[part] for name, rows in batch.items()}) / data
                      for part in ([rank] if divided else range(data))]  # fmt: skip
        loss = torch.stack(shares).sum()
        loss.backward()
        norm = dtensor.global_norm([weight.grad for weight in model.parameters() if weight.grad is not None])
        total = loss.detach().clone()
        if divided:
            distributed.all_reduce(total)
        found += [float(total), float(norm)]
    return found


def single_precision(data: int) -> float:
    """How far gradients in float32 are from those of one process: gloo has no product within a sum."""
    one, divided = Training("gpt2", dtype=torch.float32), Training("gpt2", data, 1, dtype=torch.float32)
    one.update()
    divided.update()
    found = [
        way.weights({name: weight.grad for name, weight in way.phase.parameters.items() if weight.grad is not None})
        for way in (one, divided)
    ]
    return max(float((found[0][name] - found[1][name]).abs().max()) for name in found[0])


def without_room(folder: str) -> str:
    """What is said by a process whose files must not be longer than so many bytes."""
    way = Training("gpt2", 2, 1)
    way.update()
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
    try:
        sharded_checkpoint.save(Path(folder), {"step": 1}, way.trained, way.parts(), {})
    except StorageError as error:
        return re.sub(r"got .* free", "got some free", str(error))
    return "nothing"


def loaded_into(system: str, folder: str) -> str:
    try:
        Training(system).resume(Path(folder))
    except RunError as error:
        return str(error)
    return "nothing"


class Windows:
    """Batches of gpt2; after so many, the process is asked to stop."""

    def __init__(self, system: str, number: int, stop_after: int | None = None):
        self.system, self.number, self.left = system, number, stop_after

    def __len__(self) -> int:
        return self.number

    def epoch(self, number: int, start: int = 0) -> Iterator[Batch]:
        for index in range(start, self.number):
            if self.left is not None:
                self.left -= 1
                if self.left == 0:
                    os.kill(os.getpid(), signal.SIGTERM)
            yield batch_of(self.system, self.number * number + index)


def fitted(folder: str, stop_after: int | None = None, system: str = "gpt2", **options: Any) -> list[Any]:
    """Trained by the loop, from the last checkpoint on; the rows of the history, or where it was stopped."""
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    model = MODELS[system]()
    usual = {"epochs": 2, "batch_size": BATCH, "clip": 0.5, "average": 0.9, "accumulate": 2, "learning_rate": 0.01}
    config = TrainingConfig(**{**usual, **options})
    world = World(distributed.get_rank(), distributed.get_world_size())
    train, validation = Windows(system, 6, stop_after), Windows(system, 2)
    ways = {"seed": 0, "folder": Path(folder), "show_progress": False, "world": world}
    try:
        rows = fit(learner_of(system, model), train, validation, config, **ways)
    except Interrupted as stop:
        return [str(stop)]
    assert type(model) is type(MODELS[system]())
    assert all(not dtensor.is_divided(weight) for weight in model.parameters())
    return [{name: value for name, value in row.items() if name != "seconds"} for row in rows]
