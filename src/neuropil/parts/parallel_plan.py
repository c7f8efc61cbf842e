"""How a stack of attention blocks is divided over devices: by heads, and by the hidden units of the feed-forward nets.

    Y = Σ_d [heads of d] W^O_d                 W^Q, W^K, W^V by columns (each device its heads), W^O by rows
    Y = Σ_d φ(x W₁_d + b₁_d) W₂_d              W₁ by columns (each device its hidden units), W₂ by rows

So a device computes with its own part from the stream to the stream, and the devices meet in one sum for each sublayer
(Shoeybi 2019). All else, embeddings and norms, every device computes for itself.
"""

from neuropil.parts.blocks import FeedForward
from neuropil.parts.multi_head import heads_of
from neuropil.parts.parameters import Model
from neuropil.protocols import ParallelPlan

PROJECTIONS = ("query", "key", "value")


class ParallelTransformer(Model):
    """A model of attention blocks."""

    def parallel_plan(self) -> ParallelPlan:
        attentions = heads_of(self)
        networks = {name: module for name, module in self.named_modules() if isinstance(module, FeedForward)}
        fused = {f"{name}.projection": name for name, attention in attentions.items() if attention.fused}
        return ParallelPlan(
            blocks=[name.rpartition(".")[0] for name in networks],
            columns=[f"{name}.{part}" for name in attentions for part in PROJECTIONS]
            + [f"{name}.inner" for name in networks],
            rows=[f"{name}.output" for name in attentions] + [f"{name}.outer" for name in networks],
            heads={name: attention.heads for name, attention in attentions.items()},
            hidden={name: network.inner.out_features for name, network in networks.items()},
            parts={
                f"{projection}.{kind}": [f"{name}.{part}.{kind}" for part in PROJECTIONS]
                for projection, name in fused.items()
                for kind, _ in self.get_submodule(projection).named_parameters()
            },
        )

    def split_projections(self) -> None:
        for attention in heads_of(self).values():
            attention.split_projection()
