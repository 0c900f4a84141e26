"""Change one place of the source at a time, build, test, and print the changes that no test notices.

    python tests/mutants.py --seed 1 --count 60 --minutes 30   # random mutants of kernels and front ends
    python tests/mutants.py --seed 1 --numbers 3 17            # two of them again
    python tests/mutants.py --only _geometry --count 20        # of files with this in their path
    python tests/mutants.py --without demo chart --count 20    # of files with none of these in their path
    python tests/mutants.py --planted                          # the bugs listed in planted.toml instead
    python tests/mutants.py --planted --check                  # whether each can still be planted; nothing is built

A mutant is a random line of `cunpool/` with one operator, number, condition or statement changed. It is planted in a
copy of the checkout. There setup.py builds the modules that depend on it, with -O1 and for one instruction set. These
run until one fails: CI's first random calls, except for optional front ends; the tests that killed other mutants of
that folder; all tests that are not marked slow, those about the changed file first; more random calls, for kernels; the
slow tests about the changed file (--slow: all slow tests). A test that fails is repeated, with the change and without
it. A mutant that does not compile, or compiles to the same machine code, is replaced by another.

A survivor is a test that is missing, or a change without effect (of a threshold chosen for speed, for example). Explain
which of the two in the commit, and write the test. It needs Linux, GCC or Clang and the suite's libraries; planted.toml
needs Python 3.11.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
PLANTED = Path(__file__).with_name("planted.toml")
# Of a checkout. test_mutants.py would notice every change of a line that has a planted bug.
LEFT_OUT = (".git", "build", "_build", "__pycache__", "*.so", "test_mutants.py")
KERNELS = (".pyx", ".pxd", ".h")
QUICK = {"CUNPOOL_QUICK": "1", "CFLAGS": "-w"}  # unless the environment has others
FUZZED = "--jobs", "1", "--most-failures", "1", "--seed", "1", "--count"
FIRST, MORE = "400", "3000"  # of CI's random calls
RELATED = 6  # files of tests
LIMIT, SHORT_LIMIT = 900, 300  # seconds for a run of all tests, of few; a mutant that takes longer hangs

# Other words for a file's or a folder's name in the names of tests.
NAMED_AS = {
    "pool": "pooling", "unpool": "unpooling", "gather": "gradients", "cli": "main", "codes": "window",
    "arrays": "layouts",
    "runtime": "threads", "thresholds": "dispatch", "plan": "dispatch", "formats": "indices", "calls": "messages",
    "overloads": "types", "omp": "threads", "remedies": "messages", "simd": "instruction", "warn": "messages",
}  # fmt: skip
# Optional front ends, and how their sources and tests are named.
FRONT_ENDS = {"torch": {"torch"}, "dask": {"dask"}, "command": {"cli", "main", "bench", "benchmarks"}}

OPERATORS = {
    "<": ["<=", ">="], "<=": ["<", ">"], ">": [">=", "<="], ">=": [">", "<"], "==": ["!="], "!=": ["=="],
    "+": ["-"], "-": ["+"], "*": ["+"], "//": ["*"], "/": ["*"], "%": ["+"], "<<": [">>"], ">>": ["<<"], "&": ["|"],
    "and": ["or"], "or": ["and"], "&&": ["||"], "||": ["&&"], "+=": ["=", "-="], "-=": ["=", "+="], "|=": ["="],
    "is": ["is not"], "in": ["not in"],
}  # fmt: skip
WORDS = {"True": "False", "False": "True", "min(": "max(", "max(": "min(", "break": "continue", "continue": "break",
         "not ": "", "all(": "any(", "any(": "all("}  # fmt: skip
OPERATOR = re.compile(rf"(?<= )({'|'.join(re.escape(o) for o in sorted(OPERATORS, key=len, reverse=True))})(?= )")
WORD = re.compile(rf"\b({'|'.join(map(re.escape, WORDS))})(?!\w)")
NUMBER = re.compile(r"(?<![\w.])\d+(?![\w.])")
CONDITION = re.compile(r"(?:if|elif|while) (.+?)(?=(?: noexcept)?:$)|if \((.+)\)(?= \S+;$| \{$|$)")
STATEMENT = re.compile(
    r"(?!return|cdef|else|case)[\w.\[\], *>-]+ (?:[-+*/%|&]?=) .+|[\w.]+\(.*\);?|(?:raise|return) .+"
)
# Lines without behaviour of their own: imports, declarations of foreign functions, decorators, the preprocessor. And
# prefetches, which change no result.
SKIPPED = re.compile(
    r"\s*(?:from |import |cimport |cdef extern|cdef packed|ctypedef |@|class |#(?!define)|__all__|.*prefetch\w*\()"
)
VERBATIM = re.compile(r'(?s)cdef extern from \*:\s*\n\s*"""(.*?)"""')
HIDDEN_PYTHON = re.compile(r'(?s)""".*?"""|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|#[^\n]*')
HIDDEN_C = re.compile(r'(?s)/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"')


@dataclass
class Change:
    """`old` becomes `new` where it begins, in a file; `name` describes a planted bug."""

    file: str
    begin: int
    old: str
    new: str
    name: str = ""

    def plant(self, folder: Path) -> None:
        text = (folder / self.file).read_text()
        assert text[self.begin :].startswith(self.old)
        (folder / self.file).write_text(text[: self.begin] + self.new + text[self.begin + len(self.old) :])

    def __str__(self) -> str:
        text = (ROOT / self.file).read_text()
        line = text.count("\n", 0, self.begin) + 1
        if self.name:
            return f"{self.file}:{line}: {self.name}"
        first, last = text.rfind("\n", 0, self.begin) + 1, (text + "\n").find("\n", self.begin + len(self.old))
        before, after = text[first : self.begin], text[self.begin + len(self.old) : last]
        return f"{self.file}:{line}\n  - {text[first:last].strip()}\n  + {(before + self.new + after).strip()}"


def blank(match: re.Match[str]) -> str:
    """Spaces for a string or a comment, so that places stay the same; a line that goes on keeps its last mark."""
    return re.sub(r"[^\n]", " ", match[0])


def code(path: Path) -> tuple[str, list[bool]]:
    """The text of a source with strings and comments blank, and for each line whether it is C."""
    text = path.read_text()
    lines = [path.suffix == ".h"] * (text.count("\n") + 1)
    if path.suffix == ".h":
        return HIDDEN_C.sub(blank, text), lines
    verbatim = {}
    for match in VERBATIM.finditer(text) if path.suffix in KERNELS else ():
        first, last = text.count("\n", 0, match.start(1)), text.count("\n", 0, match.end(1))
        lines[first : last + 1] = [True] * (last + 1 - first)
        verbatim[match.start(1) - 3] = blank_quotes(HIDDEN_C.sub(blank, match[1]))
    return HIDDEN_PYTHON.sub(lambda match: verbatim.get(match.start()) or blank(match), text), lines


def blank_quotes(text: str) -> str:
    return f"   {text}   "


def types_alone(text: str) -> list[tuple[int, int]]:
    """Where Python has no behaviour, only types: overloads and annotations. First and last position of each."""
    begins = [0, *(match.end() for match in re.finditer("\n", text))]
    nodes: list[ast.AST | None] = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef) and "overload" in map(ast.unparse, node.decorator_list):
            nodes.append(node)
        nodes += [getattr(node, name, None) for name in ("annotation", "returns")]
    return [(begins[node.lineno - 1] + node.col_offset, begins[node.end_lineno - 1] + node.end_col_offset)
            for node in nodes if node]  # fmt: skip


def is_python(text: str) -> bool:
    try:
        compile(text, "", "exec", dont_inherit=True)
    except SyntaxError:
        return False
    return True


def changes(path: Path) -> dict[int, list[Change]]:
    """All changes of a file, by line."""
    text, is_c = code(path)
    source = path.read_text()
    typed = types_alone(source) if path.suffix == ".py" else []
    found: dict[int, list[Change]] = {}
    begin = 0
    for number, line in enumerate(text.split("\n")):
        here: list[tuple[int, str, str]] = []
        body = line.strip().rstrip("\\").rstrip()
        first = begin + len(line) - len(line.lstrip())
        if body and not SKIPPED.match(line):
            here += [(begin + m.start(), m[0], new) for m in OPERATOR.finditer(line) for new in OPERATORS[m[0]]
                     if m[0] != "in" or " for " not in f" {line}"]  # fmt: skip
            here += [(begin + m.start(), m[0], WORDS[m[0]]) for m in WORD.finditer(line)]
            here += [(begin + m.start(), m[0], str(int(m[0]) + 1)) for m in NUMBER.finditer(line)]
            here += [(begin + m.start(), m[0], str(int(m[0]) - 1)) for m in NUMBER.finditer(line) if int(m[0])]
            closed = all(body.count(a) == body.count(b) for a, b in ("()", "[]"))
            condition, whole = CONDITION.match(body), closed and body.count("{") == body.count("}")
            if condition and closed:
                group = condition.lastindex or 1
                for new in ("0", "1") if is_c[number] else ("False", "True")[: 1 if body.startswith("while") else 2]:
                    here.append((first + condition.start(group), condition[group], new))
            elif (
                STATEMENT.fullmatch(body)
                and whole
                and (not is_c[number] or body.endswith(";"))
                and not text[:begin].rstrip().endswith(("(", "[", "{", ",", "\\"))  # else it goes on from above
            ):
                new = ";" if is_c[number] else "return 0" if body.startswith("return ") else "pass"
                here.append((first, body, new))
        for place, old, new in here:
            if any(first <= place < last for first, last in typed):
                continue
            change = Change(str(path.relative_to(ROOT)), place, source[place : place + len(old)], new)
            found.setdefault(number, []).append(change)
        begin += len(line) + 1
    return found


def randomly(seed: int, only: str, without: Sequence[str] = ()) -> list[Change]:
    """One random change of every line, in random order."""
    rng = random.Random(seed)
    paths = [path for path in sorted((ROOT / "cunpool").rglob("*")) if path.suffix in (*KERNELS, ".py")]
    lines = [lines for path in paths for lines in changes(path).values()]
    rng.shuffle(lines)
    chosen = map(rng.choice, lines)
    return [change for change in chosen if only in change.file and not any(text in change.file for text in without)]


def planted(only: str) -> list[Change]:
    """The bugs of the list; one whose line has changed ends the run."""
    import tomllib

    found = []
    for bug in tomllib.loads(PLANTED.read_text())["bug"]:
        texts = {path: path.read_text() for path in ROOT.glob(f"cunpool/**/{bug['file']}")}
        count = sum(text.count(bug["old"]) for text in texts.values())
        if count != 1:
            raise SystemExit(f"{bug['file']} has {count} times, not once: {bug['old']!r}\n({bug['name']})")
        ((path, begin),) = ((path, text.index(bug["old"])) for path, text in texts.items() if bug["old"] in text)
        found.append(Change(str(path.relative_to(ROOT)), begin, bug["old"], bug["new"], bug["name"]))
    return [change for change in found if only in f"{change.file} {change.name}"]


def run(command: list[str], folder: Path, seconds: float = LIMIT) -> tuple[int, str]:
    """The exit code and all output. Processes that the command has started end with it."""
    path = str(folder.parent if folder.name == "tests" else folder)
    environment = {**QUICK, **os.environ, "PYTHONPATH": path}
    environment |= {"PYTHONDONTWRITEBYTECODE": "1", "OMP_WAIT_POLICY": "passive"}
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=output, stderr=output,
                                   start_new_session=True)  # fmt: skip
        try:
            # A process that allocates without end is the first that the system ends.
            Path(f"/proc/{process.pid}/oom_score_adj").write_text("1000")
            status = process.wait(seconds)
        except subprocess.TimeoutExpired:
            status = -signal.SIGALRM
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        output.seek(0)
        return status, output.read()


def build(folder: Path) -> str:
    """The compiler's last lines if it fails, else nothing."""
    status, said = run([sys.executable, "setup.py", "-q", "build_ext", "--inplace"], folder)
    return said[-3000:] or "failed" if status else ""


