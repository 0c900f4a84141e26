"""Nothing is read or written but the elements of the caller's arrays: with unreadable pages behind and before these."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
FUNCTIONS = [
    "convert_indices",
    *(f"take_at{n}d" for n in (1, 2, 3)),
    *(f"{name}{n}d{end}" for name in ("max_pool", "max_unpool") for n in (1, 2, 3) for end in ("", "_backward")),
]

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no mprotect")


def python(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a fresh interpreter, which a SIGSEGV may end."""
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        timeout=600,
        cwd=FOLDER,
        env={**os.environ, **variables},
    )


def last_call(output: str) -> str:
    return "call " + output.rpartition("\ncall ")[2]


@pytest.mark.slow
def test_random_calls():
    run = python("protected_calls.py", "60", "0", "1500")
    assert run.returncode == 0, f"{run.returncode} in {last_call(run.stdout)}\n{run.stderr}"
    assert run.stdout.endswith("\nend\n")
    called = re.findall(r"^(\w+)\(", run.stdout, re.MULTILINE)
    assert {*called} == {*FUNCTIONS}
    for word in ("begin at a page", "end at a page", "reversed [0", "step 2", "index_format", "int32", "out[1]"):
        assert word in run.stdout, f"no call with {word}"


IMPORTS = """
import ctypes
import numpy as np, cunpool as cu
from protected_calls import protected, Layout

def rows(shape, dtype, in_run=1, order=None, at_end=True):
    layout = Layout.__new__(Layout)
    layout.order = order or [*range(len(shape))]
    layout.in_run, layout.step, layout.at_end, layout.reversed = in_run, 1, at_end, [False] * len(shape)
    array = protected(shape, np.dtype(dtype), layout)
    array[...] = np.arange(array.size).reshape(shape) % 100
    return array
"""

# Each ended the process before loops were told where the memory of an array ends.
CASES = {
    "windows of 2 in short rows": "x = rows((1, 4, 8), 'f4'); same(cu.max_pool2d(x, 2), cu.max_pool2d(x.copy(), 2))",
    "of bytes": "x = rows((1, 4, 101), 'u1'); same(cu.max_pool2d(x, 2), cu.max_pool2d(x.copy(), 2))",
    "filtered rows": "x = rows((1, 12, 69), '?'); same(cu.max_pool2d(x, 5, 1), cu.max_pool2d(x.copy(), 5, 1))",
    "the last step along the rows": (
        "x = rows((1, 40, 69), 'i4'); same(cu.max_pool2d(x, 33, 1, 16), cu.max_pool2d(x.copy(), 33, 1, 16))"
    ),
    "channels last": (
        "x = rows((1, 34, 7, 7), 'f4', order=[0, 2, 3, 1])\n"
        "same(cu.max_pool2d(x, 2, return_indices=True)[1], cu.max_pool2d(x.copy(), 2, return_indices=True)[1])"
    ),
    "values that are unpooled": (
        "x = rows((2, 3, 4106), 'u1')\n"
        "codes = np.zeros(x.shape, np.uint8)\n"
        "same(*(cu.max_unpool2d(a, codes, (1, 2), index_format='window') for a in (x, x.copy())))"
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_rows_that_end_at_a_page(case):
    code = "\ndef same(a, b):\n    assert a.tobytes() == b.tobytes()\n\n"
    run = python("-c", f"{IMPORTS}{code}{CASES[case]}\nprint('end')")
    assert (run.returncode, run.stdout) == (0, "end\n"), run.stderr


@pytest.mark.mostly_slow
@pytest.mark.parametrize("at_end", [True, False])
@pytest.mark.parametrize("written", [True, False])
def test_the_pages_are_protected(at_end, written):
    """A process that reads or writes the byte beside a row is ended. The other tests rely on that."""
    code = f"""
        x = rows((1, 3, 8), 'f4', at_end={at_end})
        first = x[0, 1].ctypes.data
        print("inside", sum(ctypes.string_at(first, 32)) > 0, flush=True)
        beside = first + 32 if {at_end} else first - 1
        ctypes.memset(beside, 0, 1) if {written} else ctypes.string_at(beside, 1)
        print("beside", flush=True)
    """
    # AddressSanitizer would report what this test wants.
    options = f"{os.environ.get('ASAN_OPTIONS', '')}:handle_segv=0"
    run = python("-c", IMPORTS + textwrap.dedent(code), ASAN_OPTIONS=options)
    assert run.returncode != 0
    assert run.stdout == "inside True\n"
