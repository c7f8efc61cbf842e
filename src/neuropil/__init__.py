"""neuropil: every network from the biological neuron to the transformer.

    run = neuropil.train("cnn", epochs=5)
    run.predict(images)
    neuropil.simulate("lif", duration=500)
    neuropil.load("runs/…").model

Nothing heavy is imported until it is used.
"""

from typing import TYPE_CHECKING, Any

from neuropil.parts.checkpoint_families import CheckpointFamily, register

if TYPE_CHECKING:
    from neuropil.runs.run import Run as Run
    from neuropil.runs.run import load as load
    from neuropil.runs.run import simulate as simulate
    from neuropil.runs.run import train as train

__version__ = "0.1.0"
__all__ = ["Run", "load", "simulate", "train"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from neuropil.runs import run

        return getattr(run, name)
    raise AttributeError(f"module 'neuropil' has no attribute {name!r}")


@register
def _checkpoint_family(name: str) -> CheckpointFamily:
    from neuropil.pretrained import checkpoint_family

    return checkpoint_family(name)
