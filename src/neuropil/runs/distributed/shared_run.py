"""A run of many processes: what they must have in common, and the folder that rank 0 has opened for all."""

from pathlib import Path

from neuropil.errors import InputError
from neuropil.runs.run import Run
from neuropil.tasks.experiment import Experiment
from neuropil.training.chunk_loop import ChunkTrainingConfig
from neuropil.training.config import TrainingConfig
from neuropil.training.distributed.processes import World


def told_run(world: World, run: Run | None) -> Run:
    """The run of rank 0, in all processes; those that get here earlier wait for it."""
    told = world.broadcast(None if run is None else {"folder": str(run.folder), "settings": run.settings})
    return Run(Path(told["folder"]), told["settings"]) if run is None else run


def require_rows(training: TrainingConfig | ChunkTrainingConfig, world: World) -> None:
    """The rows of a batch are what the processes divide among themselves; those of tensor parallel have the same."""
    shares = world.size // training.tensor_parallel if isinstance(training, TrainingConfig) else 1
    if isinstance(training, TrainingConfig) and training.batch_size < shares:
        rule, fix = f"a batch must have a row for each of the {shares} processes", "start fewer processes"
        raise InputError(rule, got=f"--batch-size {training.batch_size}", fix=fix)


def require_same_data(experiment: Experiment, world: World) -> None:
    """Nothing is written before all have come here."""
    if world.alone:
        return
    own = experiment.facts().get("fingerprint")
    if world.broadcast(own) != own:
        rule, fix = "all processes must have the same data", "copy the files of rank 0 to every host"
        raise InputError(rule, got=f"other data in rank {world.rank}", fix=fix)
    world.barrier()
