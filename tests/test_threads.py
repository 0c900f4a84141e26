from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from cases import bits

import cunpool as cu
from cunpool import _cgroups, _omp_wait, _threads
from cunpool._kernels import runtime as _runtime

LARGE = 1 << 24
openmp = pytest.mark.skipif(not cu.openmp_enabled(), reason="a serial build")


def processors() -> int:
    """Those that this process may use, and its container has the time of."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return min(allowed, _cgroups.processors() or allowed)


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A fresh interpreter; other libraries' settings for their workers are not passed on."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        # The tool is what tells ThreadSanitizer of OpenMP's barriers, see .ci/races.
        if name == "OMP_TOOL_LIBRARIES" or not name.startswith(("OMP_", "GOMP_"))
    }
    return subprocess.run(
        [sys.executable, "-c", code], env=inherited | environment, check=True, capture_output=True, text=True,
        timeout=60,
    )  # fmt: skip


def python(code: str, **environment: str) -> str:
    """What it prints."""
    return run(code, **environment).stdout.strip()


def settings(code: str, **environment: str) -> str:
    """What OpenMP's library says of its settings when it is loaded."""
    return run(code, OMP_DISPLAY_ENV="verbose", **environment).stderr


@openmp
def test_the_setting_is_kept():
    cu.set_num_threads(3)
    assert cu.get_num_threads() == 3
    assert _threads.threads_for(LARGE, None) == 3
    assert _threads.threads_for(LARGE, 2) == 2
    cu.set_num_threads(None)
    assert cu.get_num_threads() == min(processors(), _runtime.openmp_threads())


@pytest.fixture
def nothing_said(monkeypatch):
    """What is said once may be said again."""
    for name in ("_said_fork", "_said_serial"):
        monkeypatch.setattr(_threads, name, threading.Lock())


def test_a_serial_build_has_one_thread(monkeypatch, nothing_said):
    monkeypatch.setattr(_threads, "openmp_enabled", lambda: False)
    assert cu.get_num_threads() == _threads.threads_for(LARGE, None) == _threads.threads_for(LARGE, 1) == 1
    assert _threads.threads_for(1, 8) == 1
    with pytest.warns(UserWarning, match="built without OpenMP, so its calls use one thread"):
        assert _threads.threads_for(LARGE, 8) == 1
    assert _threads.threads_for(LARGE, 8) == 1  # which a second warning would end


def test_a_setting_in_a_serial_build_is_answered(monkeypatch, nothing_said, rng):
    monkeypatch.setattr(_threads, "openmp_enabled", lambda: False)
    x = rng.random((1, 512, 512))
    cu.set_num_threads(2)
    with pytest.warns(UserWarning, match="built without OpenMP") as said:
        cu.MaxPool2d(2)(x)
    assert [warning.filename for warning in said] == [__file__]


def test_a_forked_child_that_asks_for_threads_is_answered_once(monkeypatch, nothing_said, rng):
    monkeypatch.setattr(_runtime, "forked", lambda: True)
    monkeypatch.setattr(_threads, "openmp_enabled", lambda: True)
    x = rng.random((1, 512, 512))
    cu.max_pool2d(x, 2)
    cu.max_pool2d(x, 2, num_threads=1)
    cu.set_num_threads(1)
    with pytest.warns(UserWarning, match="Import cunpool after the fork"):
        cu.max_pool2d(x, 2, num_threads=4)
    cu.max_pool2d(x, 2, num_threads=4)  # which a second warning would end
    cu.set_num_threads(4)
    monkeypatch.setattr(_threads, "_said_fork", threading.Lock())
    with pytest.warns(UserWarning, match="Import cunpool after the fork") as said:
        cu.set_num_threads(4)
    assert [warning.filename for warning in said] == [__file__]
    assert cu.get_num_threads() == 1


@pytest.mark.parametrize(
    ("error", "n"), [(ValueError, 0), (ValueError, -1), (TypeError, 1.0), (TypeError, True), (TypeError, "1")]
)
def test_bad_settings(error, n):
    with pytest.raises(error, match=r"n must be (an integer|at least 1), got"):
        cu.set_num_threads(n)
    with pytest.raises(error, match=r"num_threads must be (an integer|at least 1), got"):
        cu.max_pool2d(np.zeros((1, 2, 2)), 2, num_threads=n)


def test_small_calls_are_serial():
    cu.set_num_threads(8)
    assert _threads.threads_for(8192, None) == 1
    assert _threads.threads_for(2 * _threads.GRAIN - 1, None) == 1
    assert _threads.threads_for(2 * _threads.GRAIN - 1, _threads.Ceiling(8)) == 1


