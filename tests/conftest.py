"""How tests run: hypothesis profiles, and what becomes of GPU tests where there is no GPU."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

pytest.register_assert_rewrite("longalign.testing")

# Sweeps compile on first use, so a deadline would fail on the first example and pass on the second.
settings.register_profile("default", deadline=None, max_examples=100)
settings.register_profile("ci", deadline=None, max_examples=100, derandomize=True, print_blob=True)
settings.register_profile("thorough", deadline=None, max_examples=3000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
