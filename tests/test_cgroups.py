from __future__ import annotations

import pytest

import cunpool as cu
from cunpool import _cgroups

MEMBER = {
    "second": "0::/service/worker\n",
    "first": "4:memory:/service/worker\n3:cpuset:/\n2:cpu,cpuacct:/service/worker\n1:name=systemd:/\n",
    "both": "4:memory:/service/worker\n0::/service/worker\n",
    "none": "",
}


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """Write files of a machine whose root is elsewhere: its groups, and where this process belongs."""

    def write(member: str, **files: str):
        (tmp_path / "proc" / "self").mkdir(parents=True, exist_ok=True)
        (tmp_path / "proc" / "self" / "cgroup").write_text(MEMBER[member])
        for path, text in files.items():
            file = tmp_path.joinpath("sys", "fs", "cgroup", *path.split("__"))
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)

    monkeypatch.setattr(_cgroups, "ROOT", tmp_path)
    _cgroups.processors.cache_clear()
    yield write
    _cgroups.processors.cache_clear()


def named(files: dict[str, str]) -> dict[str, str]:
    return {path.replace("/", "__"): text for path, text in files.items()}


@pytest.mark.parametrize(
    ("member", "files", "processors"),
    [
        ("none", {"cpu.max": "100000 100000"}, None),
        ("second", {}, None),
        ("second", {"service/worker/cpu.max": "max 100000\n"}, None),
        ("second", {"service/worker/cpu.max": "100000 100000\n"}, 1),
        ("second", {"service/worker/cpu.max": "150000 100000\n"}, 2),
        ("second", {"service/worker/cpu.max": "max 100000\n", "service/cpu.max": "400000 100000\n"}, 4),
        ("second", {"service/worker/cpu.max": "800000 100000\n", "service/cpu.max": "400000 100000\n"}, 4),
        ("second", {"service/worker/cpu.max": "200000 100000\n", "service/cpu.max": "400000 100000\n"}, 2),
        ("second", {"cpu.max": "50000 100000\n"}, 1),  # the path is the host's, and only the container's group is there
        ("second", {"elsewhere/cpu.max": "50000 100000\n"}, None),
        ("second", {"cpu.max": "nonsense"}, None),
        ("second", {"cpu.max": "0 0"}, None),
        ("first", {"cpu,cpuacct/cpu.cfs_quota_us": "-1\n", "cpu,cpuacct/cpu.cfs_period_us": "100000\n"}, None),
        ("first", {"cpu/service/cpu.cfs_quota_us": "250000\n", "cpu/service/cpu.cfs_period_us": "100000\n"}, 3),
        ("first", {"cpu/cpu.cfs_quota_us": "20000\n", "cpu/cpu.cfs_period_us": "10000\n"}, 2),
        ("both", {"unified/service/worker/cpu.max": "100000 100000\n"}, 1),
    ],
)
def test_processors(machine, member, files, processors):
    machine(member, **named(files))
    assert _cgroups.processors() == processors


@pytest.mark.parametrize(
    ("member", "files", "memory"),
    [
        ("none", {"memory.max": "4096"}, None),
        ("second", {"service/worker/memory.max": "max\n"}, None),
        ("second", {"service/worker/memory.max": "max\n", "service/memory.max": "1073741824\n"}, 1 << 30),
        ("second", {"service/worker/memory.max": "4096\n", "service/memory.max": "1073741824\n"}, 4096),
        ("first", {"memory/service/worker/memory.limit_in_bytes": "1048576\n"}, 1 << 20),
        ("first", {"memory/memory.limit_in_bytes": "9223372036854771712\n"}, 9223372036854771712),
        ("first", {"memory/memory.limit_in_bytes": "2097152\n"}, 1 << 21),
        ("both", {"memory/service/memory.limit_in_bytes": "1048576\n", "unified/memory.max": "4096\n"}, 4096),
    ],
)
def test_memory(machine, member, files, memory):
    machine(member, **named(files))
    assert _cgroups.memory() == memory


@pytest.mark.skipif(not cu.openmp_enabled(), reason="a serial build")
def test_a_container_of_one_processor_gets_one_thread(machine):
    before = cu.get_num_threads()
    machine("second", **named({"service/cpu.max": "100000 100000\n"}))
    _cgroups.processors.cache_clear()
    assert cu.get_num_threads() == 1
    cu.set_num_threads(3)  # who asks for more gets it
    assert cu.get_num_threads() == 3
    cu.set_num_threads(None)
    machine("second", **named({"service/cpu.max": "100000000000000 100000\n"}))
    _cgroups.processors.cache_clear()
    assert cu.get_num_threads() == before
