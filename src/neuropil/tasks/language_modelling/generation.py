"""Options of text generation."""

from neuropil.config import Config, option
from neuropil.errors import InputError
from neuropil.sampling.text.filters import SamplingConfig
from neuropil.sampling.text.streaming import require_stops

DEFAULT_LENGTH = 400


class GenerationConfig(Config):
    length: int = option(DEFAULT_LENGTH, "maximum number of new tokens", low=0)
    sampling: SamplingConfig = SamplingConfig()
    stop: tuple[str, ...] = option((), "stop strings, which are not part of the text")
    samples: int = option(1, "number of texts to sample", low=1)
    beam: int = option(1, "beam width; above 1 beam search takes the place of sampling", low=1)
    precision: str = option("float32", "precision of the weights on a CPU: float32, bfloat16, int8 or int4 (fastest)")
    seed: int = option(0, "random seed: the same seed gives the same text", low=0)

    def validate(self) -> None:
        require_stops(self.stop)
        if self.beam > 1 and self.samples > 1:
            fix = "leave out --beam or --samples"
            raise InputError("beam search finds one text", got=f"{self.samples} samples", fix=fix)
        if self.beam > 1 and self.precision != "float32":
            fix = "leave out --beam or --precision"
            raise InputError("beam search runs in float32", got=self.precision, fix=fix)
