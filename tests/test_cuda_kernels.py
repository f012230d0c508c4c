"""How kernels are compiled, as far as that can be seen without a GPU."""

from __future__ import annotations

import pytest

pytest.importorskip("numba_cuda")

from longalign.backends.cuda import edge_kernel, kernel, start_kernel, trace_kernel
from longalign.backends.cuda.config import KernelConfig


@pytest.mark.parametrize(
    "build",
    [
        lambda: kernel.build_kernel(KernelConfig(local=True, track_best=True)),
        edge_kernel.build_kernel,
        lambda: start_kernel.build_kernel(True, False),
        lambda: trace_kernel.build_kernel(False),
    ],
    ids=["sweep", "edges", "starts", "trace"],
)
def test_a_kernel_is_not_optimised_again_when_it_is_linked(build):
    assert build().targetoptions["lto"] is False
