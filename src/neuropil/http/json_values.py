"""What JSON can say."""

import math
from collections.abc import Mapping
from typing import Any


def finite(value: Any) -> Any:
    """JSON has neither NaN nor infinity: what is not finite becomes None."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: finite(item) for key, item in value.items()}
    return [finite(item) for item in value] if isinstance(value, list | tuple) else value
