"""The same calls, drawn from bytes that libFuzzer chooses by the code they reach in kernels and front end.

From the folder `tests`, with Clang and `pip install atheris`:

    python -m fuzzing.guided --minutes 5                 # fuzz, beginning with the corpus
    python -m fuzzing.guided --minutes 5 --keep          # and add new inputs to the corpus
    python -m fuzzing.guided --minutes 60 --plant "TEXT" # with this bug of planted.toml, which has to be found
    python -m fuzzing.guided --replay 0a1b2c...          # one input again, on the cunpool that is installed
    python -m fuzzing.guided --replay                    # the same for the whole corpus

It builds a copy of the checkout with Clang's coverage counters, without OpenMP, and with every block compared with its
buffer (`CUNPOOL_CHECKED`). `corpus.txt` has an input a line, in hexadecimal digits: `tests/test_fuzz.py` replays them.
"""

from __future__ import annotations

import argparse
import importlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zlib
from pathlib import Path

import numpy as np

TESTS = Path(__file__).parent.parent
CORPUS = Path(__file__).with_name("corpus.txt")
MOST_CORPUS = 1 << 20  # bytes
SECONDS = 60  # that one call may take
FEW = 8  # numbers at once that are still drawn from bytes
TOO_SLOW = ("beyond_caches", "far")  # kinds of calls that take seconds


