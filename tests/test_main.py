from __future__ import annotations

import fnmatch
import os
import pathlib
import struct
import subprocess
import sys
import zlib

import numpy as np
import pytest

import cunpool as cu
from cunpool import __main__ as command
from cunpool import _simd
from cunpool._cli import demo as _demo

POSIX = pytest.mark.skipif(os.name != "posix", reason="needs a shell's pipes and devices")


def cunpool(*words: str, **options) -> subprocess.CompletedProcess:
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **options}
    return subprocess.run([sys.executable, "-m", "cunpool", *words], **options)


def refused(capsys, *words: str) -> str:
    """The one line that says why."""
    assert command.main([*words]) == 2
    error = capsys.readouterr().err
    assert error.startswith("cunpool: ")
    assert error.count("\n") == 1
    return error


def test_info(capsys):
    assert command.main(["info"]) == 0
    printed = capsys.readouterr().out
    assert cu.__version__ in printed
    assert np.__version__ in printed
    assert f"SIMD      {_simd.IN_USE} (" in printed
    assert "OpenMP    on" in printed if cu.openmp_enabled() else "OFF: a serial build" in printed


def test_demo_with_its_own_photograph(tmp_path, capsys, monkeypatch, hurried):
    monkeypatch.chdir(tmp_path)
    assert command.main(["demo"]) == 0
    printed = capsys.readouterr().out
    assert printed.count("equal to NumPy's") == 2
    assert "came back exactly: 25.00% (one in 4" in printed
    assert (tmp_path / "cunpool-demo.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_demo_with_a_volume(tmp_path, capsys, monkeypatch, hurried):
    from PIL import Image

    monkeypatch.chdir(tmp_path)
    assert command.main(["demo", "--volume"]) == 0
    printed = capsys.readouterr().out
    assert printed.count("equal to NumPy's") == 4
    assert "came back exactly: 12.50% (one in 8" in printed
    with Image.open("cunpool-demo-volume.png") as picture:
        assert picture.size[0] == 2400
    assert not (tmp_path / "cunpool-demo.png").exists()
    np.save("given.npy", np.random.default_rng(0).standard_normal((9, 23, 14)).astype(">f4"))
    assert command.main(["demo", "--volume", "given.npy", "-o", "given.svg"]) == 0
    assert "volume           (1, 9, 23, 14) >f4" in capsys.readouterr().out


def test_what_is_magnified_is_where_numbers_differ_most():
    cells = np.zeros((33, 47), np.uint8)
    cells[17, 35] = 9
    assert _demo.liveliest(cells, 8) == (16, 32)
    stage = _demo.Stage("pooled", cells[::2, ::2], 2)
    assert np.array_equal(_demo.cropped(stage, (16, 32), 8), stage.pixels[8:12, 16:20])
    colours = _demo.Stage("", np.stack([cells, cells + 1, cells], -1), 1)
    assert np.array_equal(_demo.cropped(colours, (16, 32), 8), cells[16:24, 32:40] + 1)


@pytest.mark.slow
def test_demo_with_any_image(tmp_path, capsys, hurried):
    from PIL import Image

    pixels = np.random.default_rng(0).integers(1, 256, (19, 31, 4), np.uint8)
    Image.fromarray(pixels).save(tmp_path / "in.png")
    assert command.main(["demo", str(tmp_path / "in.png"), "-o", str(tmp_path / "out.pdf")]) == 0
    assert "image            (3, 19, 31)" in capsys.readouterr().out
    assert (tmp_path / "out.pdf").exists()


@pytest.fixture(scope="module")
def unsuitable(tmp_path_factory):
    """A folder of files that the demo refuses."""
    from PIL import Image

    folder = tmp_path_factory.mktemp("unsuitable")
    (folder / "text.png").write_text("no picture")
    (folder / "folder").mkdir()
    Image.new("L", (3, 9)).save(folder / "tiny.png")
    np.save(folder / "flat.npy", np.zeros((20, 20)))
    np.save(folder / "line.npy", np.zeros(20))
    np.savez(folder / "several.npz", a=np.zeros(3), b=np.zeros(4))
    np.save(folder / "objects.npy", np.full((20, 20, 20), None))
    np.save(folder / "words.npy", np.full((20, 20, 20), "a"))
    np.save(folder / "small.npy", np.zeros((9, 7, 9)))
    (folder / "small.png").symlink_to("small.npy")
    photograph(20, 20).save(folder / "whole.png")
    whole = (folder / "whole.png").read_bytes()
    (folder / "photo").write_bytes(whole)
    (folder / "link.png").symlink_to("photo")
    (folder / "short.png").write_bytes(whole[:200])
    (folder / "mixed.png").write_bytes(whole[:50] + bytes(60) + whole[110:])
    (folder / "x.dds").write_bytes(b"DDS " + (124).to_bytes(4, "little") + bytes(range(120)))
    return folder


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.png"], "No such file"),
        (["text.png"], "cannot identify"),
        (["tiny.png"], "at least 4 x 4"),
        (["-o", "out.unknown"], "must be one of"),
        (["-o", "none/out.png"], "No such file"),
        (["-o", "photo"], "the suffix must be one of "),
        (["-o", "out.raw"], "must be one of"),
        (["-o", ""], "the output must be a file, got ''"),
        (["-o", "folder"], "the output must be a file, got 'folder'"),
        (["-o", "folder/"], "the output must be a file, got 'folder/'"),
        (["photo", "-o", "link.png"], "the output would overwrite the image, link.png"),
        ([""], "cannot read the image"),
        (["folder"], "cannot read the image"),
        (["short.png"], "cannot read the image"),
        (["mixed.png"], "cannot read the image"),
        (["x.dds"], "cannot read the image"),
        (["--volume", "none.npy"], "cannot read the volume: [Errno 2]"),
        (
            ["--volume", "text.png"],
            "cannot read the volume: text.png is not an .npy file, as written by numpy.save; for an",
        ),
        (
            ["--volume", "whole.png"],
            "cannot read the volume: whole.png is not an .npy file, as written by numpy.save; for an",
        ),
        (["--volume", "several.npz"], "several.npz is not an .npy file"),
        (["--volume", "objects.npy"], "cannot read the volume: "),
        (["--volume", "flat.npy"], "3 axes and real numbers, got an array of float64 with 2 axes, (20, 20)"),
        (["--volume", "line.npy"], "3 axes and real numbers, got an array of float64 with 1 axis, (20,)"),
        (["--volume", "words.npy"], "real numbers, got an array of <U1 with 3 axes, (20, 20, 20)"),
        (
            ["small.npy"],
            "cannot read the image: small.npy is an array of float64 with 3 axes, (9, 7, 9); pass --volume",
        ),
        (["flat.npy"], "flat.npy is an array of float64 with 2 axes, (20, 20); with --volume it must have 3 axes"),
        (["--volume", "small.npy"], "at least 8 elements along each axis, got (9, 7, 9)"),
        (["--volume", "small.npy", "-o", "small.png"], "the output would overwrite the image, small.png"),
    ],
)
def test_one_line_and_status_2(unsuitable, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(unsuitable)
    before = sorted(unsuitable.iterdir())
    said = refused(capsys, "demo", *arguments)
    assert message in said
    assert "pickle" not in said  # neither the word nor the advice to load one
    assert sorted(unsuitable.iterdir()) == before
    assert (unsuitable / "photo").read_bytes() == (unsuitable / "whole.png").read_bytes()


def photograph(height: int, width: int, channels: int = 3):
    from PIL import Image

    return Image.fromarray(np.random.default_rng(0).integers(1, 256, (height, width, channels), np.uint8))


@pytest.fixture
def hurried(monkeypatch):
    monkeypatch.setattr(_demo, "SECONDS", 0.0)


@pytest.mark.slow
@pytest.mark.parametrize("size", [(1000, 4), (4000, 4), (4, 4000)], ids=str)
def test_the_figure_of_a_narrow_image_has_a_largest_size(tmp_path, hurried, capsys, size):
    from PIL import Image

    photograph(*size).save(tmp_path / "in.png")
    assert command.main(["demo", str(tmp_path / "in.png"), "-o", str(tmp_path / "out.png")]) == 0
    with Image.open(tmp_path / "out.png") as picture:
        assert picture.size[0] == 1440
        assert picture.size[1] < 1600


def test_a_picture_that_cannot_be_drawn(tmp_path, monkeypatch, capsys, hurried):
    from matplotlib.figure import Figure

    def no_latex(*_, **__):
        raise RuntimeError("xelatex not found;\ninstall it")

    monkeypatch.setattr(Figure, "savefig", no_latex)
    path = tmp_path / "out.pgf"
    path.write_text("before")
    assert f"cannot write {path}: xelatex not found; install it" in refused(capsys, "demo", "-o", str(path))
    assert path.read_text() == "before"


def test_wide_numbers_are_scaled():
    from PIL import Image

    cells = np.array([[0, 256, 32768, 65535]], np.uint16)
    for image, expected in (
        (Image.fromarray(cells), [0, 0, 127, 255]),
        (Image.fromarray(cells.astype(np.int32)), [0, 0, 127, 255]),
        (Image.fromarray(np.array([[-5, 0, 100_000, 200_000]], np.int32)), [0, 0, 127, 255]),
        (Image.fromarray(np.array([[-1, 0, 0.5, 1]], np.float32)), [0, 0, 127, 255]),
        (Image.fromarray(np.zeros((1, 4), np.float32)), [0, 0, 0, 0]),
    ):
        assert np.asarray(_demo.eight_bits(image)).tolist() == [expected]


def test_an_image_of_16_bits_and_one_with_transparency(tmp_path, capsys):
    from PIL import Image

    Image.fromarray(np.arange(0, 65536, 64, np.uint16).reshape(32, 32)).save(tmp_path / "deep.png")
    pixels = _demo.read_image(str(tmp_path / "deep.png"))
    assert pixels[0].ravel().tolist() == [value * 255 // 65535 for value in range(0, 65536, 64)]
    assert capsys.readouterr().out == "the image's 16-bit integers are scaled to 8 bits\n"
    photograph(8, 8, 4).save(tmp_path / "alpha.png")
    assert _demo.read_image(str(tmp_path / "alpha.png")).shape == (3, 8, 8)
    assert "transparency is ignored" in capsys.readouterr().out


def png_of_16_bits(pixels: np.ndarray) -> bytes:
    """An RGB picture, which Pillow reads but does not write."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    height, width, _ = pixels.shape
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in pixels)
    header = struct.pack(">IIBBBBB", width, height, 16, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def test_pictures_of_more_than_8_bits_are_announced(tmp_path, capsys):
    from PIL import Image

    pixels = np.random.default_rng(0).integers(0, 65536, (8, 9, 3), np.uint16)
    (tmp_path / "colours.png").write_bytes(png_of_16_bits(pixels))
    (tmp_path / "colours.ppm").write_bytes(b"P6 9 8 65535\n" + pixels.astype(">u2").tobytes())
    (tmp_path / "plain.ppm").write_bytes(b"P6 9 8 255\n" + (pixels >> 8).astype(np.uint8).tobytes())
    Image.fromarray(np.zeros((8, 9), np.int32)).save(tmp_path / "wide.tif")
    Image.fromarray(np.zeros((8, 9), np.float32)).save(tmp_path / "floats.tif")
    photograph(8, 9).save(tmp_path / "plain.png")
    for name, deep in (
        ("colours.png", "16-bit integers"),
        ("colours.ppm", "16-bit integers"),
        ("wide.tif", "32-bit integers"),
        ("floats.tif", "floats"),
        ("plain.png", ""),
        ("plain.ppm", ""),
    ):
        assert _demo.read_image(str(tmp_path / name)).shape == (3, 8, 9), name
        assert capsys.readouterr().out == (f"the image's {deep} are scaled to 8 bits\n" if deep else ""), name


def test_the_unpooled_picture_stands_beside_what_it_was_made_of(tmp_path, monkeypatch, hurried):
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    titles: list[str] = []
    captions: list[str] = []
    monkeypatch.setattr(Axes, "set_title", lambda axes, text, **_: titles.append(text))
    monkeypatch.setattr(Figure, "supxlabel", lambda figure, text, **_: captions.append(text))
    monkeypatch.setattr(Figure, "savefig", lambda *_, **__: None)
    np.save(tmp_path / "x.npy", np.random.default_rng(0).random((9, 24, 16)))
    _demo.demo(str(tmp_path / "x.npy"), str(tmp_path / "x.png"), True)
    names = ["original", "pooled once", "pooled once, then unpooled", "pooled twice", "pooled 3 times"]
    sizes = ["24 x 16", "12 x 8", "24 x 16", "6 x 4", "3 x 2"]  # in the order of the shapes that are printed
    assert titles == [f"{name}\n{size}" for name, size in zip(names, sizes, strict=True)]
    assert "the middle slice of the depth, height x width" in captions[0]
    photograph(20, 30).save(tmp_path / "x.png")
    del titles[:]
    _demo.demo(str(tmp_path / "x.png"), str(tmp_path / "y.png"), False)
    assert titles == ["original\n20 x 30", "pooled\n10 x 15", "pooled, then unpooled\n20 x 30"]


def test_git_ignores_the_demos_pictures():
    ignored = pathlib.Path(__file__).parent.parent / ".gitignore"
    if not ignored.exists():
        pytest.skip("not a checkout")
    patterns = [line.removeprefix("/") for line in ignored.read_text().splitlines() if "demo" in line]
    for name in ("cunpool-demo.png", "cunpool-demo-volume.png"):
        assert any(fnmatch.fnmatch(name, pattern) for pattern in patterns), name


def test_the_timing_says_when_it_was_disturbed(monkeypatch, capsys):
    clock = iter(range(10**6))
    turns = iter([0] + [1, 1, 1, 1] + [0] * 100)
    steps = [_demo.Step("pool", lambda: next(turns) and next(clock), lambda: None)]
    monkeypatch.setattr(_demo.time, "perf_counter", lambda: next(clock))
    monkeypatch.setattr(_demo, "ROUNDS", 5)
    monkeypatch.setattr(_demo, "SECONDS", 1e9)
    monkeypatch.setattr(_demo, "NOISY", 1.5)
    _demo.measure(steps)
    printed = capsys.readouterr().out
    assert "median of 5 rounds" in printed
    assert "1000.000 2000.000   NumPy 1000.000 1000.000   1.0 times as fast" in printed
    assert "A median is 2 times the best: another program is" in printed
    _demo.measure(steps)
    assert "something else" not in capsys.readouterr().out


def test_one_thread_is_not_threads(monkeypatch):
    for count, text in ((1, "1 thread"), (2, "2 threads")):
        monkeypatch.setattr(cu, "get_num_threads", lambda count=count: count)
        assert _demo.threads() == text


def test_version_and_help(capsys):
    with pytest.raises(SystemExit) as end:
        command.main(["--version"])
    assert end.value.code == 0
    assert capsys.readouterr().out == f"cunpool {cu.__version__}\n"
    assert command.main([]) == 2
    assert "usage: cunpool" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        command.main(["demo", "--help"])
    assert "It takes about five seconds" in " ".join(capsys.readouterr().out.split())


def test_a_serial_build_says_so(monkeypatch, capsys):
    monkeypatch.setattr(command._runtime, "OPENMP_VERSION", 0)
    command.info()
    assert "OFF: a serial build; every call uses one thread" in capsys.readouterr().out


def test_an_interrupt_is_no_traceback(monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(_demo, "demo", interrupted)
    assert command.main(["demo"]) == 130


@POSIX
def test_a_closed_pipe_and_a_full_disk():
    read, write = os.pipe()
    os.close(read)
    run = cunpool("info", stdout=write)
    os.close(write)
    assert (run.returncode, run.stderr) == (1, "")
    if os.path.exists("/dev/full"):
        with open("/dev/full", "w") as full:
            run = cunpool("info", stdout=full)
        assert (run.returncode, run.stderr) == (1, "cunpool: cannot print: No space left on device\n")
    run = cunpool("info", stdout=None, preexec_fn=lambda: os.close(1))
    assert (run.returncode, run.stderr) == (0, "")


@pytest.mark.slow
@POSIX
def test_a_picture_on_a_full_disk(tmp_path, capsys, hurried):
    if not os.path.exists("/dev/full"):
        pytest.skip("no full disk here")
    (tmp_path / "full.png").symlink_to("/dev/full")
    assert "No space left on device" in refused(capsys, "demo", "-o", str(tmp_path / "full.png"))


@pytest.mark.slow
@POSIX
def test_a_name_that_the_terminal_has_no_letters_for(tmp_path):
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "1"}
    run = cunpool("demo", "-o", "b\xe4ume.png", cwd=tmp_path, env=environment)
    assert (run.returncode, run.stderr) == (0, "")
    assert "wrote b\\xe4ume.png" in run.stdout
    assert (tmp_path / "b\xe4ume.png").exists()


def test_a_missing_extra(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert command.main(["demo"]) == 2
    assert "pip install 'cunpool[demo]'" in capsys.readouterr().err


def test_a_wrong_result_is_not_passed_over(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(_demo, "numpy_unpool", lambda y, indices, shape: np.ones(shape, y.dtype))
    assert command.main(["demo", "-o", str(tmp_path / "out.png")]) == 2
    assert "differs from NumPy's" in capsys.readouterr().err


def test_as_a_module():
    run = subprocess.run([sys.executable, "-m", "cunpool", "info"], capture_output=True, text=True, check=True)
    assert cu.__version__ in run.stdout
    assert subprocess.run([sys.executable, "-m", "cunpool"], capture_output=True, cwd=os.sep).returncode == 2
