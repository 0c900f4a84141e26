"""Many Python threads at once, with a GIL and without: what calls share must be nobody's, or have a lock."""

from __future__ import annotations

import ctypes
import gc
import os
import subprocess
import sys
import sysconfig
import threading
import tracemalloc
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait

import numpy as np
import pytest
from cases import bits

import cunpool as cu
from cunpool._kernels import memory as _memory

THREADS = 8
SECONDS = float(os.environ.get("CUNPOOL_HAMMERING", "2"))
FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
MB = 1 << 20


def python(code: str) -> str:
    """What a fresh interpreter prints, which decides for itself about the GIL."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHON_GIL"}
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True, timeout=120
    ).stdout.strip()


@pytest.mark.skipif(not FREE_THREADED, reason="a Python that always has a GIL")
def test_the_import_leaves_the_gil_off():
    code = "import sys, numpy; before = sys._is_gil_enabled(); import cunpool; print(before, sys._is_gil_enabled())"
    assert python(code) == "False False"


def resident() -> int:
    """Bytes of memory that the process has now and that are of use to it, where the system tells."""
    gc.collect()
    try:
        ctypes.CDLL(None).malloc_trim(0)
        with open("/proc/self/statm") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, TypeError, AttributeError):  # other systems than Linux with glibc
        return 0


def jobs() -> list[tuple[Callable[[], object], bytes]]:
    """Calls of everything, on small arrays and on ones that lie in recycled memory, and what each gives."""
    rng = np.random.default_rng(28)
    calls: list[Callable[[], object]] = []
    for shape in ((3, 5, 12, 14), (2, 8, 160, 190), (1, 4, 640, 512)):
        for dtype in (np.float32, np.int16):
            x = rng.integers(-30000, 30000, shape).astype(dtype)
            y, places = cu.max_pool2d(x, 2, return_indices=True)
            _, codes = cu.max_pool2d(x, 2, return_indices=True, index_format="window")
            strided = cu.max_pool2d(x, 3, 2, 1, return_indices=True)
            calls += [
                lambda x=x: cu.max_pool2d(x, 2, return_indices=True),
                lambda x=x: cu.max_pool2d(x, 3, 2, 1, return_indices=True, index_dtype=np.int32, num_threads=2),
                lambda x=x: cu.max_pool2d(np.asfortranarray(x), 5, 1, 2, return_indices=True, index_format="window"),
                lambda y=y, places=places: cu.max_unpool2d(y, places, 2, num_threads=2),
                lambda y=y, codes=codes: cu.max_unpool2d(y, codes, 2, index_format="window"),
                lambda strided=strided, x=x: cu.MaxUnpool2d(3, 2, 1)(*strided, output_size=x.shape),
                lambda x=x, places=places: cu.max_unpool2d_backward(x, places, 2),
                lambda places=places, x=x: cu.convert_indices(
                    places, "plane", "onnx", input_size=x.shape, kernel_size=2
                ),
            ]
            if dtype is np.float32:
                calls += [
                    lambda y=y, places=places, x=x: cu.max_pool2d_backward(y, places, x.shape, 2),
                    lambda y=y, codes=codes, x=x: cu.max_pool2d_backward(y, codes, x.shape, 2, index_format="window"),
                ]
    volume = rng.random((2, 3, 20, 40, 50))
    pooled = cu.max_pool3d(volume, 2, return_indices=True)
    line = rng.random((1, 4, 300_000), np.float32)
    calls += [
        lambda: cu.max_pool3d(volume, (2, 3, 3), 2, 1, return_indices=True),
        lambda: cu.max_unpool3d(*pooled, 2),
        lambda: cu.max_pool1d(line, 5, 2, return_indices=True),
    ]
    return [(call, content(call())) for call in calls]


def content(result: object) -> bytes:
    return b"".join(map(bits, result)) if isinstance(result, tuple) else bits(result)


def call_all(work: list[tuple[Callable[[], object], bytes]], seconds: float) -> int:
    """How many calls eight threads made in this time, each with the result that it should have."""
    barrier, stop = threading.Barrier(THREADS + 1), threading.Event()

    def call(seed: int) -> int:
        rng, calls = np.random.default_rng(seed), 0
        kept: list[object] = []
        barrier.wait()
        while not calls or not stop.is_set():
            function, expected = work[rng.integers(len(work))]
            result = function()
            assert content(result) == expected
            kept.append(result)  # and dropped later
            if len(kept) > 3:
                del kept[rng.integers(len(kept))]
            setting = rng.integers(40)
            if setting == 0:
                cu.set_cache_limit(int(rng.integers(4, 65)) * MB)
            elif setting == 1:
                cu.set_num_threads(int(rng.integers(1, 4)) if rng.integers(2) else None)
            elif setting == 2:
                cu.empty_cache()
            elif setting == 3:
                assert 0 <= cu.cache_info().kept <= 64 * MB
            elif setting == 4:
                _memory.configure(cu.get_cache_limit(), bool(rng.integers(2)))
            calls += 1
        return calls

    with ThreadPoolExecutor(THREADS) as pool:
        running = [pool.submit(call, seed) for seed in range(THREADS)]
        barrier.wait()
        wait(running, seconds, FIRST_EXCEPTION)
        stop.set()
        return sum(future.result() for future in running)


@pytest.mark.slow
def test_eight_threads_call_everything():
    """Results stay what they are whatever others set meanwhile, and no memory is lost."""
    before = cu.get_cache_limit()
    work = jobs()
    memory, traced = [], []
    try:
        cu.set_cache_limit(64 * MB)
        tracemalloc.start()
        for _ in range(4):
            assert call_all(work, SECONDS / 4) >= THREADS
            cu.empty_cache()
            assert cu.cache_info().kept == 0
            memory.append(resident())
            traced.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
        _memory.configure(before, False)
    # What was allocated is counted to the byte; what the C library keeps of it is not, and varies.
    assert max(traced[1:]) <= traced[0] + MB // 4, traced
    assert min(memory[2:]) <= max(memory[:2]) + 128 * MB, memory


def test_every_block_has_one_owner():
    """Memory that is handed on goes to one thread alone, and all of it is counted."""
    before = cu.get_cache_limit()
    sizes = [MB + 4096 * step for step in range(5)]
    barrier = threading.Barrier(THREADS)

    def fill(seed: int) -> int:
        rng, wrong = np.random.default_rng(seed), 0
        held: list[np.ndarray] = []
        barrier.wait()
        for turn in range(400):
            block = _memory.new(np.empty(1, np.int64), (sizes[rng.integers(5)] // 8,), np.dtype(np.int64))
            mark = seed << 32 | turn
            block[::512] = mark
            held.append(block)
            if len(held) > 4:
                first = held.pop(int(rng.integers(5)))
                wrong += not (first[::512] == first[0]).all() or int(first[0]) >> 32 != seed
            if turn % 100 == 99:
                cu.set_cache_limit(int(rng.integers(1, 20)) * MB)
        return wrong

    try:
        cu.empty_cache()
        start = cu.cache_info()
        cu.set_cache_limit(20 * MB)
        with ThreadPoolExecutor(THREADS) as pool:
            assert sum(pool.map(fill, range(THREADS))) == 0
        end = cu.cache_info()
        assert end.hits + end.misses - start.hits - start.misses == THREADS * 400
        cu.empty_cache()
        assert cu.cache_info().kept == 0
    finally:
        cu.set_cache_limit(before)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_forks_while_others_wait_for_the_lock():
    """A thread that waits for the memory's lock at a fork is not there in the child to let go of it."""
    code = """
import os, signal, threading, warnings
import numpy as np, cunpool as cu
from cunpool._kernels import memory as _memory
warnings.simplefilter("ignore")
cu.set_cache_limit(1 << 28)
stop = threading.Event()

def work():
    while not stop.is_set():
        blocks = [_memory.new(np.empty(1, np.uint8), (1 << 20,), np.dtype(np.uint8)) for _ in range(8)]
        del blocks

threads = [threading.Thread(target=work) for _ in range(6)]
for thread in threads:
    thread.start()
stuck = 0
for _ in range(60):
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        cu.empty_cache()
        block = _memory.new(np.empty(1, np.uint8), (1 << 20,), np.dtype(np.uint8))
        del block
        os._exit(0 if cu.cache_info().kept == 1 << 20 else 1)
    stuck += os.waitpid(child, 0)[1] != 0
stop.set()
for thread in threads:
    thread.join()
print(stuck)
"""
    assert python(code) == "0"