@openmp
def test_a_number_in_a_call_is_what_it_says():
    cu.set_num_threads(1)
    for work in (0, 1, LARGE):
        assert [_threads.threads_for(work, n) for n in (1, 2, 5)] == [1, 2, 5]


class Surroundings:
    """What the compiled side would say of other calls and of this thread's team."""

    def __init__(self, monkeypatch):
        self.others, self.in_a_row, self.resting, self.lost, self.now = 0, 0, 0.0, 0.0, 1000.0
        monkeypatch.setattr(
            _threads._runtime,
            "surroundings",
            lambda *_: (self.others, self.in_a_row, self.resting, self.lost, self.now),
        )
        monkeypatch.setattr(_threads, "openmp_enabled", lambda: True)
        monkeypatch.setattr(_threads, "REPAID", 100)

    def threads(self, grains: float) -> int:
        return _threads.threads_for(int(grains * _threads.GRAIN), None)


@pytest.fixture
def around(monkeypatch):
    cu.set_num_threads(8)
    return Surroundings(monkeypatch)


def test_a_team_that_is_awake_has_a_thread_for_each_grain(around):
    assert [around.threads(grains) for grains in (1.99, 2, 3, 7.9, 100)] == [1, 2, 3, 7, 8]


def test_a_team_that_sleeps_is_woken_for_much_work_alone(around):
    around.resting = 2 * _threads.AWAKE_SECONDS
    assert [around.threads(grains * _threads.SLEEPING_GRAINS) for grains in (1.99, 2, 3, 100)] == [1, 2, 3, 8]


def test_calls_in_a_row_wake_a_team_once_for_many(around):
    around.resting = 2 * _threads.AWAKE_SECONDS
    threads = []
    for around.in_a_row in range(_threads.CALLS_IN_A_ROW + 2):
        threads.append(around.threads(2))
    assert threads == [1] * _threads.CALLS_IN_A_ROW + [2, 2]


def test_callers_divide_the_processors(around):
    threads = []
    for around.others in range(10):
        threads.append(around.threads(100))
    assert threads == [8, 4, 2, 2, 1, 1, 1, 1, 1, 1]


@pytest.mark.parametrize(
    ("lost", "resting", "alone", "more"),
    [
        (1e-3, 2e-3, 0.097, 0.002),  # the region ended 2 ms ago
        (600.0, 0.0, 9, 2),  # ten seconds at most: the process was stopped in the middle of a region
    ],
)
def test_what_was_lost_is_repaid_by_calls_with_one_thread(around, lost, resting, alone, more):
    around.lost, around.resting = lost, resting
    assert around.threads(1000) == 1
    around.lost = 0.0  # told once
    around.now += alone
    assert around.threads(1000) == 1
    around.now += more
    assert around.threads(1000) == 8


def test_a_smaller_loss_does_not_end_what_a_larger_one_began(around):
    around.lost = 1.0
    assert around.threads(1000) == 1
    around.lost = 1e-6
    around.now += 1
    assert around.threads(1000) == 1
    around.lost = 0.0
    around.now += 1
    assert around.threads(1000) == 1
    around.now += 100
    assert around.threads(1000) == 8


def alone_after_a_loss(around: Surroundings) -> int:
    """For how many times what a region lost calls have one thread, to the next whole number."""
    around.lost = 1e-3
    assert around.threads(1000) == 1
    around.lost = 0.0
    for times in range(1000):
        around.now += 1e-3
        if around.threads(1000) > 1:
            return times + 1
    raise AssertionError("they stay alone")


def test_losses_that_follow_each_other_are_repaid_by_twice_as_much_each(around, monkeypatch):
    monkeypatch.setattr(_threads, "REPAID", 4)
    assert [alone_after_a_loss(around) for _ in range(8)] == pytest.approx([4, 8, 16, 32, 64, 128, 128, 128], abs=1)


def test_what_has_gone_well_for_a_while_ends_what_was_doubled(around, monkeypatch):
    monkeypatch.setattr(_threads, "REPAID", 4)
    times = []
    for well in (0.0, 0.9, 0.9, 1.1):  # seconds
        around.now += well
        times.append(alone_after_a_loss(around))
    assert times == pytest.approx([4, 8, 16, 4], abs=1)


def test_a_clock_that_is_set_back_ends_what_was_to_be_repaid(around):
    around.lost = 0.05
    assert around.threads(1000) == 1
    around.lost = 0.0
    around.now -= 900
    assert around.threads(1000) == 8
    around.lost = 0.05  # and what is lost from then on counts again
    assert around.threads(1000) == 1


