"""Images as a report shows them."""

import numpy as np
from einops import rearrange
from jaxtyping import UInt8
from torch import Tensor


def pixels(image: UInt8[Tensor, "channel height width"]) -> UInt8[np.ndarray, "height width *colour"]:
    """An image as a report shows it: grey, or colour with the channels last."""
    array = rearrange(image, "channel height width -> height width channel").numpy()
    return array[..., 0] if array.shape[-1] == 1 else array
