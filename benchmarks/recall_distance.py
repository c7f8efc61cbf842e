"""How far back RNN, LSTM, GRU, minGRU and attention recall at equal parameters.

python -m benchmarks.recall_distance
"""

from collections.abc import Callable
from contextlib import AbstractContextManager

from neuropil.recipes.recall_distance import NETWORKS, TASKS, RecallDistanceOptions, size_for
from neuropil.runs.run import Run

SEEDS = (1, 2)
"""The settings were chosen with seed 0."""
PARAMETERS = RecallDistanceOptions().parameters
LONGEST = RecallDistanceOptions().distances[-1]
HEADER = ("network", "units", *(task.title for task in TASKS))


def rows(trained: Callable[..., AbstractContextManager[Run]]) -> list[list[str]]:
    found: dict[str, list[str]] = {}
    for seed in SEEDS:
        with trained("recall_distance", seed=seed, report=False) as run:
            for result in run.results:
                found.setdefault(result.name, []).append(f"{result.metrics.get('recall_distance', 0):g}")
    return [
        [
            name,
            " or ".join(dict.fromkeys(str(size_for(build, task, PARAMETERS)) for task in TASKS)),
            *(", ".join(found[f"{name}, {task.title}"]) for task in TASKS),
        ]
        for name, build in NETWORKS.items()
    ]


if __name__ == "__main__":
    from benchmarks.claims import table, trained

    print("\n".join(table(HEADER, rows(trained))))