def test_a_region_that_gained_costs_nothing_later(around):
    around.lost = -1.0
    assert around.threads(1000) == 8


def test_below_a_front_ends_ceiling_the_call_chooses(around):
    assert [_threads.threads_for(LARGE, _threads.Ceiling(n)) for n in (1, 3, 6)] == [1, 3, 6]
    around.others = 1
    assert [_threads.threads_for(LARGE, _threads.Ceiling(n)) for n in (1, 3, 6)] == [1, 1, 3]


@openmp
def test_the_compiled_side_knows_of_each_threads_regions(rng):
    x = rng.random((2, 1, 8, 8), np.float32)  # so little that to have a team takes longer, unless a part is held up
    told = []
    end = time.monotonic() + 60

    def call_and_ask() -> None:
        first = _runtime.surroundings(0.0, 0.0, 0.0)
        lost = 0.0
        while lost == 0 and time.monotonic() < end:
            cu.max_pool2d(x, 2, num_threads=2)
            after = _runtime.surroundings(0.0, 0.0, 0.0)
            lost = after[3]
        told.extend([first, after, _runtime.surroundings(0.0, 0.0, 0.0)])

    for _ in range(2):
        thread = threading.Thread(target=call_and_ask)
        thread.start()
        thread.join()
    calls, _, resting, lost, _ = zip(*told, strict=True)
    assert calls == (0,) * 6
    assert resting[0] > 1e8 < resting[3]  # seconds: a thread that never had a team
    assert all(0 <= resting[i] < 60 for i in (1, 2, 4, 5))
    assert lost[0] == lost[2] == lost[3] == lost[5] == 0
    assert lost[1] > 0 < lost[4]


@openmp
def test_little_that_was_lost_is_not_told_until_it_is_more(rng):
    small = rng.random((2, 1, 8, 8), np.float32)
    told = []
    end = time.monotonic() + 60

    def call_and_ask() -> None:
        while not told or (told[-1][2] == 0 and time.monotonic() < end):  # a part that is held up gains something
            cu.max_pool2d(small, 2, num_threads=2)
            before = _runtime.surroundings(0.0, 60.0, 0.0)[3]
            cu.max_pool2d(small, 2, num_threads=2)
            told.append([before, *(_runtime.surroundings(0.0, most, 0.0)[3] for most in (60.0, 0.0, 0.0))])

    thread = threading.Thread(target=call_and_ask)
    thread.start()
    thread.join()
    assert all(tolerated[:2] == [0, 0] for tolerated in told)
    assert told[-1][2] > 0
    assert all(tolerated[3] == 0 for tolerated in told)


@openmp
def test_what_regions_gained_is_counted_against_what_those_behind_them_lose(rng):
    large, small = rng.random((2, 1, 2048, 2048), np.float32), rng.random((2, 1, 8, 8), np.float32)

    def lost(remembered: float) -> float:
        cu.max_pool2d(small, 2, num_threads=2)  # nobody asked before it, so what this thread has gained begins here
        _runtime.surroundings(0.0, 0.0, 0.0)
        cu.max_pool2d(large, 2, num_threads=2)
        _runtime.surroundings(0.0, 60.0, remembered)
        cu.max_pool2d(small, 2, num_threads=2)
        return _runtime.surroundings(0.0, 0.0, 0.0)[3]

    # The large call has to gain something, and the small one to lose, which on a busy machine they may not at once.
    end = time.monotonic() + 60
    while lost(60.0) > 0:
        assert time.monotonic() < end
    while lost(0.0) == 0:
        assert time.monotonic() < end


@openmp
def test_of_calls_before_which_nobody_asked_the_last_one_counts(rng):
    small = rng.random((2, 1, 8, 8), np.float32)
    told = []

    def calls() -> None:
        cu.max_pool2d(small, 2, num_threads=2)  # which has to make a team
        for _ in range(3):
            start = time.perf_counter()
            cu.max_pool2d(small, 2, num_threads=2)
            last = time.perf_counter() - start
        told.extend([_runtime.surroundings(0.0, 0.0, 0.0)[3], last])

    thread = threading.Thread(target=calls)
    thread.start()
    thread.join()
    lost, last = told
    assert 0 <= lost < last


