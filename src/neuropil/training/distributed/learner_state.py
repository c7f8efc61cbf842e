"""The state that a learner carries from batch to batch, of which each process that trains together has its own rows.

A checkpoint holds the rows of all, as one process would have them: so a run goes on with any number of processes.
"""

from collections.abc import Mapping

from torch import Tensor

from neuropil.protocols import Learner, ReplicatedState, StatefulLearner
from neuropil.training.distributed.processes import World
from neuropil.training.distributed.shares import Share, num_examples, rows_of


def begin_together(learner: Learner, world: World) -> None:
    """All processes with the first weights of rank 0, and with what else must be the same in all."""
    same = learner.replicated_state if isinstance(learner, ReplicatedState) else ()
    state = learner.state_dict() if isinstance(learner, StatefulLearner) else {}
    world.broadcast_tensors([*learner.model.state_dict().values(), *(state[name] for name in same)])


def gathered_state(learner: Learner, latest: Share | None, world: World) -> dict[str, Tensor]:
    """Of all processes, after the `latest` share was learned from."""
    if not isinstance(learner, StatefulLearner):
        return {}
    same = learner.replicated_state if isinstance(learner, ReplicatedState) else ()
    # The rows of a batch that was too small to be divided are the same in all.
    undivided = num_examples(latest.batch) if latest is not None and not latest.divided else -1
    return {
        name: rows if name in same or len(rows) == undivided else world.gather_rows(rows)
        for name, rows in learner.state_dict().items()
    }


def own_state(learner: Learner, state: Mapping[str, Tensor], world: World) -> dict[str, Tensor]:
    """Of what was gathered, the rows of this process."""
    same = learner.replicated_state if isinstance(learner, ReplicatedState) else ()
    return {
        name: rows if name in same or len(rows) < world.size else rows[rows_of(len(rows), world.rank, world.size)]
        for name, rows in state.items()
    }
