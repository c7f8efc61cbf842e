import subprocess
import sys
from pathlib import Path

import pytest

from neuropil.parts.compilation import compiled


def printed(program: str) -> str:
    return subprocess.run([sys.executable, "-B", "-c", program], capture_output=True, text=True, check=True).stdout


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
    program = "from neuropil.parts.compilation import compiled; exec('def double(x): return 2 * x'); "
    program += "print(compiled(double)(4))"
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(nowhere))
    assert printed(program) == "8\n"


CALLER = """from neuropil.parts.compilation import compiled
from shop.prices import (
    RATE,
    price,
)

@compiled
def total(number):
    return price(number) * RATE
"""
HELPER = """from neuropil.parts.compilation import compiled
from shop import discounts

RATE = {rate}

@compiled
def price(number):
    return {price} * number - discounts.OFF
"""


def test_a_function_is_compiled_again_when_a_file_that_it_imports_changes_and_only_then(tmp_path: Path):
    package = tmp_path / "shop"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "till.py").write_text(CALLER)
    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from shop.till import total; "
    program += "print(total(5), sum(total.stats.cache_hits.values()))"

    def outcome(price: int, rate: int, off: int) -> str:
        (package / "prices.py").write_text(HELPER.format(price=price, rate=rate))
        (package / "discounts.py").write_text(f"OFF = {off}")
        return printed(program)

    assert outcome(price=2, rate=1, off=0) == "10 0\n"
    assert outcome(price=2, rate=1, off=0) == "10 1\n"
    assert outcome(price=3, rate=1, off=0) == "15 0\n"  # a helper's code
    assert outcome(price=3, rate=7, off=0) == "105 0\n"  # a constant
    assert outcome(price=3, rate=7, off=1) == "98 0\n"  # a constant of a file that the helper imports
    assert outcome(price=3, rate=7, off=1) == "98 1\n"
