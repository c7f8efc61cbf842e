"""Films of any lengths, some at a time."""

from neuropil.data.batches import ShuffledBatches


class FilmBatches(ShuffledBatches):
    """Passes over films as ``{"input": …, "length": …, "target": …}``."""
