"""What is recorded of simulated neurons."""

from dataclasses import dataclass

from jaxtyping import Float, Int
from torch import Tensor

from neuropil.parts.synapses import interval_rates


@dataclass(frozen=True)
class HodgkinHuxleyRecording:
    """`times` (ms) and `neurons` of all spikes, by time; of the neurons that were watched `voltages` (mV) and the gates
    `n`, `m` and `h` at the end of every step, staggered gates half a step before it."""

    times: Float[Tensor, " spike"]
    neurons: Int[Tensor, " spike"]
    voltages: Float[Tensor, "step watched"]
    n: Float[Tensor, "step watched"]
    m: Float[Tensor, "step watched"]
    h: Float[Tensor, "step watched"]
    num_neurons: int
    duration: float

    def rates(self, after: float = 0.0) -> Float[Tensor, " neuron"]:
        """Hz, from the intervals between a neuron's spikes later than `after` ms; 0 for fewer than two."""
        late = self.times > after
        return interval_rates(self.times[late], self.neurons[late], self.num_neurons)
