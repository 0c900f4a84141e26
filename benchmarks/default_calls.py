"""Compare calls that allocate their result with calls that are given `out=`, each in a fresh process.

    python benchmarks/default_calls.py [--threads 1] [--rounds 3] [--sizes 16 64 256 1024 4096] [--only TEXT]

Each case runs `--rounds` times with and without `out=`, in turn. One line a case: the median of calls 20 to 200 in us
(of calls 5 to 20 above 4 MiB), its page faults a call, how many times as long it takes as with `out=`, and the same
ratio of the first call. The last line counts the cases up to 4 MiB whose ratio is above 1.1.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from itertools import product

LIMIT = 1.1
SIZES = [16, 64, 96, 128, 256, 400, 700, 1024, 2048, 4096]  # KiB of the result: of pooling's values, not its indices
OPERATIONS = ["pool", "pool+indices", "pool+codes", "unpool", "unpool_backward", "pool_backward"]


def measure(operation: str, axes: int, dtype: str, window: int, kib: int, threads: int, given: bool) -> list[float]:
    """The first call and the median of later ones, in us, and page faults a call."""
    import numpy as np

    import cunpool as cu

    rest = {1: (), 2: (64,), 3: (16, 32)}[axes]
    rows = max(kib * 256 // np.dtype(dtype).itemsize // int(np.prod(rest)) // 2 * 2, 2)
    sizes, step = ((2, 2, 0), 2) if window == 2 else ((window, 1, window // 2), 1)
    if operation in ("unpool", "pool_backward"):  # whose result is of the size that pooling has read
        step = 1
    rng = np.random.default_rng(1)
    # No temporary is freed before the calls: that changes the size from which on the C library keeps freed memory.
    x = np.empty((1, 4, *(size * step for size in (rows, *rest))), dtype)
    for part in np.split(x.reshape(-1), range(1024, x.size, 1024)):
        part[...] = rng.integers(0, 100, part.size)
    options = {"return_indices": operation != "pool", "index_format": "window" if "codes" in operation else "plane"}
    names = f"pool{axes}d", f"unpool{axes}d", f"pool{axes}d_backward", f"unpool{axes}d_backward"
    pool, unpool, up, down = (getattr(cu, f"max_{name}") for name in names)
    result = pool(x, *sizes, **options)
    values, indices = result if isinstance(result, tuple) else (result, None)
    function, arguments, result = {
        "unpool": (unpool, (values, indices, *sizes), x),
        "pool_backward": (up, (values, indices, x.shape, *sizes), x),
        "unpool_backward": (down, (x, indices, *sizes), values),
    }.get(operation, (pool, (x, *sizes), result))
    more = {"num_threads": threads, **(options if function is pool else {})}
    if given:
        more["out"] = tuple(map(np.empty_like, result)) if isinstance(result, tuple) else np.empty_like(result)
    cu.empty_cache()
    times, (start, end) = [], (20, 200) if kib <= 4096 else (5, 20)
    for number in range(end):
        if number == start:
            faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        begin = time.perf_counter()
        function(*arguments, **more)
        times.append((time.perf_counter() - begin) * 1e6)
    faults = (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults) / (end - start)
    return [times[0], statistics.median(times[start:]), faults]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="KiB of the result")
    parser.add_argument("--dtypes", nargs="+", default=["uint8", "float32", "float64"])
    parser.add_argument("--only", default="", help="cases whose name begins with this")
    parser.add_argument("--case", help=argparse.SUPPRESS)  # what the fresh processes are started with
    args = parser.parse_args()
    if args.case:
        print(json.dumps(measure(*json.loads(args.case))))
        return
    cases = above = 0
    for operation, axes, dtype, window, kib in product(OPERATIONS, (1, 2, 3), args.dtypes, (2, 5), args.sizes):
        name = f"{operation} {axes}d {dtype} window {window}, {kib} KiB"
        has_no_case = (axes == 3 and window == 5) or (operation, dtype) == ("pool_backward", "uint8")
        if has_no_case or not name.startswith(args.only):
            continue
        found = {True: [], False: []}
        for _, given in product(range(args.rounds), (True, False)):
            case = json.dumps([operation, axes, dtype, window, kib, args.threads, given])
            run = subprocess.run([sys.executable, __file__, "--case", case], check=True, stdout=subprocess.PIPE)
            found[given].append(json.loads(run.stdout))
        out, own = ([*map(statistics.median, zip(*found[given], strict=True))] for given in (True, False))
        cases, above = cases + 1, above + (kib <= 4096 and own[1] > LIMIT * out[1])
        print(f"{name:48} {own[1]:9.1f} us {own[2]:6.1f} faults {own[1] / out[1]:6.2f} first {own[0] / out[0]:6.2f}")
    print(f"{above} of {cases} cases take more than {LIMIT} times as long as with out=")


if __name__ == "__main__":
    main()
