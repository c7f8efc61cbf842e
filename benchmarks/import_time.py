"""import neuropil after import torch, and `neuropil list` from the shell. Goals: 50 ms and 0.5 s."""

import statistics
import subprocess
import sys
import time

IMPORT = "import time, torch; start = time.perf_counter(); import neuropil; print(time.perf_counter() - start)"
ROUNDS = 7


def main() -> None:
    imports = [
        float(subprocess.run([sys.executable, "-c", IMPORT], capture_output=True, text=True, check=True).stdout)
        for _ in range(ROUNDS)
    ]
    print(f"import neuropil: {1000 * statistics.median(imports):.1f} ms beyond import torch")
    lists = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-m", "neuropil", "list"], capture_output=True, check=True)
        lists.append(time.perf_counter() - start)
    print(f"neuropil list: {statistics.median(lists):.2f} s")
