"""Finding hidden tokens again: the objective of a masked language model.

L = −(1/|C|) Σ_{t ∈ C} ln p(x_t | what is left of the text)          C the chosen places
"""

from collections.abc import Callable, Mapping, Sequence

from jaxtyping import Float, Int64
from torch import Tensor, nn

from neuropil.parts.losses import categorical_cross_entropy
from neuropil.protocols import Batch, Phase


class MaskedToken:
    """A batch is ``{"input": …, "target": …, "scored": …}``, with `scored` true at the chosen places. `read` gives a vector for each token
    of a text, and `logits` says of such vectors what may stand there: it is asked about the chosen places alone."""

    def __init__(self, model: nn.Module, read: Callable[[Tensor], Tensor], logits: Callable[[Tensor], Tensor]):
        self.model, self.read, self.logits = model, read, logits

    def phases(self) -> Sequence[Phase]:
        return [Phase("masked token", dict(self.model.named_parameters()), self.loss)]

    def loss(self, batch: Batch) -> Float[Tensor, ""]:
        return categorical_cross_entropy(*self._answers(batch)).mean()

    def metrics(self, batch: Batch) -> Mapping[str, Float[Tensor, " place"]]:
        """One value for each chosen place."""
        logits, target = self._answers(batch)
        return {"loss": categorical_cross_entropy(logits, target), "accuracy": (logits.argmax(-1) == target).float()}

    def _answers(self, batch: Batch) -> tuple[Float[Tensor, "place token"], Int64[Tensor, " place"]]:
        chosen = batch["scored"]
        return self.logits(self.read(batch["input"])[chosen]), batch["target"][chosen]
