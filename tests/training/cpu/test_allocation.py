"""Memory that stays in the process while it trains."""

import os
import platform
import resource
import subprocess
import sys

import pytest

from neuropil.training.cpu.allocation import LARGEST_THRESHOLD, OWN_CHOICE

BLOCKS, BYTES = 8, LARGEST_THRESHOLD // 2
PAGES = BLOCKS * BYTES // resource.getpagesize()
PROGRAM = f"""
import resource
from pathlib import Path
import torch
from neuropil.training.cpu.allocation import reused_memory

def activations():
    return [torch.empty({BYTES}, dtype=torch.uint8).fill_(1) for _ in range({BLOCKS})]

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1])

with reused_memory():
    for _ in range(5):
        activations()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    activations()
    print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
    held = resident()
print(held - resident())
"""
pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="of glibc's allocator")


def brought_in_and_given_back(**settings: str) -> list[int]:
    """The pages that an update brings in, and those that go back to the system after the last."""
    environment = {name: value for name, value in os.environ.items() if name not in OWN_CHOICE}
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment | settings, capture_output=True, text=True, check=True
    )
    return [int(word) for word in run.stdout.split()]


def test_an_update_reuses_the_pages_of_the_one_before_and_the_end_gives_them_back():
    brought_in, given_back = brought_in_and_given_back()
    assert brought_in < 0.1 * PAGES
    assert given_back > 0.9 * PAGES


def test_the_environment_has_the_last_word():
    brought_in, given_back = brought_in_and_given_back(MALLOC_MMAP_THRESHOLD_="1000000")
    assert brought_in > 0.9 * PAGES
    assert given_back < 0.1 * PAGES
