"""Plant bugs in copies of the source, one at a time, and see which test catches each.

    python tests/planted/plant.py                 # all of them
    python tests/planted/plant.py --only select   # those with this word in their file or name
    python tests/planted/plant.py --any far wide  # those with one of these words
    python tests/planted/plant.py --missing       # those that the table does not say to be caught
    python tests/planted/plant.py --check         # whether each can still be planted; nothing is built

A bug is an exact piece of a source file, what stands there instead, and the tests that have to catch it. These run
first, then the others of that room, then the whole suite, until one fails; the fuzzer is left out, for it catches by
luck. Bugs that no test catches, that cannot be planted or do not compile make the run fail. TABLE.md, beside this file,
has the last outcome of each that has been planted as it stands.

It takes Python 3.11, GCC or Clang, and what the suite needs.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path

import tomllib

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
TABLE = HERE / "TABLE.md"
NEEDED = ("cunpool", "tests", "examples", "benchmarks", "setup.py", "pyproject.toml", "MANIFEST.in", "LICENSE", "*.md")
LIMIT = 900  # seconds for the whole suite: who takes longer hangs, and is caught by that

KERNELS = "spreading strays layouts window_codes unpooling gradients fast_paths properties"
# The tests of each source's room, those first that find most.
ROOMS = {
    "_pool.pyx": "floats across copied_planes filtering reaching pooling layouts fast_paths properties window_codes",
    "_memory.pyx": "memory under_pressure",
    "_threads.py": "threads",
    "_waiting.py": "threads",
    "_runtime.pyx": "threads",
    "_arrays.py": "unpooling window_codes gradients pooling indices memory",
    "unpooling.py": "unpooling gradients window_codes",
    "pooling.py": "pooling pooling_out gradients window_codes",
    "_geometry.py": "geometry unpooling pooling gradients window_codes",
    "indices.py": "indices window_codes",
    "modules.py": "modules window_codes docs",
    "memory.py": "memory docs",
    "dask.py": "dask",
    "_advice.py": "advice",
    "_cgroups.py": "cgroups threads",
    "_demo.py": "main",
    "__main__.py": "main",
}
# The one module that is built with a bug in a file that several include.
POOLED = (
    *("_compare.pxd", "_deal.pxd", "_twos.pxd", "_write.pxd", "_pack.pxd", "_reach.pxd", "_take.pxd", "_filter.pxd"),
    *("_numbers.pxd", "_pool_plan.pxd", "_across.pxd", "_every.pxd", "_floats.pxd", "_pairs.pxd", "_threes.pxd"),
)
MODULES = dict.fromkeys(POOLED, "_pool")
INCLUDED = "_unpool"


@dataclass
class Bug:
    name: str
    file: str
    old: str
    new: str
    tests: list[str] = field(default_factory=list)
    module: str = ""  # built with it, where that is not the one below

    def plant(self, root: Path) -> None:
        source = root / self.file
        text = source.read_text()
        if text.count(self.old) != 1:
            raise LookupError(f"{self.file} has what is replaced {text.count(self.old)} times, not once: {self.old!r}")
        source.write_text(text.replace(self.old, self.new))

    def stages(self) -> list[list[str]]:
        """The tests that run, one list after the other."""
        name = Path(self.file).name
        room = ROOMS["_pool.pyx"] if name in POOLED else ROOMS.get(name, KERNELS)
        files = [f"tests/test_{name}.py" for name in room.split()]
        return [[f"tests/{test}" for test in self.tests], [f for f in files if Path(ROOT, f).exists()], ["tests"]]


@dataclass
class Outcome:
    bug: Bug
    caught_by: str | None
    seconds: float
    note: str = ""

    @property
    def bad(self) -> bool:
        return self.caught_by is None


def bugs(words: list[str], some: list[str] | None = None) -> list[Bug]:
    """Those with all these words in file or name, and, if there are any, with one of those."""
    found = [Bug(**entry) for path in sorted(HERE.glob("*.toml")) for entry in tomllib.loads(path.read_text())["bug"]]
    names = [(bug.file, bug.name) for bug in found]
    if len(set(names)) < len(names):
        raise SystemExit(f"two bugs have one name: {max(names, key=names.count)}")
    found = [bug for bug in found if all(word in f"{bug.file} {bug.name}" for word in words)]
    return [bug for bug in found if not some or any(word in f"{bug.file} {bug.name}" for word in some)]


def run(command: list[str], folder: Path, seconds: float) -> tuple[int, str]:
    """The exit code and all that was printed. What the command has started ends with it."""
    environment = {**os.environ, "PYTHONPATH": str(folder), "OMP_WAIT_POLICY": "passive"}
    environment |= {"CFLAGS": "-DCUNPOOL_NO_CLONES", "PYTHONDONTWRITEBYTECODE": "1"}
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=output, stderr=output,
                                   start_new_session=True)  # fmt: skip
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            code = -signal.SIGALRM
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        output.seek(0)
        return code, output.read()


def build(folder: Path, bug: Bug | None = None) -> str:
    """Build everything, or the one module that the bug is in; what the compiler says if that fails."""
    if bug:
        name = Path(bug.file)
        module = name.stem if name.suffix == ".pyx" else bug.module or MODULES.get(name.name, INCLUDED)
        later = time.time() + 3600
        for made in (*folder.glob("build/cython/cunpool/*.c"), *folder.glob("cunpool/*.so")):
            if not made.name.startswith(module + "."):
                os.utime(made, (later, later + 3600 * (made.suffix == ".so")))  # newer than any source
    code, said = run([sys.executable, "setup.py", "-q", "build_ext", "--inplace"], folder, LIMIT)
    return said if code else ""


def base(folder: Path) -> None:
    """A built copy of the checkout, with little optimisation: that halves the time to build."""
    for pattern in NEEDED:
        for path in ROOT.glob(pattern):
            if path.is_dir():
                ignored = shutil.ignore_patterns("__pycache__", "*.so", "*.pyd")
                shutil.copytree(path, folder / path.name, ignore=ignored)
            else:
                shutil.copy2(path, folder)
    Bug("quick", "setup.py", '"-O3"', '"-O1"').plant(folder)
    said = build(folder)
    if said:
        raise SystemExit(f"the source does not build without any bug:\n{said}")


def first_failure(folder: Path, tests: list[str], seconds: float) -> str | None:
    """The first of these tests that fails, ends the process or hangs."""
    options = ["-x", "-v", "-p", "no:cacheprovider", "--no-header", "--ignore=tests/test_fuzz.py"]
    code, said = run([sys.executable, "-m", "pytest", *options, *tests], folder, seconds)
    if code == 0:
        return None
    begun = re.findall(r"^(tests/\S+::.*?)(?: (PASSED|FAILED|ERROR|SKIPPED|XFAIL).*)?$", said, re.MULTILINE)
    failed = [name for name, result in begun if result in ("FAILED", "ERROR")]
    if code == 1 and failed:
        return failed[0]
    if begun and code < 0:
        how = "hangs" if code == -signal.SIGALRM else f"ends with signal {-code}"
        return f"{begun[-1][0].split()[0]} ({how})"
    if code == 2 and re.search(r"^E  ", said, re.MULTILINE):
        return "the import of the tests"
    raise RuntimeError(f"pytest ended with {code}:\n{said[-3000:]}")


def attempt(bug: Bug, built: Path, whole: bool) -> Outcome:
    """Plant it, build, and run tests until one fails."""
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="planted") as temporary:
        folder = Path(temporary, "copy")
        shutil.copytree(built, folder)
        try:
            bug.plant(folder)
            said = build(folder, bug) if bug.file.endswith((".pyx", ".pxd")) else ""
            if said:
                raise RuntimeError(f"it does not compile: {said[-2000:]}")
            for number, tests in enumerate(bug.stages()[: 3 if whole else 2]):
                caught_by = first_failure(folder, tests, LIMIT) if tests else None
                if caught_by:
                    note = "not by the tests that are listed for it" if number and bug.tests else ""
                    return Outcome(bug, caught_by.removeprefix("tests/"), time.monotonic() - begun, note)
            note = "NOT CAUGHT" if whole else "NOT CAUGHT in its room"
        except (LookupError, RuntimeError) as error:
            note = str(error)
    return Outcome(bug, None, time.monotonic() - begun, note)


Row = tuple[str, str]  # what caught it, and the seconds


def read_table() -> dict[tuple[str, str], Row]:
    """The rows of the table, by file and bug."""
    rows, file = {}, ""
    for line in TABLE.read_text().splitlines() if TABLE.exists() else ():
        if line.startswith("## "):
            file = line[3:]
        elif line.startswith("| ") and not line.startswith("| bug |"):
            name, caught_by, seconds = line.strip("| ").split(" | ")
            rows[file, name] = caught_by, seconds
    return rows


def write_table(outcomes: list[Outcome], listed: list[Bug]) -> None:
    """Enter these outcomes; bugs that are not in the list any more go."""
    rows = read_table()
    for outcome in outcomes:
        by = f"`{outcome.caught_by}`" if outcome.caught_by else f"**{outcome.note.splitlines()[0]}**"
        rows[outcome.bug.file, outcome.bug.name] = by.replace(" | ", " "), f"{outcome.seconds:.0f}"
    rows = {(bug.file, bug.name): rows[bug.file, bug.name] for bug in listed if (bug.file, bug.name) in rows}
    caught = sum(by.startswith("`") for by, _ in rows.values())
    summary = f"Of {len(listed)} bugs in the lists {len(rows)} have been planted by `plant.py`: {caught} were caught."
    lines = ["# Planted bugs", "", summary]
    for file in sorted({file for file, _ in rows}):
        lines += ["", f"## {file}", "", "| bug | caught by | seconds |", "|---|---|---|"]
        lines += [f"| {name} | {by} | {seconds} |" for (where, name), (by, seconds) in rows.items() if where == file]
    TABLE.write_text("\n".join(lines) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", default=[], metavar="WORD", help="those with all these in file or name")
    parser.add_argument("--any", nargs="*", default=[], metavar="WORD", help="those with one of these in file or name")
    parser.add_argument("--missing", action="store_true", help="those that the table does not say to be caught")
    parser.add_argument("--check", action="store_true", help="plant each, and neither build nor run anything")
    parser.add_argument("--room", action="store_true", help="do not go on to the whole suite")
    parser.add_argument("--jobs", type=int, default=2, help="how many bugs at once")
    chosen = parser.parse_args()
    listed, planted = bugs([]), bugs(chosen.only, chosen.any)
    if chosen.missing:
        caught = {key for key, (by, _) in read_table().items() if by.startswith("`")}
        planted = [bug for bug in planted if (bug.file, bug.name) not in caught]
    with tempfile.TemporaryDirectory(prefix="planted") as temporary:
        built = Path(temporary, "built")
        built.mkdir()
        if chosen.check:
            failures = 0
            for bug in planted:
                try:
                    shutil.copytree(ROOT / "cunpool", built / "cunpool", dirs_exist_ok=True)
                    bug.plant(built)
                except LookupError as error:
                    failures += 1
                    print(f"{bug.name}: {error}")
            print(f"{len(planted)} bugs, {failures} of which cannot be planted")
            return 1 if failures else 0
        base(built)
        outcomes = []
        with ThreadPoolExecutor(chosen.jobs) as pool:
            for done in as_completed([pool.submit(attempt, bug, built, not chosen.room) for bug in planted]):
                outcome = done.result()
                outcomes.append(outcome)
                write_table([outcome], listed)
                print(f"{outcome.bug.file}: {outcome.bug.name}: {outcome.caught_by or ''} {outcome.note} "
                      f"{outcome.seconds:.0f} s", flush=True)  # fmt: skip
    survivors = [outcome for outcome in outcomes if outcome.bad]
    print(f"{len(outcomes)} bugs, {len(outcomes) - len(survivors)} caught")
    return 1 if survivors or not outcomes else 0


if __name__ == "__main__":
    sys.exit(main())
