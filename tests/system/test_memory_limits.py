"""The memory that a process may take: that of the machine, within the limits of its control groups."""

from __future__ import annotations

from types import SimpleNamespace

import psutil
import pytest

import longalign.api
from longalign.system import memory_limits

FREE = 10_000


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Simulates a machine with this number of free bytes and these control groups."""
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=FREE))

    def make(own, groups):
        (tmp_path / "own").write_text(own, errors="surrogateescape")
        for name, files in groups.items():
            (tmp_path / "groups" / name).mkdir(parents=True, exist_ok=True)
            for file, text in files.items():
                (tmp_path / "groups" / name / file).write_text(text)
        monkeypatch.setattr(memory_limits, "_OWN_GROUPS", tmp_path / "own")
        monkeypatch.setattr(memory_limits, "_GROUPS", tmp_path / "groups")

    return make


def group(limit, used=0, cached=0, read_again=0):
    return {
        "memory.max": f"{limit}\n", "memory.current": f"{used}\n",
        "memory.stat": f"anon 7\nactive_file {read_again}\ninactive_file {cached}\n",
    }  # fmt: skip


def silent_group(limit, used):
    """A control group whose kernel does not report the use of its memory."""
    return {"memory.max": f"{limit}\n", "memory.current": f"{used}\n"}


def old_group(limit, used=0, cached=0):
    return {
        "memory.limit_in_bytes": f"{limit}\n", "memory.usage_in_bytes": f"{used}\n",
        "memory.stat": f"cache 7\ntotal_inactive_file {cached}\n",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("own", "groups", "free"),
    [
        ("0::/\n", {}, FREE),
        ("0::/\n", {".": group("max")}, FREE),
        ("0::/\n", {".": group(8_000, 3_000, 1_000)}, 6_000),
        ("0::/\n", {".": group(8_000, 3_000, 1_000, 500)}, 6_500),
        ("0::/\n", {".": group(2_000, 3_000)}, 0),
        ("0::/\n", {".": silent_group(4_000, 1_000)}, 3_000),
        ("0::/\n", {".": {"memory.max": "4000\n"}}, FREE),
        ("0::/j\udcff\n", {".": group(7_000)}, 7_000),
        ("0::/job/step\n", {"job": group(4_000, 500), "job/step": group("max")}, 3_500),
        ("0::/job/step\n", {"job": group("max"), "job/step": group(20_000)}, FREE),
        ("0::/../elsewhere\n", {".": group(5_000)}, 5_000),
        ("3:cpu:/x\n2:memory,pids:/slurm/a\n0::/\n", {"memory/slurm/a": old_group(6_000, 900, 300)}, 5_400),
        ("2:memory:/docker/abc\n", {"memory": old_group(1_000)}, 1_000),
    ],
)  # fmt: skip
def test_memory_within_limits(machine, own, groups, free):
    machine(own, groups)
    assert memory_limits.free_memory() == free
    assert longalign.api.default_memory() == int(0.8 * free)


def test_a_system_without_control_groups(monkeypatch, tmp_path):
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=FREE))
    monkeypatch.setattr(memory_limits, "_OWN_GROUPS", tmp_path / "nothing")
    assert memory_limits.free_memory() == FREE