@openmp
@pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="no list of threads here")
def test_where_threads_may_run_stays_as_it_was(rng):
    def allowed() -> dict[str, str]:
        found = {}
        for task in Path("/proc/self/task").iterdir():
            with contextlib.suppress(OSError):  # some other test's thread, which has ended
                found[task.name] = re.findall("Cpus_allowed:.*", (task / "status").read_text())[0]
        return found

    x = rng.random((4, 64, 64, 64), np.float32)
    cu.max_pool2d(x, 2, num_threads=3)  # the team is there
    before = allowed()
    for _ in range(50):
        time.sleep(0.002)  # it sleeps, and somebody may be woken on the processor of this thread
        cu.max_pool2d(x, 2, num_threads=3)
    after = allowed()
    assert len(before.keys() & after.keys()) > 2
    assert {task: after[task] for task in before.keys() & after.keys()}.items() <= before.items()


@openmp
def test_the_compiled_side_knows_of_calls_in_a_row(rng):
    large = rng.random((1, 512, 512))
    cu.set_num_threads(2)
    told = []

    def calls() -> None:
        told.append(_runtime.surroundings(60.0, 0.0, 0.0)[1])  # this thread has made none
        for _ in range(2):
            cu.max_pool2d(large, 2)
            told.append(_runtime.surroundings(60.0, 0.0, 0.0)[1])
        told.append(_runtime.surroundings(0.0, 0.0, 0.0)[1])

    thread = threading.Thread(target=calls)
    thread.start()
    thread.join()
    # The second call may have come later than it takes to be in a row, but it has to be counted by who asks behind it.
    assert told in ([0, 1, 1, 0], [0, 1, 2, 0], [0, 1, 3, 0])


def test_the_compiled_side_counts_calls_under_way():
    x = np.broadcast_to(np.float32(1), (1, 1 << 13, 1 << 13))
    stop = threading.Event()

    def call() -> None:
        while not stop.is_set():
            cu.max_pool2d(x, 4, num_threads=1)

    threads = [threading.Thread(target=call) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        end = time.monotonic() + 60
        while _runtime.surroundings(0.0, 0.0, 0.0)[0] != 2:
            assert time.monotonic() < end
            time.sleep(0.001)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert _runtime.surroundings(0.0, 0.0, 0.0)[0] == 0


def test_the_module_that_sets_how_long_threads_wait_is_the_first_kernel():
    """Any other may load OpenMP's library, as the linker likes, and that reads its settings once."""
    code = "import sys, cunpool; print(*(name for name in sys.modules if name.startswith('cunpool._kernels.')))"
    assert python(code).split()[0] == "cunpool._kernels.runtime"


@pytest.mark.slow
@openmp
@pytest.mark.skipif(sys.platform != "linux" or "GCC" not in _runtime.COMPILER, reason="GNU OpenMP's own settings")
@pytest.mark.parametrize("theirs", [{}, {"GOMP_SPINCOUNT": "7"}, {"OMP_WAIT_POLICY": "passive"}], ids=str)
def test_openmps_threads_wait_briefly_unless_the_user_says_otherwise(theirs):
    code = "import os, cunpool; print(*(name for name in os.environ if name in ('GOMP_SPINCOUNT', 'OMP_WAIT_POLICY')))"
    assert python(code, **theirs) == " ".join(theirs)
    shown = dict(re.findall(r"(GOMP_SPINCOUNT|OMP_WAIT_POLICY) = '(.*)'", settings("import cunpool", **theirs)))
    if not theirs:
        assert shown == {"OMP_WAIT_POLICY": "ACTIVE", "GOMP_SPINCOUNT": str(_omp_wait.TURNS)}
    else:
        assert shown["OMP_WAIT_POLICY"] == theirs.get("OMP_WAIT_POLICY", "PASSIVE").upper()
        assert shown["GOMP_SPINCOUNT"] == theirs.get("GOMP_SPINCOUNT", "0")


@openmp
def test_openmps_own_limit_is_read():
    code = "import cunpool as cu; print(cu.get_num_threads())"
    assert python(code, OMP_NUM_THREADS="1") == "1"


@openmp
@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no processor affinity here")
def test_the_affinity_is_read_at_each_call():
    code = (
        "import os, cunpool as cu; before = cu.get_num_threads();"
        "os.sched_setaffinity(0, [min(os.sched_getaffinity(0))]);"
        "print(cu.get_num_threads())"
    )
    assert python(code) == "1"


@pytest.mark.slow
@openmp
@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no processor affinity here")
@pytest.mark.parametrize(
    "setting",
    [
        {"OMP_PROC_BIND": "true"}, {"OMP_PROC_BIND": "close"}, {"OMP_PROC_BIND": "spread"}, {"OMP_PLACES": "cores"},
        {"OMP_PLACES": "threads", "OMP_PROC_BIND": "close"}, {"GOMP_CPU_AFFINITY": "0-255"}, {"OMP_PROC_BIND": "false"},
    ],
    ids=str,
)  # fmt: skip
def test_threads_that_openmp_binds_are_counted(setting):
    """Then the thread that imports has an affinity of one place, and the others have theirs."""
    code = "import cunpool as cu; print(cu.get_num_threads())"
    assert python(code, **setting) == str(processors())
    assert python(code, **setting, OMP_NUM_THREADS="1") == "1"
    few = f"import os; os.sched_setaffinity(0, [{min(os.sched_getaffinity(0))}]);"
    assert python(few + code, **setting) == "1"


@openmp
@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_bound_threads_are_started():
    code = """
import os, cunpool as cu, numpy as np
x = np.random.default_rng(0).random((1, 64, 512, 512), np.float32)
before = len(os.listdir("/proc/self/task"))
cu.max_pool2d(x, 2, return_indices=True)
print(1 + len(os.listdir("/proc/self/task")) - before)
"""
    assert python(code, OMP_PROC_BIND="true") == str(processors())


def test_openmps_settings_stay(rng):
    before = _runtime.openmp_threads()
    x = rng.random((4, 16, 128, 128), np.float32)
    for threads in (1, 2, 3):
        cu.max_pool2d(x, 2, num_threads=threads)
        cu.set_num_threads(threads)
        cu.max_pool2d(x, 2)
    assert _runtime.openmp_threads() == before


def test_eight_python_threads_at_once(rng):
    jobs = []
    for shape in ((1, 1, 400, 400), (4, 16, 30, 30), (2, 3, 8, 8), (1, 600, 14, 14)):
        x = rng.standard_normal(shape).astype(np.float32)
        y, indices = cu.max_pool2d(x, 2, return_indices=True)
        z = cu.max_unpool2d(y, indices, 2)
        jobs.append((x, bits(y), bits(indices), bits(z)))
    barrier = threading.Barrier(8)

    def work(seed: int) -> int:
        barrier.wait()
        right = 0
        for turn in range(20):
            x, *expected = jobs[(seed + turn) % len(jobs)]
            y, indices = cu.max_pool2d(x, 2, return_indices=True)
            z = cu.max_unpool2d(y, indices, 2)
            right += [bits(y), bits(indices), bits(z)] == expected
        return right

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(8))) == [20] * 8