def machine_code(folder: Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted(folder.glob("cunpool/**/*.so"))]


def copy_of_checkout(folder: Path) -> None:
    shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(*LEFT_OUT), dirs_exist_ok=True)
    if said := build(folder):
        raise SystemExit(f"the source does not build without any change:\n{said}")


def first_failure(folder: Path, tests: list[str], options: list[str], limit: float = LIMIT) -> str | None:
    """The first of these tests that fails, ends the process or hangs."""
    command = [sys.executable, "-m", "pytest", "-x", "-v", "-p", "no:cacheprovider", "--no-header", *options, *tests]
    status, said = run(command, folder, limit)
    if status in (0, 5):  # 5: none was selected
        return None
    begun = re.findall(r"^(tests/\S+::.*?)(?: (PASSED|FAILED|ERROR|SKIPPED|XFAIL).*)?$", said, re.MULTILINE)
    failed = [name for name, result in begun if result in ("FAILED", "ERROR")]
    if failed:
        return failed[0]
    if begun and status < 0:
        how = "hangs" if status == -signal.SIGALRM else f"ends with signal {-status}"
        # What the process printed when it died may follow the test's name, on the same line.
        name = re.match(r"[^\[]*\[.*\]|\S+", begun[-1][0])[0]
        return f"{name} ({how})"
    if re.search(r"^E  |ImportError|Error: ", said, re.MULTILINE) or status < 0:
        return "the import of the tests"
    raise RuntimeError(f"pytest ended with {status}:\n{said[-3000:]}")


