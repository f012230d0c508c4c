"""The initialisation of the driver while packages are imported. A fake driver replaces the real one."""

from __future__ import annotations

import ctypes
import sys
from threading import current_thread, enumerate
from types import SimpleNamespace

import pytest

from longalign.backends.cuda import backend, devices
from longalign.errors import BackendError

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere, the packages find the driver")


class Driver(SimpleNamespace):
    """Records its calls. The call named `fails` reports an error."""

    def __init__(self, fails: str = "") -> None:
        super().__init__(fails=fails, calls=[])

    def _call(self, name: str, *arguments: object) -> int:
        self.calls.append((name, *arguments))
        return int(name == self.fails)

    def cuInit(self, flags):  # noqa: N802 - the driver's names
        return self._call("cuInit", flags)

    def cuDeviceGet(self, device, index):  # noqa: N802
        device._obj.value = index.value + 40
        return self._call("cuDeviceGet", index.value)

    def cuDevicePrimaryCtxRetain(self, context, device):  # noqa: N802
        assert isinstance(context._obj, ctypes.c_void_p)
        return self._call("cuDevicePrimaryCtxRetain", device.value)


def calls_of(driver: Driver | None, monkeypatch, index: int = 0) -> list[tuple[object, ...]]:
    """The calls that `preload_driver` makes to the driver from another thread."""
    monkeypatch.delenv("NUMBA_ENABLE_CUDASIM", raising=False)
    monkeypatch.setattr(devices, "_driver", lambda: driver)
    before = set(enumerate())
    devices.preload_driver(index)
    for thread in set(enumerate()) - before - {current_thread()}:
        thread.join()
    return driver.calls if driver else []


def test_the_context_of_the_requested_gpu_is_created(monkeypatch):
    expected = [("cuInit", 0), ("cuDeviceGet", 3), ("cuDevicePrimaryCtxRetain", 43)]
    assert calls_of(Driver(), monkeypatch, 3) == expected


def test_without_numba_cuda_no_context_is_created_and_the_package_is_named(monkeypatch):
    """Numba's own `numba.cuda` can be imported, but it cannot compile the kernels."""
    monkeypatch.setattr(devices, "find_spec", lambda name: None)
    assert calls_of(Driver(), monkeypatch) == []
    assert devices.available() == []
    assert devices.why_unavailable() == "no CUDA package: install longalign[cuda12] or longalign[cuda13]"


@pytest.mark.parametrize(
    ("fails", "calls"), [("cuInit", 1), ("cuDeviceGet", 2), ("cuDevicePrimaryCtxRetain", 3)]
)
def test_after_a_failed_call_there_are_no_others(fails, calls, monkeypatch):
    assert len(calls_of(Driver(fails), monkeypatch)) == calls


def test_without_a_driver_nothing_happens(monkeypatch):
    assert calls_of(None, monkeypatch) == []


def test_a_simulated_gpu_needs_no_driver(monkeypatch):
    driver = Driver()
    monkeypatch.setattr(devices, "_driver", lambda: driver)
    monkeypatch.setenv("NUMBA_ENABLE_CUDASIM", "1")
    devices.preload_driver(0)
    assert driver.calls == []


def test_no_index_is_too_large(monkeypatch):
    assert calls_of(Driver(), monkeypatch, 10**30)[0] == ("cuInit", 0)


def test_without_another_thread_the_driver_starts_later(monkeypatch):
    def refuse(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(devices.Thread, "start", refuse)
    assert calls_of(Driver(), monkeypatch) == []


@pytest.mark.parametrize(
    ("module", "expected"), [("cuda.core._utils.cuda_utils", BackendError), ("elsewhere", ValueError)]
)
def test_errors_of_the_driver_s_package_are_errors_of_the_back_end(monkeypatch, module, expected):
    """For example, if there is no memory for a context."""
    error = type("CUDAError", (ValueError,), {"__module__": module})

    class Full:
        def __getitem__(self, index):
            raise error("CUDA_ERROR_OUT_OF_MEMORY")

    cuda_backend = object.__new__(backend.CudaBackend)
    cuda_backend.name, cuda_backend._device = "cuda:0", devices.Device(0, "a GPU", (9, 0))
    monkeypatch.setattr(backend, "cuda", SimpleNamespace(gpus=Full()))
    with pytest.raises(expected, match=r"CUDA_ERROR_OUT_OF_MEMORY"):
        cuda_backend.max_boundary_cells()
