"""The extension modules and the OpenMP probe; everything static is in pyproject.toml."""

import copy
import os
import re
import sys
import tempfile
from pathlib import Path

import numpy
from Cython.Build import cythonize
from Cython.Build.Dependencies import create_dependency_tree
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CCompilerError, CompileError, LinkError, PlatformError

PROBE = "int main(void) { return 0; }\n"
PYTHON_PROBE = "#include <Python.h>\nint main(void) { return 0; }\n"
INSTALL = {
    "darwin": "run 'xcode-select --install'",
    "win32": "install the Build Tools for Visual Studio, with C++",
    "linux": (
        "install one, with Python's headers: 'apt-get install gcc python3-dev' (Debian, Ubuntu), 'dnf install gcc "
        "python3-devel' (Fedora, RHEL), 'apk add gcc musl-dev python3-dev' (Alpine)"
    ),
}
OPENMP_PROBE = "#include <omp.h>\nint main(void) { return omp_get_max_threads() < 1; }\n"
# GCC's extra loops for the ends of vectors would double the wheel's size. The kernels handle these ends themselves.
SMALLER = ["--param=vect-epilogues-nomask=0", "-fno-peel-loops", "-fno-unswitch-loops", "-fno-ipa-cp-clone"]
# No code unwinds these frames, and most loops need no alignment to a cache line. Code that is reached only by jumps is
# aligned, for 2 % of the wheel's size: short loops and branches across two lines took 1.2 to 1.6 times as long (Zen 4).
SMALLER += ["-fno-asynchronous-unwind-tables", "-fno-align-loops", "-falign-jumps=64"]
SMALLER += ["-fno-align-labels", "-fno-align-functions"]
SMALLER += ["--param=max-completely-peeled-insns=100", "--param=inline-unit-growth=10"]
# Modules with vector loops are compiled once for each instruction set. The portable ones keep their names, the others
# are in a folder named after their set. `_simd.py` chooses a set when cunpool is imported. `runtime.h` checks the
# processor for the same flags. -march=x86-64-v4 is equivalent, but needs GCC 11.
VECTORISED = ("cunpool._kernels.pool", "cunpool._kernels.unpool")
AVX2 = ["-mavx2", "-mbmi", "-mbmi2", "-mf16c"]
AVX512 = [*AVX2, "-mavx512f", "-mavx512bw", "-mavx512cd", "-mavx512dq", "-mavx512vl"]
SETS = {"avx512": AVX512, "avx2": AVX2, "portable": []}
# GCC uses 128-bit vectors, except in functions with `CUNPOOL_WIDE` (types.h), because most rows are short. (speed)
NARROW = ["-mprefer-vector-width=128"]
# GCC does not align Windows' stack for such vectors.
SET_PROBE = """
#if !defined(__x86_64__) || defined(_WIN32) || defined(__CYGWIN__)
#error "not the processor, or not the system"
#endif
#include <immintrin.h>
int main(void) { return 0; }
"""
# Compiles if the build machine has AVX2, and AVX-512 with -DAVX512.
MACHINE_PROBE = """
#if !defined(__AVX2__) || !defined(__BMI__) || !defined(__BMI2__) || !defined(__F16C__)
#error "no AVX2"
#endif
#if defined(AVX512) && !(defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512CD__) \\
    && defined(__AVX512DQ__) && defined(__AVX512VL__))
#error "no AVX-512"
#endif
"""
# Additional flags of some modules. Aligned to cache lines, the short loops of scattering and gathering are 1.1 to 1.3
# times faster. The last two modules are optimised for size, because none of their loops matters for speed.
BESIDES = {
    "cunpool._kernels.unpool": ["-falign-loops=64"],
    "cunpool._kernels.memory": ["-Os"],
    "cunpool._kernels.runtime": ["-Os"],
}
# Source order keeps similar functions close together: a wheel's compression has a window of 32 KB. Then compilers keep
# data that nothing refers to, such as the names of conditions; the linker leaves it out. (size)
SMALLER += ["-fno-toplevel-reorder", "-ffunction-sections", "-fdata-sections"]
# By default Clang checks few pairs of arrays for overlap, and does not vectorise loops that need more checks. With this
# flag, pooling with indices is 4 times faster. (speed)
CLANG = ["-mllvm", "-runtime-memory-check-threshold=128"]
STRIPPED = ["-Wl,--strip-all", "-Wl,--gc-sections"]
# NEP 49's allocation hooks appeared in NumPy 1.22.
MACROS = [("NPY_NO_DEPRECATED_API", "NPY_1_7_API_VERSION"), ("NPY_TARGET_VERSION", "NPY_1_22_API_VERSION")]

