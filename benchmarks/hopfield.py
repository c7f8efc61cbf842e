"""Recall of 100 patterns of 2,000 units, beside the loops over units that one would write first: same order and states.
Goal: 100 times as fast."""

import numpy as np
import torch

from benchmarks.timing import alternate, ratio
from neuropil.models.hopfield.capacity import noisy, overlap, random_patterns
from neuropil.models.hopfield.network import HopfieldNetwork, HopfieldNetworkConfig
from neuropil.parts.binary_units.energy_gaps import tie_widths

PATTERNS, UNITS, NOISE, ROUNDS = 100, 2000, 0.2, 3


def main() -> None:
    patterns = random_patterns(PATTERNS, UNITS, torch.Generator().manual_seed(0))
    start = noisy(patterns, NOISE, torch.Generator().manual_seed(1))
    network = HopfieldNetwork(HopfieldNetworkConfig(units=UNITS)).fit(patterns)
    found: dict[str, torch.Tensor] = {}

    def compiled() -> None:
        found["neuropil"] = network.recall(start, generator=torch.Generator().manual_seed(2)).states

    def unit_by_unit() -> None:
        """In NumPy, whose calls are the shortest; one pattern at a time, until a sweep changes nothing."""
        weight, bias = network.weight.numpy(), network.bias.numpy()
        ties = tie_widths(network.weight, network.bias).numpy()
        states = start.numpy().copy()
        for x in states:
            generator, settled = torch.Generator().manual_seed(2), False
            while not settled:
                settled = True
                for unit in torch.randperm(UNITS, generator=generator).tolist():
                    sign = 1.0 if np.dot(weight[unit], x) + bias[unit] >= -ties[unit] else -1.0
                    if sign != x[unit]:
                        x[unit], settled = sign, False
        found["unit by unit"] = torch.from_numpy(states)

    def all_patterns_at_once() -> None:
        """The same with a product for all patterns, unit by unit."""
        ties, generator, x = tie_widths(network.weight, network.bias), torch.Generator().manual_seed(2), start.clone()
        settled = False
        while not settled:
            before = x.clone()
            for unit in torch.randperm(UNITS, generator=generator):
                field = x @ network.weight[unit] + network.bias[unit]
                x[:, unit] = torch.where(field >= -ties[unit], 1.0, -1.0)
            settled = torch.equal(x, before)
        found["unit by unit, all patterns at once"] = x

    loops = {"unit by unit": unit_by_unit, "unit by unit, all patterns at once": all_patterns_at_once}
    seconds = alternate({"neuropil": compiled, **loops}, ROUNDS)
    for name in loops:
        same = torch.equal(found[name], found["neuropil"])
        print(
            f"{name} / neuropil: {ratio(seconds[name], seconds['neuropil'])}, {'the same' if same else 'other'} states"
        )
    mean = overlap(found["neuropil"], patterns).mean()
    print(f"neuropil: {1000 * min(seconds['neuropil']):.0f} ms, mean overlap with the patterns {mean:.3f}")


if __name__ == "__main__":
    main()