class Draws:
    """Like NumPy's Generator: small draws come from bytes, large ones and those behind the last byte from a seed."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0
        self.rest = np.random.default_rng(zlib.crc32(data[:4]))

    def number(self, below: int) -> int:
        """A number from 0 to `below` - 1."""
        size = (max(below - 1, 1).bit_length() + 7) // 8
        taken = self.data[self.at : self.at + size]
        self.at += size
        if len(taken) < size:
            return int(self.rest.integers(below)) if below < 1 << 63 else 0
        return int.from_bytes(taken, "little") % below

    def random(self, size=None):
        return self.number(1 << 16) / (1 << 16) if size is None else self.rest.random(size)

    def uniform(self, low: float, high: float) -> float:
        return low + (high - low) * self.random()

    def integers(self, low, high=None, size=None, dtype=np.int64):
        low, high = (0, low) if high is None else (low, high)
        few = size is None or (isinstance(size, int | np.integer) and size <= FEW)
        if not few or np.ndim(low) or np.ndim(high):
            return self.rest.integers(low, high, size, dtype)
        drawn = [int(low) + self.number(int(high) - int(low)) for _ in range(1 if size is None else size)]
        return np.dtype(dtype).type(drawn[0]) if size is None else np.array(drawn, dtype)

    def choice(self, of, size=None, p=None):
        if size is not None and not (isinstance(size, int | np.integer) and size <= FEW):
            return self.rest.choice(of, size, p=p)
        of = np.arange(of) if np.ndim(of) == 0 else np.asarray(of)
        shares = np.full(len(of), 1 / len(of)) if p is None else np.asarray(p)
        drawn = [min(int(np.searchsorted(np.cumsum(shares), self.random(), "right")), len(of) - 1)
                 for _ in range(1 if size is None else size)]  # fmt: skip
        return of[drawn[0]] if size is None else of[drawn]

    def permutation(self, of):
        return np.random.default_rng(self.number(256)).permutation(of)

    def __getattr__(self, name: str):
        return getattr(self.rest, name)


def one_input(data: bytes) -> None:
    """The call that these bytes mean; whatever is wrong with its result is an exception, or ends the process."""
    worker = importlib.import_module("fuzzing.worker")
    kinds = [kind for kind, share in worker.KINDS.items() if kind.__name__ not in TOO_SLOW for _ in range(share)]
    worker.one_call(Draws(data), kinds)


def target(arguments: list[str]) -> None:
    """In the process that fuzzes. libFuzzer ends it."""
    import atheris

    def first_input(data: bytes) -> None:
        """Import the kernels only now: their counters need libFuzzer, which is loaded when fuzzing begins."""
        if "fuzzing.worker" not in sys.modules:
            with atheris.instrument_imports(include=["cunpool"]):
                importlib.import_module("fuzzing.worker")
        one_input(data)

    sys.setdlopenflags(os.RTLD_NOW | os.RTLD_GLOBAL)  # for the kernels to find it
    atheris.Setup([sys.argv[0], *arguments], first_input)
    atheris.Fuzz()


def build(folder: Path, plant: str) -> None:
    """A copy of the package, perhaps with a bug, that counts the edges it reaches."""
    for path in (TESTS.parent / name for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE", "MANIFEST.in")):
        shutil.copy2(path, folder)
    shutil.copytree(TESTS.parent / "cunpool", folder / "cunpool", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    if plant:
        mutants = importlib.import_module("mutants")
        (bug,) = mutants.planted(plant)
        bug.plant(folder)
        print(f"planted: {bug}")
    flags = "-fsanitize=fuzzer-no-link -fno-sanitize-coverage=stack-depth -w"
    environment = {**os.environ, "CC": "clang", "CFLAGS": flags, "LDSHARED": "clang -shared", "CUNPOOL_CHECKED": "1",
                   "CUNPOOL_OPENMP": "off"}  # fmt: skip
    command = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
    subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)


def fuzz(minutes: float, seed: int, plant: str, keep: bool) -> int:
    """Whether nothing was found; with a planted bug, whether it was."""
    with tempfile.TemporaryDirectory(prefix="guided") as temporary:
        folder = Path(temporary)
        build(folder, plant)
        inputs = folder / "inputs"
        inputs.mkdir()
        for number, line in enumerate(CORPUS.read_text().split() if CORPUS.exists() else ()):
            (inputs / f"{number}").write_bytes(bytes.fromhex(line))
        environment = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{TESTS}", "PYTHONWARNINGS": "ignore"}
        command = [sys.executable, "-m", "fuzzing.guided", "--target", f"-max_total_time={60 * minutes:.0f}",
                   f"-seed={seed}", "-max_len=256", "-len_control=0", "-use_counters=0", f"-timeout={SECONDS}",
                   f"-report_slow_units={SECONDS}", "-rss_limit_mb=4000", "-print_final_stats=1",
                   f"-artifact_prefix={folder}/found-", str(inputs)]  # fmt: skip
        begun = time.monotonic()
        status = subprocess.run(command, cwd=folder, env=environment, check=False).returncode
        took = time.monotonic() - begun
        found = sorted(folder.glob("found-*"))
        for path in found:
            print(f"found after {took:.0f} s: {path.name}\nagain: cd tests && python -m fuzzing.guided --replay "
                  f"{path.read_bytes().hex()}")  # fmt: skip
        if keep and not found:
            smaller = folder / "smaller"
            smaller.mkdir()
            command[4:] = ["-merge=1", "-use_counters=0", f"-timeout={SECONDS}", str(smaller), str(inputs)]
            subprocess.run(command, cwd=folder, env=environment, check=True)
            lines = sorted((path.read_bytes().hex() for path in smaller.iterdir()), key=lambda line: (len(line), line))
            CORPUS.write_text("".join(f"{line}\n" for line in lines))
            assert CORPUS.stat().st_size <= MOST_CORPUS
        return int(bool(found) != bool(plant) or (status != 0) != bool(plant))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--plant", default="", metavar="TEXT", help="a bug of planted.toml that has to be found")
    parser.add_argument("--keep", action="store_true", help="write what was reached to the corpus")
    parser.add_argument("--replay", nargs="*", metavar="HEX", help="inputs again; without any, the corpus")
    parser.add_argument("--target", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.target is not None:
        target(chosen.target)
    elif chosen.replay is not None:
        for line in chosen.replay or CORPUS.read_text().split():
            print(line, flush=True)
            one_input(bytes.fromhex(line))
    else:
        return fuzz(chosen.minutes, chosen.seed, chosen.plant, chosen.keep)
    return 0


if __name__ == "__main__":
    sys.exit(main())
