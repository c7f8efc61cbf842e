"""Where a run was made: enough to understand a difference between two machines."""

import os
import platform
from pathlib import Path

import torch

import neuropil


def environment() -> dict[str, str]:
    return {
        "neuropil": neuropil.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "threads": str(torch.get_num_threads()),
        "accelerator": torch.cuda.get_device_name() if torch.cuda.is_available() else "none",
    }


def _processor() -> str:
    information = Path("/proc/cpuinfo")
    lines = information.read_text().splitlines() if information.exists() else []
    model = next(
        (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")),
        platform.processor() or "unknown",
    )
    return f"{model}, {os.cpu_count()} cores"
