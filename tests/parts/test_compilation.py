import subprocess
import sys
from pathlib import Path

import pytest

from neuropil.parts.compilation import compiled


def test_a_function_is_compiled_and_its_python_stays():
    twice = compiled(lambda x: 2 * x)
    assert (twice(3), twice(1.5), twice.py_func("ab")) == (6, 3.0, "abab")


def test_sums_keep_their_order():
    @compiled
    def total(numbers):
        result = 0.0
        for number in numbers:
            result += number
        return result

    assert total((1e16, 1.0, -1e16)) == 0.0
    assert total((1e16, -1e16, 1.0)) == 1.0


def test_without_a_directory_to_keep_it_every_process_compiles_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    nowhere = tmp_path / "file"
    nowhere.write_text("")
    program = "from neuropil.parts.compilation import compiled; exec('def double(x): return 2 * x'); print(compiled(double)(4))"
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(nowhere))
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "8\n"