# -fwrapv, here and below, is a second line of defence for signed sums that overflow. No kernel relies on it, because
# MSVC has no such flag: sums that may wrap are computed with unsigned integers.
# For tests that need no speed: compiles 3 times faster.
QUICK = ["-O1", "-g0", "-fwrapv"]

# For .ci/checked: gcov counts the lines of the Cython files and headers, which the C files name.
COVERAGE = ["--coverage", "-O1", "-fwrapv"]

# For .ci/sanitize.
SANITIZE = [
    "-DCUNPOOL_SANITIZED=1",
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=undefined",
    "-fno-omit-frame-pointer",
    "-O1",
    "-g",
    "-fwrapv",
]

# For .ci/checked: every block that the kernels write is compared with its buffer, and conditions are counted.
CHECKED = ["-DCUNPOOL_CHECKED", "-O1", "-g", "-fwrapv"]

# Lower thresholds, with which small inputs take every method of unpooling and gradients (common/thresholds.h).
LOW_THRESHOLDS = ["-DCUNPOOL_LOW_THRESHOLDS"]

# For .ci/races, with Clang, whose OpenMP reports its synchronisation to ThreadSanitizer.
RACES = ["-fsanitize=thread", "-fno-omit-frame-pointer", "-O1", "-g", "-fwrapv"]

# The variable that asks for a special build, and its flags. Such a build has one instruction set.
CHECKS = {
    "CUNPOOL_QUICK": QUICK,
    "CUNPOOL_SANITIZE": SANITIZE,
    "CUNPOOL_COVERAGE": COVERAGE,
    "CUNPOOL_CHECKED": CHECKED,
    "CUNPOOL_RACES": RACES,
    "CUNPOOL_LOW_THRESHOLDS": LOW_THRESHOLDS,
}

DIRECTIVES = {
    "language_level": 3,
    "boundscheck": False,
    "wraparound": False,
    "cdivision": True,
    "initializedcheck": False,
    "autotestdict": False,
    "freethreading_compatible": True,  # shared data have a lock (memory.pyx) or never change
}


def flags(compiler_type: str) -> tuple[list[str], list[list[str]]]:
    """Compile flags, and the OpenMP flags worth trying, by kind of compiler."""
    if compiler_type == "msvc":
        return ["/O2"], [["/openmp"]]
    openmp = [["-fopenmp"]]
    if sys.platform == "darwin":
        openmp.append(["-Xpreprocessor", "-fopenmp"])
    # Products of huge sizes without effect may overflow: they wrap, as with Python's own flags.
    return ["-O3", "-g0", "-fwrapv"], openmp


