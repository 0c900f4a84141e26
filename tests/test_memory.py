from __future__ import annotations

import gc
import mmap
import os
import subprocess
import sys
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from cases import LOW, channels_last

import cunpool as cu
from cunpool import _cgroups, memory
from cunpool._kernels import memory as _memory

MB = 1 << 20
WIDE = {"kernel_size": 5, "stride": 1, "padding": 2}  # windows that pooling needs memory to work in for


@pytest.fixture(autouse=True)
def as_before():
    limit = cu.get_cache_limit()
    cu.empty_cache()
    yield
    memory._set_limit(limit, False)


@pytest.fixture
def pooled(rng):
    x = rng.random((1, 16, 256, 256), np.float32)
    return cu.max_pool2d(x, 2, return_indices=True)


def address(array):
    return array.__array_interface__["data"][0]


def test_the_memory_of_a_dropped_result_is_used_again(pooled):
    first = cu.max_unpool2d(*pooled, 2)
    where = address(first)
    assert first.base is None
    assert first.flags.owndata
    del first
    assert cu.cache_info().kept >= 4 * MB
    again = cu.max_unpool2d(*pooled, 2)
    assert address(again) == where
    assert cu.cache_info().kept == 0


@pytest.mark.parametrize("lead", [(1,), (64,), (8, 8)])
def test_only_results_of_64_kib_are_recycled(lead):
    for count, recycled in ((1 << 14, True), ((1 << 14) - 64, False)):
        values = np.zeros((*lead, count // np.prod(lead)), np.float32)
        before = cu.cache_info()
        cu.max_unpool1d(values, np.zeros(values.shape, np.int64), 1)
        now = cu.cache_info()
        assert now.hits + now.misses - before.hits - before.misses == recycled, (lead, count)


@pytest.mark.parametrize("layout", [slice(None), slice(None, None, -1)])
def test_results_of_more_cells_than_can_be_counted(layout):
    grad, indices = np.ones((1, 100), np.float32)[:, layout], np.zeros((1, 100), np.int64)
    with pytest.raises(ValueError, match="dimension"):
        cu.max_pool1d_backward(grad, indices, (99 * 2**60 + 1,), 1, 2**60)


def test_results_keep_their_dtype_alive_and_no_longer():
    dtype = np.dtype([("here", np.float32), ("there", np.float32)])
    values, indices = np.zeros((1, 4), dtype), np.zeros((1, 4), np.int64)
    before = sys.getrefcount(dtype)
    for layout in (values, values[:, ::2]):
        results = [cu.max_unpool1d(layout, indices[:, : layout.shape[1]], 1) for _ in range(50)]
        assert {result.dtype for result in results} == {dtype}
        assert sys.getrefcount(dtype) >= before + 50 - 2
        del results
        assert sys.getrefcount(dtype) <= before + 2


@pytest.mark.slow
def test_memory_that_something_can_still_see_is_not(pooled):
    expected = cu.max_unpool2d(*pooled, 2).tobytes()
    views = []
    for _ in range(4):
        result = cu.max_unpool2d(*pooled, 2)
        views.append((result[0, 3], memoryview(result).cast("B"), result.reshape(-1)[::7])[len(views) % 3])
        del result
        gc.collect()
    other = cu.max_unpool2d(pooled[0] + 1, pooled[1], 2)
    whole = np.frombuffer(expected, np.float32).reshape(other.shape)
    assert np.array_equal(views[0], whole[0, 3])
    assert bytes(views[1]) == expected
    assert np.array_equal(views[2], whole.reshape(-1)[::7])
    assert not np.array_equal(other, whole)


def test_no_more_is_kept_than_the_limit(rng, pooled):
    cu.set_cache_limit(10 * MB)
    kept = [cu.max_unpool2d(*pooled, 2) for _ in range(5)]
    kept.clear()
    assert 4 * MB <= cu.cache_info().kept <= 10 * MB
    cu.set_cache_limit(5 * MB)
    assert cu.cache_info().kept <= 5 * MB
    cu.empty_cache()
    assert cu.cache_info().kept == 0
    cu.set_cache_limit(0)
    cu.max_unpool2d(*pooled, 2)
    assert cu.cache_info().kept == 0


def test_many_sizes_do_not_pile_up(rng):
    cu.set_cache_limit(1 << 40)
    for size in range(100, 400):
        cu.max_unpool1d(np.ones((1, size * 1000), np.float32), np.zeros((1, size * 1000), np.int32), 1)
    assert cu.cache_info().kept == 4000 * sum(range(400 - 256, 400))


def block(size: int) -> np.ndarray:
    return _memory.new(np.empty(1, np.uint8), (size,), np.dtype(np.uint8))


def kept() -> int:
    return cu.cache_info().kept


def test_memory_is_used_again_as_far_as_a_quarter_is_wasted():
    size = 4 * MB
    for capacity, again in ((size - 1, False), (size, True), (size + size // 4, True), (size + size // 4 + 1, False)):
        cu.empty_cache()
        del (first := [block(capacity)])[:]
        assert kept() == capacity
        result = block(size)
        assert kept() == (0 if again else capacity), capacity
        del result, first
        assert kept() == (capacity if again else capacity + size)


def test_the_tightest_memory_is_used():
    sizes = [4 * MB + 3000, 4 * MB + 1000, 4 * MB + 2000, 4 * MB - 1]
    for order in (sizes, sizes[::-1], sizes[2:] + sizes[:2]):
        cu.empty_cache()
        held = [block(size) for size in order]
        while held:
            del held[0]
        results = []
        for size in sorted(sizes)[1:]:
            before = kept()
            results.append(block(4 * MB))
            assert before - kept() == size
        results.append(block(4 * MB))
        assert kept() == 4 * MB - 1
        results.clear()


def test_the_oldest_memory_goes_first():
    cu.set_cache_limit(12 * MB)
    for size in (2 * MB, 4 * MB, 3 * MB):
        block(size)
    assert kept() == 9 * MB
    block(8 * MB)  # there is room for it beside one of three, and the third is the youngest
    assert kept() == 11 * MB
    third = block(3 * MB)
    assert kept() == 8 * MB
    del third
    cu.set_cache_limit(5 * MB)
    assert kept() == 3 * MB
    block(5 * MB + 1)  # more than the limit, which costs the others nothing
    assert kept() == 3 * MB


def test_no_more_than_256_are_kept_and_the_oldest_goes():
    cu.set_cache_limit(1 << 30)
    sizes = [MB + 300_000 * i for i in range(4)] + [MB] * 253
    held = [block(size) for size in sizes]
    while held:
        del held[0]
    assert kept() == sum(sizes[1:])


def test_resizing_moves_what_there_is_and_keeps_the_rest():
    array = block(4 * MB)
    array[...] = np.arange(4 * MB) % 251
    expected = array.tobytes()
    array.resize(8 * MB, refcheck=False)
    assert kept() == 4 * MB
    assert array[: 4 * MB].tobytes() == expected
    assert not array[4 * MB :].any()
    array.resize(3 * MB, refcheck=False)
    assert array.tobytes() == expected[: 3 * MB]
    assert kept() == 12 * MB
    with pytest.raises(MemoryError):
        array.resize(2**55, refcheck=False)
    assert array.tobytes() == expected[: 3 * MB]
    assert kept() == 0  # all of it made room, in vain
    array[...] = 1
    del array
    assert kept() == 3 * MB


def test_numpys_own_arrays_are_numpys_after_a_memory_error():
    with pytest.raises(MemoryError):
        cu.max_unpool1d(np.broadcast_to(np.float32(1), (1, 2**46)), np.broadcast_to(0, (1, 2**46)), 2)
    before = cu.cache_info()
    del (own := [np.empty(4 * MB, np.uint8)])[:]
    assert cu.cache_info() == before
    assert not own


def test_hits_and_misses(pooled):
    before = cu.cache_info()
    assert before.kept == 0
    result = cu.max_unpool2d(*pooled, 2)
    assert cu.cache_info() == (0, before.limit, before.hits, before.misses + 1)
    del result
    assert cu.cache_info() == (4 * MB, before.limit, before.hits, before.misses + 1)
    result = cu.max_unpool2d(*pooled, 2)  # noqa: F841 - it must stay alive
    assert cu.cache_info() == (0, before.limit, before.hits + 1, before.misses + 1)
    # A small result is the C library's, and windows of 2 in contiguous rows are compared where they lie.
    cu.max_pool2d(np.ones((1, 2, 8, 8), np.float32), 2)
    assert cu.cache_info().misses == before.misses + 1


@pytest.fixture
def wide(rng):
    """An image whose pooled values are the C library's, and what pooling it gives."""
    x = rng.standard_normal((1, 2, 60, 60)).astype(np.float32)
    return x, cu.max_pool2d(x, **WIDE, num_threads=1)


def test_memory_that_calls_work_in_is_counted_and_used_again(wide):
    x, expected = wide
    cu.empty_cache()
    before = cu.cache_info()
    for call in range(3):
        assert np.array_equal(cu.max_pool2d(x, **WIDE, num_threads=1), expected)
        now = cu.cache_info()
        assert (now.hits - before.hits, now.misses - before.misses) == (call, 1)
        assert 1 << 12 <= now.kept <= 1 << 20
    cu.empty_cache()
    assert kept() == 0
    assert np.array_equal(cu.max_pool2d(x, **WIDE, num_threads=1), expected)
    assert kept() == now.kept


def test_memory_that_calls_work_in_keeps_to_the_limit(wide):
    x, expected = wide
    size = kept()
    assert size
    for limit, left in ((size - 1, 0), (size, size), (0, 0)):
        cu.set_cache_limit(limit)
        cu.empty_cache()
        assert np.array_equal(cu.max_pool2d(x, **WIDE, num_threads=1), expected)
        assert kept() == left


def test_calls_of_similar_sizes_work_in_the_same_memory(rng):
    before = cu.cache_info()
    for width in range(40, 50):
        cu.max_pool2d(rng.random((1, 1, 30, width), np.float32), **WIDE, num_threads=1)
    assert cu.cache_info().misses - before.misses <= 2


@pytest.mark.parametrize("threads", [1, 3])
def test_every_way_that_takes_memory_to_work_in(rng, threads):
    """Filtering, reaching, windows of many cells, and planes that are copied first."""
    x = rng.integers(-9, 9, (3, 5, 40, 50)).astype(np.float32)
    turned = x.transpose(0, 1, 3, 2)
    gaps = np.repeat(x, 2, -1)[..., ::2]
    calls = [
        lambda: cu.max_pool2d(x, 5, 1, 2, num_threads=threads),
        lambda: cu.max_pool2d(x, 5, 1, 2, return_indices=True, num_threads=threads),
        lambda: cu.max_pool2d(x, 17, 1, 8, return_indices=True, num_threads=threads),
        lambda: cu.max_pool2d(gaps, 2, num_threads=threads),
        lambda: cu.max_pool2d(gaps, 5, 1, 2, num_threads=threads),
        lambda: cu.max_pool2d(turned[:, :, ::-1], 17, 1, 8, return_indices=True, num_threads=threads),
    ]
    for number, call in enumerate(calls):
        cu.empty_cache()
        fresh = call()
        assert kept(), number
        again = call()
        for one, other in zip(fresh, again, strict=True):
            assert np.array_equal(one, other), number


def test_eight_threads_work_in_memory_of_their_own(rng):
    images = [rng.integers(-99, 99, (1, 4, 60, 60 + number)).astype(np.float32) for number in range(8)]
    expected = [cu.max_pool2d(x, **WIDE, num_threads=1) for x in images]

    def work(number):
        wrong = 0
        for turn in range(150):
            result = cu.max_pool2d(images[number], **WIDE, num_threads=1 + turn % 2)
            wrong += not np.array_equal(result, expected[number])
            if turn % 10 == number:
                cu.empty_cache()
            elif turn % 50 == number:
                cu.set_cache_limit((turn % 3) * MB)
        return wrong

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(work, range(8))) == 0
    cu.empty_cache()
    assert kept() == 0


@pytest.fixture
def on_one_processor():
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    yield
    os.sched_setaffinity(0, allowed)


def lazily_free() -> int:
    """Bytes that the system may take back. It counts pages in batches, one for each processor; to unmap memory counts
    this one's."""
    mmap.mmap(-1, mmap.PAGESIZE).close()
    lines = Path("/proc/self/smaps").read_text().splitlines()
    return 1024 * sum(int(line.split()[1]) for line in lines if line.startswith("LazyFree"))


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="needs /proc")
def test_a_container_may_have_back_what_is_kept(monkeypatch, on_one_processor):
    monkeypatch.setattr(_memory, "RECYCLED", 1)  # the small block, too
    for wanted in (True, False, True):
        cu.empty_cache()
        _memory.configure(cu.get_cache_limit(), wanted)
        try:
            array = block(32 * MB)
            array[...] = 7
            small = block(MB // 256 if LOW else 2 * MB)
            small[...] = 7
            before = lazily_free()
            del small
            assert lazily_free() == before
            del array
            assert (lazily_free() - before > 30 * MB) == wanted
        finally:
            _memory.configure(cu.get_cache_limit(), False)
        array = block(32 * MB)
        array[...] = 5
        assert (array == 5).all()
        del array  # before pages are offered again: the system would count some of its pages later


def limits(code: str = "", **environment: str) -> str:
    """The limit that a fresh process comes up with, and what it says on the way."""
    run = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport cunpool as cu; print(cu.get_cache_limit())"], check=True, text=True,
        capture_output=True, env={**os.environ, **environment},
    )  # fmt: skip
    return run.stdout.strip() + run.stderr


@pytest.mark.parametrize(
    ("text", "expected"),
    [("0", 0), ("1000", 1000), ("64M", 64 * MB), (" 3 k ", 3072), ("2GiB", 2 << 30), ("5mb", 5 * MB), ("", None)],
)
def test_the_limit_in_the_environment(monkeypatch, text, expected):
    monkeypatch.setenv("CUNPOOL_CACHE_LIMIT", text)
    assert memory._from_environment() == expected


def test_leading_zeros_of_a_limit(monkeypatch):
    monkeypatch.setenv("CUNPOOL_CACHE_LIMIT", "0" * 5000 + "64M")
    assert memory._from_environment() == 64 * MB


def test_a_limit_of_more_digits_than_python_reads():
    said = limits(CUNPOOL_CACHE_LIMIT="7" * 5000)
    assert said.startswith(limits(CUNPOOL_CACHE_LIMIT=""))
    assert f"such as 1000000, 64M or 1G, got '{'7' * 60}...': the default" in said


@pytest.mark.parametrize("text", ["much", "-1", "1.5G", "64 T", "9" * 30, "8589934592G"])
def test_a_bad_limit_in_the_environment_is_said(monkeypatch, text):
    monkeypatch.setenv("CUNPOOL_CACHE_LIMIT", text)
    with pytest.warns(UserWarning, match=f"must be a number of bytes, such as 1000000, 64M or 1G, got '{text}'"):
        assert memory._from_environment() is None


def test_the_environment_is_read_at_import():
    assert limits(CUNPOOL_CACHE_LIMIT="64M") == str(64 * MB)
    default = limits(CUNPOOL_CACHE_LIMIT="")
    said = limits(CUNPOOL_CACHE_LIMIT="much")
    assert said.startswith(default)
    assert "CUNPOOL_CACHE_LIMIT must be a number of bytes" in said


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux's limits")
@pytest.mark.skipif("san" in os.environ.get("LD_PRELOAD", ""), reason="sanitizers reserve terabytes of addresses")
def test_few_addresses_make_a_small_cache():
    code = "import resource; resource.setrlimit(resource.RLIMIT_AS, (1 << 31, 1 << 31))"
    assert int(limits(code, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", CUNPOOL_CACHE_LIMIT="")) == 1 << 27


@pytest.mark.parametrize(
    ("sizes", "expected"), [([], 1 << 28), ([1 << 40], 1 << 28), ([1 << 40, 1 << 30], 1 << 26), ([0], 0)]
)
def test_the_default_is_a_share_of_the_least(monkeypatch, sizes, expected):
    monkeypatch.setattr(memory, "_memories", lambda: sizes)
    assert memory._default() == expected


def test_a_containers_limit_counts(monkeypatch, tmp_path):
    folder = tmp_path / "sys" / "fs" / "cgroup"
    folder.mkdir(parents=True)
    (tmp_path / "proc" / "self").mkdir(parents=True)
    (tmp_path / "proc" / "self" / "cgroup").write_text("0::/\n")
    (folder / "memory.max").write_text(f"{512 * MB}\n")
    monkeypatch.setattr(_cgroups, "ROOT", tmp_path)
    monkeypatch.delenv("CUNPOOL_CACHE_LIMIT", raising=False)
    offered = []
    configure = _memory.configure

    def noted(most, offers, *others):
        offered.append(offers)
        configure(most, offers, *others)

    monkeypatch.setattr(_memory, "configure", noted)
    monkeypatch.setattr(memory, "_offers", memory._offers)  # as it was, afterwards
    memory._start()
    assert cu.get_cache_limit() == 32 * MB
    (folder / "memory.max").write_text("max\n")
    memory._start()
    assert cu.get_cache_limit() > 32 * MB
    assert offered == [True, False]


def test_zeros_are_zeros():
    """NumPy's hooks have to be complete, though only arrays of objects, which are refused, need zeroed memory."""
    dtype = np.dtype([("object", object), ("number", np.uint64)])
    for fill in (1, 2):
        before = cu.cache_info()
        zeros = _memory.new(np.empty(1, dtype), (1 << 16,), dtype)
        now = cu.cache_info()
        assert (now.hits - before.hits, now.misses - before.misses) == ((0, 1), (1, 0))[fill - 1]
        assert not zeros["number"].any()
        zeros["number"] = fill
        del zeros


@pytest.mark.parametrize("bad", [-1, -(2**70)])
def test_a_negative_limit(bad):
    with pytest.raises(ValueError, match="at least 0"):
        cu.set_cache_limit(bad)
    for wrong in (1.5, None, "64M", True):
        with pytest.raises(TypeError, match="nbytes must be an integer, got"):
            cu.set_cache_limit(wrong)


def test_the_limit_is_lowered_and_not_raised(rng):
    memory._set_limit(1 << 24, False)
    for _ in range(2):
        cu.max_pool2d(rng.random((1, 4, 1024, 1024)), 2)
    assert cu.cache_info().kept > 1 << 22
    for size, limit in ((1 << 25, 1 << 24), (1 << 22, 1 << 22), (1 << 23, 1 << 22)):
        memory.lower_limit(size)
        assert cu.get_cache_limit() == limit
        assert cu.cache_info().kept <= limit


def test_a_limit_that_was_set_is_not_lowered(monkeypatch):
    cu.set_cache_limit(1 << 24)
    memory.lower_limit(1 << 20)
    assert cu.get_cache_limit() == 1 << 24
    for text, limit in (("32M", 32 * MB), ("", MB)):
        monkeypatch.setenv("CUNPOOL_CACHE_LIMIT", text)
        memory._start()
        memory.lower_limit(MB)
        assert cu.get_cache_limit() == limit


def test_a_limit_is_set_in_a_child_that_was_forked_meanwhile():
    with memory._setting:  # by a thread that does not exist in the child
        memory._after_fork()
        cu.set_cache_limit(MB)
    assert cu.get_cache_limit() == MB


def test_the_largest_limit():
    cu.set_cache_limit(sys.maxsize)
    assert cu.get_cache_limit() == sys.maxsize
    for large in (sys.maxsize + 1, 2**64, 2**70):
        with pytest.raises(OverflowError, match=r"nbytes must be at most sys[.]maxsize, "):
            cu.set_cache_limit(large)
    assert cu.get_cache_limit() == sys.maxsize


def test_arrays_are_numpys_own(pooled):
    result = cu.max_unpool2d(*pooled, 2)
    expected = result.copy()
    flat = cu.max_unpool2d(*pooled, 2).reshape(-1)
    del result
    grown = cu.max_unpool2d(*pooled, 2)
    shape = grown.shape
    grown.resize((2, *shape[1:]), refcheck=False)
    assert np.array_equal(grown[:1], expected)
    assert not grown[1].any()
    grown.resize(shape, refcheck=False)
    assert np.array_equal(grown, expected)
    assert np.array_equal(flat, expected.reshape(-1))
    assert np.array_equal(np.array(grown), expected)


def resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
def test_the_process_does_not_grow(pooled):
    def work(_):
        for _ in range(25):
            z = cu.max_unpool2d(*pooled, 2)
            cu.max_pool2d(z, 2, return_indices=True)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
        # Without a GIL more is held at once in some rounds than in the first, and kept then.
        before = resident() - kept()
        for _ in range(3):
            list(pool.map(work, range(4)))
        assert resident() - kept() - before < 16 * MB


@pytest.mark.parametrize("last", [False, True], ids=["contiguous", "channels last"])
@pytest.mark.parametrize("window", [(2,), (3, 2, 1)], ids=str)
def test_no_temporary_of_the_size_of_an_input(rng, last, window):
    x = rng.random((2, 16, 128, 128), np.float32)
    if last:
        x = channels_last(x)
    values, indices = cu.max_pool2d(x, *window, return_indices=True)
    _, codes = cu.max_pool2d(x, *window, return_indices=True, index_format="window")
    out, grad = np.empty_like(x), np.empty_like(values)
    style, size, half = {"index_format": "window"}, x.shape, indices.nbytes // 2
    calls = [
        (lambda: cu.max_unpool2d(values, indices, *window, output_size=x.shape, out=out), 0),
        (lambda: cu.max_unpool2d(values, indices.astype("i4"), *window, output_size=size, out=out), half),
        (lambda: cu.max_unpool2d(values, codes, *window, output_size=x.shape, out=out, **style), 0),
        (lambda: cu.max_unpool2d(values, indices, *window, output_size=x.shape), x.nbytes),
        (lambda: cu.max_pool2d(x, *window, return_indices=True), values.nbytes + indices.nbytes),
        (lambda: cu.max_pool2d(x, *window, return_indices=True, **style), values.nbytes + codes.nbytes),
        (lambda: cu.max_pool2d_backward(values, indices, x.shape, *window, out=out), 0),
        (lambda: cu.max_unpool2d_backward(x, indices, *window, out=grad), 0),
    ]  # fmt: skip
    for number, (call, expected) in enumerate(calls):
        call()
        tracemalloc.start()
        try:
            call()
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < expected + 64 * 1024, number


def test_a_signal_handler_may_set_the_limit_meanwhile():
    """By itself: the lock is held by the thread that the handler interrupts."""
    limit = cu.get_cache_limit()
    with memory._setting:
        cu.set_cache_limit(limit)
    assert cu.get_cache_limit() == limit