@openmp
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_fork_that_python_does_not_know_of():
    code = """
import ctypes, os, signal, numpy as np, cunpool as cu
x = np.random.default_rng(0).random((1, 8, 512, 512), np.float32)
y = cu.max_pool2d(x, 2, num_threads=2)  # now there is a team
child = ctypes.PyDLL(None).fork()
if child == 0:
    signal.alarm(20)
    os._exit(0 if cu.get_num_threads() == 1 and (cu.max_pool2d(x, 2, num_threads=2) == y).all() else 1)
print(os.waitpid(child, 0)[1])
"""
    assert python(code) == "0"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_can_call_after_its_parent(rng):
    x = rng.standard_normal((1, 8, 512, 512)).astype(np.float32)
    y, indices = cu.max_pool2d(x, 2, return_indices=True, num_threads=4)
    z = bits(cu.max_unpool2d(y, indices, 2, num_threads=4))  # the parent has been in a parallel region now
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        try:
            warnings.simplefilter("ignore", UserWarning)  # that the child is serial
            right = (
                bits(cu.max_unpool2d(y, indices, 2, num_threads=4)) == z
                and bits(cu.max_pool2d(x, 2)) == bits(y)
                and cu.get_num_threads() == 1
            )
            os._exit(0 if right else 1)
        except BaseException:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0, "the child hung, or its result was wrong"
    assert bits(cu.max_unpool2d(y, indices, 2, num_threads=4)) == z


@openmp
def test_nobody_is_told_of_hundreds_of_threads(monkeypatch):
    """Where the system does not tell of an affinity, OpenMP's number is all there is."""
    monkeypatch.setattr(_runtime, "available", lambda most: min(100_000, most))
    for granted in (None, 50_000):
        monkeypatch.setattr(_threads._cgroups, "processors", lambda granted=granted: granted)
        assert cu.get_num_threads() == _threads.MOST


@openmp
def test_no_more_threads_are_available_than_are_asked_for():
    assert [_runtime.available(most) for most in (1, 2)] == [1, min(2, _runtime.available(_threads.MOST))]


@openmp
def test_nobody_gets_hundreds_of_threads():
    assert _threads.threads_for(1 << 62, 65536) == _threads.MOST
    grad = np.broadcast_to(np.float32(1), (1, 2**15, 2**15))
    assert (cu.max_unpool2d_backward(grad, np.zeros((1, 2, 2), int), 2**14, num_threads=65536) == 1).all()
