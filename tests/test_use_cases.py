"""What people come for, from the beginning to the end."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import cunpool as cu


@pytest.mark.parametrize("index_format", ["plane", "window"])
def test_a_pyramid_of_a_colour_photograph_with_odd_sizes_and_back(rng, index_format):
    photograph = rng.integers(1, 256, (341, 511, 3), np.uint8)  # H x W x C
    x, levels = np.moveaxis(photograph, -1, 0), []
    while min(x.shape[1:]) > 10:
        y, indices = cu.max_pool2d(x, 3, 2, 1, ceil_mode=len(levels) % 2 == 0, return_indices=True,
                                   index_format=index_format)  # fmt: skip
        levels.append((x, indices))
        x = y
    assert len(levels) == 6
    for before, indices in reversed(levels):
        x = cu.max_unpool2d(x, indices, 3, 2, 1, output_size=before.shape, index_format=index_format)
        assert ((x == before) | (x == 0)).all()
        assert (x != 0).any()
    again = np.moveaxis(x, 0, -1)
    assert again.shape == photograph.shape
    assert again.flags.c_contiguous
    assert np.array_equal(again[again != 0], photograph[again != 0])


def test_a_volume_in_a_file_in_slabs(tmp_path):
    """Fortran order, as of medical images: a slab is read, pooled to codes and put back, and no more is in memory.

    A bar grows with each slab: that takes no library, for a slab is a call.
    """
    code = """
        import os, re, sys
        import numpy as np, cunpool as cu

        def peak():  # in MiB; `ru_maxrss` begins with the parent's
            status = open("/proc/self/status").read() if os.path.exists("/proc/self/status") else "VmHWM: 0"
            return int(re.search(r"VmHWM:\\s*(\\d+)", status)[1]) // 1024

        shape = (256, 256, 192)  # x, y, z; z is the slowest in memory
        volume = np.memmap("volume", np.float32, "r", shape=shape, order="F")
        back = np.memmap("back", np.float32, "w+", shape=shape, order="F")
        codes = np.memmap("codes", np.uint8, "w+", shape=tuple(size // 2 for size in shape), order="F")
        base = peak()
        for z in range(0, shape[2], 16):
            slab = np.array(volume[:, :, z : z + 16], order="F")
            y, some = cu.max_pool3d(slab[None], 2, return_indices=True, index_format="window")
            codes[:, :, z // 2 : z // 2 + 8] = some[0]
            back[:, :, z : z + 16] = cu.max_unpool3d(y, some, 2, output_size=slab.shape, index_format="window")[0]
            if z % 64 == 48:  # what is mapped counts as the process's own, as long as it is
                back.flush()
                volume = np.memmap("volume", np.float32, "r", shape=shape, order="F")
                back = np.memmap("back", np.float32, "r+", shape=shape, order="F")
            done = (z + 16) * 24 // shape[2]
            print(f"\\r[{'#' * done:24}] {z + 16} of {shape[2]}", end="", file=sys.stderr, flush=True)
        print(file=sys.stderr)
        print(peak() - base)
    """
    volume = np.random.default_rng(0).random((192, 256, 256), np.float32)
    volume.tofile(tmp_path / "volume")
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert run.returncode == 0, run.stderr
    bars = re.findall(r"\[(#*) *\] (\d+) of 192", run.stderr)
    assert bars == [("#" * (z // 8), str(z)) for z in range(16, 193, 16)]
    if sys.platform == "linux" and "san" not in os.environ.get("LD_PRELOAD", ""):  # which keeps what is freed
        assert int(run.stdout) < 80  # MiB; the volume and its copy have 96
    whole = volume.transpose(2, 1, 0)
    y, indices = cu.max_pool3d(whole[None], 2, return_indices=True)
    expected = cu.max_unpool3d(y, indices, 2, output_size=whole.shape)[0]
    assert np.array_equal(np.memmap(tmp_path / "back", np.float32, "r", shape=whole.shape, order="F"), expected)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_server_of_eight_threads_and_four_forked_workers(rng):
    x = rng.random((2, 8, 256, 256), np.float32)
    y, indices = cu.max_pool2d(x, 2, return_indices=True)
    expected = cu.max_unpool2d(y, indices, 2).tobytes()

    def request(_):
        result = cu.max_unpool2d(*cu.max_pool2d(x, 2, return_indices=True), 2)
        return result.tobytes() == expected

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(request, range(32)))
        children = []
        for _ in range(4):
            child = os.fork()
            if child == 0:
                right = 1
                try:
                    right = 0 if all(map(request, range(4))) and cu.get_num_threads() == 1 else 1
                finally:
                    os._exit(right)
            children.append(child)
        assert all(pool.map(request, range(16)))
        assert [os.waitpid(child, 0)[1] for child in children] == [0] * 4


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.skipif(not cu.openmp_enabled(), reason="a serial build")
@pytest.mark.parametrize("preloaded", [False, True])
def test_a_server_that_preloads_gives_its_workers_threads_if_they_import_cunpool(preloaded):
    """What the page on threads tells gunicorn's users."""
    code = f"""
import os, sys, warnings
import numpy as np
x = np.random.default_rng(0).random((1, 8, 512, 512))
if {preloaded}:
    import cunpool as cu
    cu.max_pool2d(x, 2)
child = os.fork()
if child == 0:
    warnings.simplefilter("ignore")
    import cunpool as cu
    before = len(os.listdir("/proc/self/task")) if sys.platform == "linux" else 0
    cu.max_pool2d(x, 2, num_threads=2)
    started = len(os.listdir("/proc/self/task")) - before if sys.platform == "linux" else int(not {preloaded})
    os._exit(10 + started)
os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    run = subprocess.run([sys.executable, "-c", code], timeout=60)
    assert run.returncode == (10 if preloaded else 11)