def front_end(file: str) -> str:
    """The optional front end that a source or a file of tests belongs to, if any."""
    words = set(re.split(r"[/_.]+", file))
    return next((name for name, names in FRONT_ENDS.items() if words & names), "")


def related(change: Change, built: Path) -> list[str]:
    """All files of tests that can notice the change.

    First those named like the changed file or its folder, then by how often they name it. What belongs to a front end
    is left to its own tests and to the documentation's.
    """
    path, own = Path(change.file), front_end(change.file)
    words = {word for part in (path.stem, path.parent.name) for word in part.strip("_").split("_")}
    words |= {NAMED_AS[word] for word in words & NAMED_AS.keys()}
    if path.suffix == ".py" and not path.stem.startswith("_"):
        words.add("docs")  # which runs the examples of public functions
    texts = {path.relative_to(built).as_posix(): path.read_text() for path in built.glob("tests/test_*.py")}
    texts = {test: text for test, text in texts.items() if front_end(test) == own or (own and "doc" in test)}

    def order(test: str) -> tuple[int, float]:
        return -len(words & set(Path(test).stem.split("_"))), -texts[test].count(path.stem.strip("_")) / len(
            texts[test]
        )

    return sorted(texts, key=order)


def fuzzer(folder: Path, count: str) -> str | None:
    """What stands for the fuzzer, if it finds something."""
    command = [sys.executable, "-m", "fuzzing", *FUZZED, count]
    return f"the fuzzer ({' '.join(command[3:])})" if run(command, folder / "tests", SHORT_LIMIT)[0] else None


