"""Runs of letters of one kind in a long sequence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longalign.backends.base import Kernel
from longalign.backends.cpu.jit import compile_entry, compiled_once
from longalign.model.alphabet import Codes


def letter_runs(codes: Codes, is_wanted: NDArray[np.bool_], least: int) -> NDArray[np.int64]:
    """The first place of each run of at least `least` wanted letters, and the one after the last.

    `is_wanted` has the shape (256,), the result (2, runs). Beside the result, little memory is used.
    """
    found = np.empty((2, (len(codes) + 1) // (least + 1)), np.int64)  # mostly never written, so not there
    count = _lister()(codes, is_wanted, least, found)
    return found[:, :count].copy()


def kernels() -> list[Kernel]:
    """What is compiled here."""
    return [Kernel("runs of letters", _lister)]


def _list_runs(codes: Any, is_wanted: Any, least: Any, found: Any) -> Any:
    count, first = 0, 0
    for k in range(len(codes) + 1):
        if k == len(codes) or not is_wanted[codes[k]]:
            if k - first >= least:
                found[0, count], found[1, count] = first, k
                count += 1
            first = k + 1
    return count


@compiled_once
def _lister() -> Callable[..., int]:
    examples = [np.zeros(1, np.uint8), np.zeros(1, np.bool_), 1, np.zeros((1, 1), np.int64)]
    return compile_entry(_list_runs, "runs of letters", examples)