class BuildExt(build_ext):
    """Build with OpenMP if the compiler has it, and rebuild whenever a flag has changed."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.parallel = self.parallel or True  # one compiler process for each processor

    def build_extensions(self) -> None:
        compile_args, candidates = flags(self.compiler.compiler_type)
        openmp = self.find_openmp(candidates)
        checks = [flag for name, flags in CHECKS.items() if os.environ.get(name) == "1" for flag in flags]
        if checks:
            compile_args = checks
        if self.compiler.compiler_type != "msvc":
            compile_args = [*compile_args, "-ffp-contract=off"]  # equal sums in every instruction set
        self.leave_out_sets(one=bool(checks))
        link_args = self.link_args(openmp or []) + checks
        ordinary = not checks and self.compiler.compiler_type != "msvc"
        smaller = ordinary and self.links([*SMALLER, "-Werror"])
        if smaller:
            compile_args += SMALLER
        elif ordinary and self.links([*CLANG, "-Werror"]):
            compile_args += CLANG
        if ordinary and self.links([], STRIPPED):
            link_args += STRIPPED
        for extension in self.extensions:
            name, simd = plain(extension.name)
            besides = BESIDES.get(name, []) if smaller else []
            narrow = NARROW if smaller and SETS[simd] else []
            extension.extra_compile_args = compile_args + besides + SETS[simd] + narrow + (openmp or [])
            extension.extra_link_args = link_args
        if self.flags_changed():
            self.force = True
        super().build_extensions()

    def build_extension(self, extension: Extension) -> None:
        """Build into a folder for each set, because several extensions are built from one C file at the same time."""
        one = copy.copy(self)
        one.build_temp = str(Path(self.build_temp, plain(extension.name)[1]))
        super(BuildExt, one).build_extension(extension)

    def copy_extensions_to_source(self) -> None:
        """Copy extensions next to the sources, and delete the omitted sets of an earlier build there."""
        for extension in self.extensions:
            Path(self.get_ext_filename(extension.name)).parent.mkdir(exist_ok=True)
        for extension in self.left_out:
            Path(self.get_ext_filename(extension.name)).unlink(missing_ok=True)
        super().copy_extensions_to_source()

    def leave_out_sets(self, one: bool) -> None:
        """Leave out the instruction sets that the compiler lacks, or all but `one`."""
        wish = os.environ.get("CUNPOOL_SIMD", "").lower() if one else ""
        if wish and wish not in SETS:
            raise SystemExit(f"CUNPOOL_SIMD must be {', '.join(SETS)}, got {wish!r}")
        sets = {name for name, flags in SETS.items() if not flags or self.links([*flags, "-Werror"], [], SET_PROBE)}
        if one:
            sets &= {wish or self.set_of_this_machine()}
        self.left_out = [
            extension
            for extension in self.extensions
            for name, simd in [plain(extension.name)]
            if name in VECTORISED and simd not in sets
        ]
        self.extensions = [extension for extension in self.extensions if extension not in self.left_out]
        for extension in self.left_out:  # from an earlier build
            Path(self.get_ext_fullpath(extension.name)).unlink(missing_ok=True)

    def set_of_this_machine(self) -> str:
        """The widest set of the build machine, according to its compiler; portable with a cross compiler."""
        for name, flags in (("avx512", ["-DAVX512"]), ("avx2", [])):
            if self.links(["-march=native", *flags], [], MACHINE_PROBE + SET_PROBE):
                return name
        return "portable"

    def find_openmp(self, candidates: list[list[str]]) -> "list[str] | None":
        """The first of `candidates` that compiles and links, or None for a serial build."""
        wish = os.environ.get("CUNPOOL_OPENMP", "").lower() or "auto"
        if wish not in ("on", "off", "auto"):
            raise SystemExit(f"CUNPOOL_OPENMP must be on, off or auto, got {wish!r}")
        if wish == "off":
            print("cunpool: OpenMP is switched off: a serial build", file=sys.stderr)
            return None
        for candidate in candidates:
            if self.links(candidate, self.link_args(candidate), OPENMP_PROBE):
                return candidate
        if wish == "on":
            raise SystemExit("cunpool: CUNPOOL_OPENMP=on, but the compiler cannot build a program with OpenMP")
        print("cunpool: WARNING: no OpenMP found: a SERIAL build", file=sys.stderr)
        return None

    def links(self, compile_args: list[str], link_args: "list[str] | None" = None, program: str = PROBE) -> bool:
        """Whether `program` compiles and links with these flags. It is never run, so cross builds work."""
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder, "probe.c")
            source.write_text(program)
            try:
                objects = self.compiler.compile([str(source)], output_dir=folder, extra_postargs=compile_args)
                self.compiler.link_executable(objects, "probe", output_dir=folder, extra_postargs=link_args)
            except (CompileError, LinkError):
                return False
        return True

    def link_args(self, openmp: list[str]) -> list[str]:
        if self.compiler.compiler_type == "msvc":
            return []
        return [
            "-lomp" if flag == "-fopenmp" and "-Xpreprocessor" in openmp else flag
            for flag in openmp
            if flag != "-Xpreprocessor"
        ]

    def flags_changed(self) -> bool:
        """Whether flags differ from the last build's; stores them. Setuptools compares only the ages of sources."""
        now = repr(
            [
                (
                    e.name,
                    e.extra_compile_args,
                    e.extra_link_args,
                    os.environ.get("CFLAGS"),
                    os.environ.get("LDFLAGS"),
                    os.environ.get("CC"),
                )
                for e in self.extensions
            ]
        )
        stamp = Path(self.build_temp, "flags.txt")
        changed = not stamp.exists() or stamp.read_text() != now
        stamp.parent.mkdir(parents=True, exist_ok=True)
        stamp.write_text(now)
        return changed


