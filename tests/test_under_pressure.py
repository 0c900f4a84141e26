"""Many threads, little memory, forks and interrupts in the middle of calls. Each has a time limit of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from contextlib import suppress

import numpy as np
import pytest

import cunpool as cu

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc and Linux's limits")
POSIX = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
# Sanitizers reserve terabytes of addresses, and keep freed memory for a while.
CHECKED = "san" in os.environ.get("LD_PRELOAD", "")
SANITIZED = pytest.mark.skipif(CHECKED, reason="memory is not what it seems here")
LIMIT = 300 if CHECKED else 60  # seconds: whoever takes longer hangs

COMMON = """
import gc, os, resource, signal, sys, threading, time
import numpy as np
import cunpool as cu

signal.signal(signal.SIGINT, signal.default_int_handler)  # what runs in the background may ignore it
if hasattr(signal, "alarm"):
    signal.alarm(LIMIT)  # ends the process if anything hangs
rng = np.random.default_rng(5)

def case(*shape):
    x = rng.random(shape, np.float32)
    y, indices = cu.max_pool2d(x, 2, return_indices=True)
    return y, indices, cu.max_unpool2d(y, indices, 2).tobytes()
"""


def interpreter(code: str) -> dict:
    """Arguments of `subprocess.run` and the like."""
    code = f"LIMIT = {LIMIT}" + COMMON + textwrap.dedent(code)
    return {"args": [sys.executable, "-c", code], "text": True, "env": {"OMP_WAIT_POLICY": "passive", **os.environ}}


def python(code: str) -> str:
    """What a fresh interpreter prints; nothing here may take it down."""
    run = subprocess.run(**interpreter(code), capture_output=True, timeout=LIMIT + 30)
    assert run.returncode == 0, f"{run.returncode}: {run.stdout}{run.stderr}"
    return run.stdout.strip()


@pytest.mark.slow
@LINUX
@SANITIZED
def test_memory_stays_flat_under_eight_threads():
    code = """
        cases = [case(1, 4, 256 + 64 * i, 512) for i in range(4)]  # results of 2 MB and more: recycled ones
        wrong, calls, stop = [], [0] * 8, time.monotonic() + 3

        def work(number):
            while time.monotonic() < stop or not calls[number]:  # where others keep the processors, it comes late
                y, indices, expected = cases[(number + calls[number]) % 4]
                result = cu.max_unpool2d(y, indices, 2, num_threads=1 + number % 2)
                if calls[number] % 8 == 0 and result.tobytes() != expected:
                    wrong.append(number)
                cu.max_pool2d(result, 2, return_indices=True)
                calls[number] += 1

        def resident():
            with open("/proc/self/statm") as file:
                return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

        cu.set_cache_limit(64 << 20)
        threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        time.sleep(1)
        early = resident()
        for thread in threads:
            thread.join()
        late = resident()
        assert not wrong, wrong
        assert min(calls) > 0, calls
        assert late < early + (96 << 20), (early, late)
        assert cu.cache_info().kept <= 64 << 20
        cu.empty_cache()
        assert cu.cache_info().kept == 0
        print(sum(calls))
    """
    assert int(python(code)) > 50


@LINUX
@SANITIZED
def test_without_memory_there_is_an_error_and_the_next_call_works():
    code = """
        y, indices, expected = case(1, 4, 512, 512)
        limit = int(open("/proc/self/statm").read().split()[0]) * os.sysconf("SC_PAGE_SIZE") + (64 << 20)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        large = np.broadcast_to(np.float32(1), (1, 64, 1024, 1024))
        places = np.broadcast_to(0, large.shape)
        errors = 0
        for call in (
            lambda: cu.max_unpool2d(large, places, 2, num_threads=1),
            lambda: cu.max_pool2d(large, 1, return_indices=True, num_threads=1),
            lambda: cu.max_unpool2d_backward(large, places, 1, num_threads=1),
            lambda: cu.max_pool2d_backward(large, places, (2048, 2048), 2, num_threads=1),
            lambda: cu.convert_indices(places, "plane", "onnx", input_size=(2048, 2048), kernel_size=2),
            lambda: cu.max_unpool2d(large, places, 2**15, num_threads=1),
        ):
            try:
                call()
            except MemoryError:
                errors += 1
            assert cu.max_unpool2d(y, indices, 2, num_threads=1).tobytes() == expected
        print(errors)
    """
    assert python(code) == "6"


@LINUX
@SANITIZED
@pytest.mark.parametrize("threads", [1, 2])
def test_without_memory_to_work_in_there_is_an_error_and_the_next_call_works(threads):
    code = f"""
        y, indices, expected = case(1, 4, 64, 64)
        wide = np.zeros((1, 2, 701, 700))  # of which a single window is worked on in 12 MB
        out = np.empty((1, 2, 1, 1)), np.empty((1, 2, 1, 1), np.int64)
        window = dict(kernel_size=700, return_indices=True, out=out, num_threads={threads})
        cu.max_pool2d(wide, **window)
        cu.empty_cache()
        limits = resource.getrlimit(resource.RLIMIT_AS)
        used = int(open("/proc/self/statm").read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        resource.setrlimit(resource.RLIMIT_AS, (used + (4 << 20), limits[1]))
        errors = 0
        for _ in range(3):
            try:
                cu.max_pool2d(wide, **window)
            except MemoryError as error:
                errors += "to work in" in str(error)
            assert cu.max_unpool2d(y, indices, 2, num_threads=1).tobytes() == expected
            assert cu.max_pool2d(wide[..., :90, :90], 5, 1, 2, num_threads=1).shape == (1, 2, 90, 90)
        resource.setrlimit(resource.RLIMIT_AS, limits)
        cu.max_pool2d(wide, **window)
        print(errors)
    """
    assert python(code) == "3"


@LINUX
@SANITIZED
def test_what_is_kept_makes_room_for_a_new_result():
    code = """
        cu.set_cache_limit(1 << 30)
        kept = [cu.max_unpool1d(np.zeros((1, 1 << 22), "f4"), np.zeros((1, 1 << 22), "i4"), 2) for _ in range(8)]
        del kept
        limit = int(open("/proc/self/statm").read().split()[0]) * os.sysconf("SC_PAGE_SIZE") + (32 << 20)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        large = cu.max_unpool1d(np.broadcast_to(np.float32(1), (1, 1 << 24)), np.broadcast_to(0, (1, 1 << 24)), 2)
        print(large.sum())
    """
    assert python(code) == "1.0"


@pytest.mark.slow
@POSIX
@pytest.mark.parametrize("threads", ["1", "2"])
def test_a_fork_while_another_thread_works_in_memory_of_its_own(threads):
    """What is kept is the child's, and what the other thread had taken is in nobody's way."""
    code = f"""
        import warnings
        warnings.simplefilter("ignore", DeprecationWarning)
        x = rng.random((2, 16, 100, 100), np.float32)
        expected = cu.max_pool2d(x, 5, 1, 2, num_threads=1).tobytes()
        stop = threading.Event()

        def work():
            while not stop.is_set():
                cu.max_pool2d(x, 5, 1, 2, num_threads={threads})

        worker = threading.Thread(target=work)
        worker.start()
        failed = 0
        for _ in range(15):
            time.sleep(0.01)
            child = os.fork()
            if child == 0:
                signal.alarm(20)
                right = cu.max_pool2d(x, 5, 1, 2, num_threads=1).tobytes() == expected
                held = cu.cache_info().kept
                cu.empty_cache()
                right &= held > 0 and cu.cache_info().kept == 0
                right &= cu.max_pool2d(x, 5, 1, 2, num_threads=1).tobytes() == expected
                os._exit(0 if right else 1)
            failed += os.waitpid(child, 0)[1] != 0
        stop.set()
        worker.join()
        print(failed)
    """
    assert python(code) == "0"


@pytest.mark.slow
@POSIX
@pytest.mark.parametrize("threads", ["1", "2"])
def test_a_fork_in_the_middle_of_another_threads_call(threads):
    code = f"""
        import warnings
        warnings.simplefilter("ignore", DeprecationWarning)
        y, indices, expected = case(2, 8, 256, 256)  # results of 4 MB: recycled ones
        stop = threading.Event()

        def work():
            while not stop.is_set():
                cu.max_unpool2d(y, indices, 2, num_threads={threads})

        worker = threading.Thread(target=work)
        worker.start()
        try:
            for _ in range(15):
                time.sleep(0.01)
                child = os.fork()
                if child == 0:
                    signal.alarm(20)
                    right = cu.max_unpool2d(y, indices, 2, num_threads=2).tobytes() == expected
                    os._exit(0 if right else 1)
                status = os.waitpid(child, 0)[1]
                assert status == 0, status
        finally:
            stop.set()
            worker.join()
        assert cu.max_unpool2d(y, indices, 2).tobytes() == expected
        print("right")
    """
    assert python(code) == "right"


@pytest.mark.slow
@POSIX
def test_an_interrupt_leaves_things_usable():
    code = """
        y, indices, expected = case(4, 16, 512, 512)
        for _ in range(6):
            try:
                print("calling", flush=True)
                while True:
                    cu.max_unpool2d(y, indices, 2)
            except KeyboardInterrupt:
                assert cu.max_unpool2d(y, indices, 2).tobytes() == expected
        print("done")
    """
    with subprocess.Popen(**interpreter(code), stdout=subprocess.PIPE) as process:
        for turn in range(6):
            assert process.stdout.readline() == "calling\n"
            time.sleep(0.05 + 0.03 * turn)
            process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "done\n"
    assert process.returncode == 0


@pytest.mark.slow
def test_readers_while_indices_change(rng):
    """Another thread that writes the indices during calls can spoil the result, and nothing else."""
    values = np.ones((1, 200, 200), np.float32)
    indices = np.zeros(values.shape, np.int64)
    around = np.full((3, 400, 400), 7, np.float32)
    out, stop, interval = around[1:2], threading.Event(), sys.getswitchinterval()

    def disturb():
        while not stop.is_set():
            indices.flat[::7] = rng.integers(-(2**62), 2**62)
            indices.flat[::7] = 5

    thread = threading.Thread(target=disturb)
    sys.setswitchinterval(interval / 10)  # a call comes as soon as another has written
    thread.start()
    try:
        for turn in range(150):
            with suppress(IndexError):
                cu.max_unpool2d(values, indices, 2, out=out, num_threads=1 + turn % 3)
    finally:
        sys.setswitchinterval(interval)
        stop.set()
        thread.join()
    assert (around[0] == 7).all()
    assert (around[2] == 7).all()


@pytest.mark.parametrize("call", ["many values into few cells", "a large window over few cells"])
def test_other_threads_run_while_much_is_done_for_a_small_result(call):
    values, places = (np.broadcast_to(zero, (1, 2**29)) for zero in (np.float32(0), np.int64(0)))
    beats, done = [], []

    def beat():
        while not done:
            time.sleep(0.001)  # without a GIL, waiting for an event may take a hundred times as long on a busy machine
            beats.append(time.perf_counter())

    def others_ran() -> bool:
        start = time.perf_counter()
        if call == "many values into few cells":
            cu.max_unpool1d(values, places, 1, 1, (2**29 - 20) // 2, output_size=(20,))
        else:
            for _ in range(5):
                cu.max_pool2d(np.ones((4, 60, 60), np.uint8), 120, 1, 60)
        end = time.perf_counter()
        return sum(start < beat < end for beat in [*beats]) > 10 or end - start < 0.05

    other = threading.Thread(target=beat)
    other.start()
    try:
        while not beats:
            time.sleep(0.001)
        # On a busy machine the other thread may not have had a processor; if the GIL were held it never runs.
        assert any(others_ran() for _ in range(4))
    finally:
        done.append(True)
        other.join()
