"""Recording one layer's attention while a base-size Transformer reads and writes 1,024 tokens. Goal: at most 5 % of the
forward pass; and nothing while nobody records."""

import torch

from benchmarks.timing import alternate, ratio
from neuropil.inspection import record
from neuropil.models.transformer import Transformer, TransformerConfig

TOKENS, ROUNDS = 1024, 9


def main() -> None:
    torch.manual_seed(0)
    model = Transformer(TransformerConfig(source_vocabulary_size=8000, target_vocabulary_size=8000)).eval()
    source, target = (torch.randint(4, 8000, (1, TOKENS)) for _ in range(2))

    def plain() -> None:
        model(source, target)

    def recorded() -> None:
        with record(model, layers="decoder.5.cross"):
            model(source, target)

    with torch.no_grad():
        seconds = alternate({"plain": plain, "recorded": recorded}, ROUNDS)
    print(f"recorded / plain: {ratio(seconds['recorded'], seconds['plain'])}")