def need_compiler() -> None:
    """Exit with a message of one line, before any other output, if a build has no C compiler."""
    if not {"build_ext", "bdist_wheel", "editable_wheel", "build", "install", "develop"} & set(sys.argv):
        return
    from distutils import ccompiler, sysconfig  # from setuptools, in every version of Python

    compiler = ccompiler.new_compiler()
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "probe.c")
        source.write_text(PYTHON_PROBE)
        try:
            sysconfig.customize_compiler(compiler)
            compiler.compile([str(source)], output_dir=folder, include_dirs=[sysconfig.get_python_inc()])
        except (CCompilerError, PlatformError, OSError):
            chosen = f" (CC is {os.environ['CC']!r})" if os.environ.get("CC") else ""
            how = INSTALL.get(sys.platform, "install one, with Python's headers")
            raise SystemExit(f"cunpool: no C compiler that can build a Python module{chosen}: {how}") from None


def readme() -> str:
    """The README for a package index: links are absolute, and the install section is for the published wheel."""
    here = Path(__file__).parent
    repository = re.search(r'^Repository = "(.+)"', (here / "pyproject.toml").read_text("utf-8"), re.MULTILINE)[1]

    def absolute(link: re.Match[str]) -> str:
        return f"{link[1]}{repository}/{'blob' if link[1] == '](' else 'raw'}/main/{link[2]}"

    text = re.sub(r'(\]\(|src="|srcset=")(?!#|https?:)([^")]+)', absolute, (here / "README.md").read_text("utf-8"))
    checkout = r"<!-- in a checkout: .*?<!-- end of this part -->\n"
    return re.sub(checkout, "```sh\npip install cunpool\n```\n", text, flags=re.DOTALL)


def headers_of(source: str) -> list[str]:
    """The package's headers that a module includes, directly or indirectly. Cython itself follows `.pxd` files."""
    headers: set[Path] = set()
    files = [Path(file) for file in create_dependency_tree().all_dependencies(source)]
    while files:
        file = files.pop()
        for name in re.findall(r'(?:from|# *include|# *define \w+) +"([^"]+\.h)"', file.read_text("utf-8")):
            new = {path for path in (file.parent / name, Path("cunpool", name)) if path.exists()} - headers
            headers |= new
            files += new
    return sorted(path.as_posix() for path in headers)


def extensions() -> list[Extension]:
    """One extension for each `.pyx` file, the largest first, so that parallel compilers finish together."""
    return [
        Extension(
            ".".join(source.with_suffix("").parts),
            [source.as_posix()],
            include_dirs=["cunpool", numpy.get_include()],
            define_macros=MACROS,
            depends=headers_of(source.as_posix()),
        )
        for source in sorted(Path("cunpool").rglob("*.pyx"), key=lambda path: -path.stat().st_size)
    ]


def in_each_set(extension: Extension) -> list[Extension]:
    """Copies of the extension from the same C file: one for each instruction set if it is vectorised."""
    if extension.name not in VECTORISED:
        return [extension]
    package, _, module = extension.name.rpartition(".")
    several = []
    for name in SETS:
        one = copy.copy(extension)
        one.name = extension.name if name == "portable" else f"{package}.{name}.{module}"
        several.append(one)
    return several


def plain(name: str) -> tuple[str, str]:
    """An extension's name without its instruction set, and the set's name."""
    folder, _, module = name.rpartition(".")
    package, _, simd = folder.rpartition(".")
    return (f"{package}.{module}", simd) if simd in SETS else (name, "portable")


need_compiler()
modules = cythonize(
    extensions(),
    build_dir="build/cython",
    compiler_directives=DIRECTIVES,
    emit_linenums=any(os.environ.get(name) == "1" for name in ("CUNPOOL_COVERAGE", "CUNPOOL_CHECKED")),
)
setup(
    long_description=readme(),
    long_description_content_type="text/markdown",
    ext_modules=[one for module in modules for one in in_each_set(module)],
    cmdclass={"build_ext": BuildExt},
)
