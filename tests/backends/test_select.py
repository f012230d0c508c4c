"""Which device `--backend auto` takes."""

from __future__ import annotations

from dataclasses import replace

import pytest

import longalign
from longalign.api import resources
from longalign.backends import cuda, select
from longalign.backends.cpu import CpuBackend
from longalign.backends.cuda import backend as cuda_backend
from longalign.backends.cuda.devices import Device
from longalign.cli import main
from longalign.errors import BackendError, UsageError
from longalign.model.scoring import Scoring
from longalign.model.sequence import Sequence
from longalign.run.spec import RunSpec


class Gpu:
    """Stands in for a `CudaBackend`."""

    def __init__(self, index):
        self.name = f"cuda:{index}"


@pytest.fixture
def _one_gpu(monkeypatch):
    monkeypatch.setattr(cuda, "preload_driver", lambda index: None)
    monkeypatch.setattr(cuda, "available", lambda: [Device(0, "a GPU", (9, 0))])
    monkeypatch.setattr(cuda_backend, "CudaBackend", Gpu)


def names(*arguments, **options):
    return [backend.name for backend in select.open_backends(*arguments, **options)]


@pytest.mark.usefixtures("_one_gpu")
def test_auto_takes_the_gpu_unless_the_cpu_is_done_before_a_gpu_has_started():
    assert names() == ["cuda:0"]
    assert names(seconds=lambda device: 1.0) == ["cuda:0"]
    assert names(seconds=lambda device: 0.01) == ["cpu"]


@pytest.mark.usefixtures("_one_gpu")
def test_a_device_that_was_chosen_is_taken_for_small_pairs_too():
    assert names("cuda", seconds=lambda device: 0.01) == ["cuda:0"]
    assert names(devices=[0], seconds=lambda device: 0.01) == ["cuda:0"]
    assert names("cpu", seconds=lambda device: 100.0) == ["cpu"]


@pytest.mark.usefixtures("_one_gpu")
@pytest.mark.parametrize(("letters", "name"), [(16_000, "cpu"), (10_000_000, "cuda:0")])
def test_the_length_of_a_pair_decides(letters, name):
    one = Sequence.from_letters("one", b"ACGTTGCA" * (letters // 8))
    [device] = resources(threads=2, spec=RunSpec(one, one, Scoring())).backends
    assert device.name == name
    assert getattr(device, "threads", 2) == 2


@pytest.mark.usefixtures("_one_gpu")
@pytest.mark.parametrize(("field", "value"), [("start_states", "eager"), ("top", 2)])
def test_runs_that_take_several_times_as_long_are_for_the_gpu(field, value):
    one = Sequence.from_letters("one", b"ACGTTGCA")
    [device] = resources(spec=replace(RunSpec(one, one, Scoring()), **{field: value})).backends
    assert device.name == "cuda:0"


@pytest.mark.usefixtures("_one_gpu")
def test_both_strands_take_twice_as_long(monkeypatch):
    one = Sequence.from_letters("one", b"ACGTTGCA")
    monkeypatch.setattr(CpuBackend, "sweep_seconds", lambda *_: 0.6 * select._MAX_CPU_SECONDS)
    for strand, name in (("plus", "cpu"), ("both", "cuda:0")):
        [device] = resources(spec=RunSpec(one, one, Scoring(), strand=strand)).backends
        assert device.name == name


@pytest.mark.usefixtures("_one_gpu")
def test_functions_and_commands_leave_small_pairs_to_the_cpu(tmp_path):
    pair = "ACGTTGCA", "ACGTTCA"
    assert longalign.align(*pair).score == longalign.score(*pair).score
    assert len(longalign.best_alignments(*pair, 1)) == 1
    files = [tmp_path / "query.fa", tmp_path / "target.fa"]
    for file, letters in zip(files, pair, strict=True):
        file.write_text(f">{file.stem}\n{letters}\n")
    assert main(["align", *map(str, files), "-o", str(tmp_path / "out.paf"), "--quiet"]) == 0


def test_without_a_gpu_auto_takes_the_cpu_and_cuda_is_refused(monkeypatch):
    monkeypatch.setattr(cuda, "preload_driver", lambda index: None)
    monkeypatch.setattr(cuda, "available", list)
    monkeypatch.setattr(cuda, "why_unavailable", lambda: "no driver")
    assert names(seconds=lambda device: 100.0) == ["cpu"]
    with pytest.raises(BackendError, match="no usable CUDA device: no driver"):
        names("cuda")


def test_a_chosen_device_that_is_not_there_is_an_error_with_its_reason(monkeypatch):
    monkeypatch.setattr(cuda, "preload_driver", lambda index: None)
    monkeypatch.setattr(cuda, "available", list)
    monkeypatch.setattr(cuda, "why_unavailable", lambda: "no driver")
    with pytest.raises(BackendError, match="no usable CUDA device: no driver"):
        select.open_backends(devices=[0])
    with pytest.raises(UsageError, match="the CPU back end is to be used"):
        select.open_backends("cpu", devices=[0])
