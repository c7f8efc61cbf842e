"""Workers on the machines of a Ray cluster: Ray starts them where there is room, and carries their lines.

Every machine needs neuropil, and sees the folder of the search and the data at the same paths. Ray pickles the class
below to send it to them; what neuropil writes holds none of it.
"""

import logging
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from neuropil.errors import InputError
from neuropil.extras import require_extra
from neuropil.runs.settings import STUDY
from neuropil.runs.tuning.workers import Pool, WorkerProcess

SECONDS_TO_CONNECT = 10.0
GONE = (-9, "its machine left the Ray cluster")
NOT_SHARED = (1, "the folder of the search is not there; all machines of a Ray cluster must see it at the same path")


class RayWorker:
    """On a machine of the cluster: a worker process, and what is asked of it from afar."""

    def __init__(self, folder: str, threads: int):
        if not (Path(folder) / STUDY).exists():
            raise FileNotFoundError(f"no {folder} there")
        self.process = WorkerProcess(folder, threads)

    def send(self, line: str) -> None:
        self.process.send(line)

    def receive(self) -> str | None:
        return self.process.receive()

    def terminate(self) -> None:
        self.process.terminate()

    def kill(self) -> None:
        self.process.kill()

    def ending(self) -> tuple[int, str]:
        return self.process.ending()


class RayHost:
    """The same from here."""

    def __init__(self, ray: Any, actor: Any):
        self.ray, self.actor = ray, actor
        self.ended: tuple[int, str] | None = None

    def _ask(self, method: str, *arguments: Any) -> Any:
        return self.ray.get(getattr(self.actor, method).remote(*arguments))

    def send(self, line: str) -> None:
        self.actor.send.remote(line)

    def receive(self) -> str | None:
        try:
            return self._ask("receive")
        except self.ray.exceptions.RayError as error:
            self.ended = NOT_SHARED if FileNotFoundError.__name__ in str(error) else GONE
            return None

    def terminate(self) -> None:
        self.actor.terminate.remote()

    def kill(self) -> None:
        self.actor.kill.remote()

    def ending(self) -> tuple[int, str]:
        if self.ended is not None:
            return self.ended
        try:
            ended = self._ask("ending")
        except self.ray.exceptions.RayError:
            ended = GONE
        self.ray.kill(self.actor)
        self.ended = ended
        return ended


@dataclass(frozen=True)
class RayCluster:
    ray: Any
    ours: bool
    """Whether it was joined here, and so is left at the end."""

    @classmethod
    def join(cls, address: str) -> "RayCluster":
        require_extra("ray", "--ray")
        import ray

        if ray.is_initialized():
            return cls(ray, ours=False)
        try:
            host, colon, port = address.removeprefix("ray://").rpartition(":")
            if colon:  # Ray itself would wait for it to the end of days
                socket.create_connection((host, int(port)), timeout=SECONDS_TO_CONNECT).close()
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        except (OSError, ValueError, RuntimeError) as error:
            fix = "start one with `ray start --head`, or leave --ray out"
            raise InputError("--ray must name a Ray cluster that runs", got=f"{address!r}", fix=fix) from error
        return cls(ray, ours=True)

    @property
    def _processors(self) -> list[int]:
        """Of each machine."""
        return [int(node["Resources"].get("CPU", 0)) for node in self.ray.nodes() if node["Alive"]]

    @property
    def machines(self) -> int:
        return max(1, sum(cores > 0 for cores in self._processors))

    def threads_each(self, workers: int) -> int:
        cores = [each for each in self._processors if each] or [1]
        return max(1, min(sum(cores) // workers, max(cores)))

    def pool(self, folder: Path, workers: int) -> Pool:
        threads, cards = self.threads_each(workers), self.ray.cluster_resources().get("GPU", 0)
        # An answer is waited for while others are asked of the same worker.
        needs = {"num_cpus": threads, "num_gpus": min(1, cards / workers), "max_concurrency": 4, "max_restarts": 0}
        remote = self.ray.remote(**needs)(RayWorker)

        def start(number: int) -> RayHost:
            return RayHost(self.ray, remote.remote(str(folder), threads))

        return Pool(workers, threads, start, self.ray.shutdown if self.ours else None)
