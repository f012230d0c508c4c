"""A fixture for tests of the kernel cache."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from longalign.backends import kernel_cache


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """The folder of the kernel cache during a test that uses this. It does not exist yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    kernel_cache.cache_directory.cache_clear()
    yield tmp_path / "cache"
    kernel_cache.cache_directory.cache_clear()