class Killers:
    """The tests that killed mutants, by the folder of the changed file."""

    def __init__(self, built: Path) -> None:
        self.built = built
        self.counts: dict[Path, Counter[str]] = defaultdict(Counter)
        self.reliable: set[str] = set()
        self.unreliable: set[str] = set()

    def first(self, change: Change, folder: Path, tests: list[str], options: list[str], limit: float) -> str | None:
        """The first of these tests that fails, does so again, and passes without the change."""
        while tests:
            left_out = [word for test in sorted(self.unreliable) for word in ("--deselect", test)]
            killer = first_failure(folder, tests, options + left_out, limit)
            name = re.sub(r" \((hangs|ends with signal \d+)\)$", "", killer or "")
            if "::" not in name:
                return killer
            if name not in self.reliable and first_failure(self.built, [name], []):
                raise SystemExit(f"{name} fails without any change")
            self.reliable.add(name)
            if first_failure(folder, [name], [], limit):
                self.counts[Path(change.file).parent][name] += name == killer
                return killer
            self.unreliable.add(name)
        return None

    def of(self, change: Change) -> list[str]:
        return [name for name, count in self.counts[Path(change.file).parent].most_common(12) if count]


def attempt(change: Change, killers: Killers, slow: bool) -> str | None:
    """The test that killed it, the reason why it does not count, or None if it survives."""
    built = killers.built
    with tempfile.TemporaryDirectory(prefix="mutant") as temporary:
        folder = Path(temporary, "copy")
        shutil.copytree(built, folder)
        change.plant(folder)
        is_kernel = change.file.endswith(KERNELS)
        if not is_kernel and not is_python((folder / change.file).read_text()):
            return "does not build"
        if is_kernel:
            if build(folder):
                return "does not build"
            if machine_code(folder) == machine_code(built):
                return "same machine code"
        if not front_end(change.file) and (killer := fuzzer(folder, FIRST)):
            return killer
        tests = related(change, built)
        quick = ["-m", "not slow"]
        few, many = tests[:RELATED], tests[RELATED:]
        for names, options, limit in (
            (killers.of(change), [], SHORT_LIMIT),
            (few, quick, SHORT_LIMIT),
            (many, quick, LIMIT),
        ):
            if killer := killers.first(change, folder, names, options, limit):
                return killer
        if is_kernel and (killer := fuzzer(folder, MORE)):
            return killer
        return killers.first(change, folder, tests if slow else few, ["-m", "slow"], LIMIT)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="without it a new one")
    parser.add_argument("--count", type=int, default=60, help="how many mutants (60)")
    parser.add_argument("--minutes", type=float, default=1e9, help="after which no mutant begins")
    parser.add_argument("--numbers", type=int, nargs="*", help="only these of that seed")
    parser.add_argument("--only", default="", metavar="TEXT", help="files with this in their path")
    parser.add_argument("--without", nargs="*", default=[], metavar="TEXT", help="no files with one of these")
    parser.add_argument("--slow", action="store_true", help="survivors are tried by all slow tests")
    parser.add_argument("--planted", action="store_true", help="the bugs listed in planted.toml")
    parser.add_argument("--check", action="store_true", help="print the changes; build and test nothing")
    chosen = parser.parse_args()
    listed = planted(chosen.only) if chosen.planted else randomly(chosen.seed, chosen.only, chosen.without)
    numbers = chosen.numbers or list(range(len(listed)))
    end, survivors, killed = time.monotonic() + 60 * chosen.minutes, [], 0
    if chosen.check:
        for number in numbers[: None if chosen.planted else chosen.count]:
            print(f"{number}: {listed[number]}")
        return 0
    print(f"seed {chosen.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="mutants") as temporary:
        copy_of_checkout(Path(temporary))
        killers = Killers(Path(temporary))
        for number in numbers:
            if time.monotonic() > end or (killed + len(survivors) == chosen.count and not chosen.planted):
                break
            begun = time.monotonic()
            outcome = attempt(listed[number], killers, chosen.slow)
            print(
                f"{number}: {listed[number]}\n  {outcome or 'SURVIVES'} ({time.monotonic() - begun:.0f} s)", flush=True
            )
            no_mutant = outcome in ("does not build", "same machine code")
            if outcome is None or (no_mutant and chosen.planted):
                survivors.append(number)
            elif not no_mutant:
                killed += 1
    print(f"\n{killed + len(survivors)} mutants of seed {chosen.seed}: {killed} killed, {len(survivors)} survive")
    for number in survivors:
        print(f"{number}: {listed[number]}")
    return 1 if survivors or not killed else 0


if __name__ == "__main__":
    sys.exit(main())
