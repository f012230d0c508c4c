"""Runs of letters, compared with those that a regular expression finds."""

from __future__ import annotations

import re

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from longalign.backends.cpu.letter_runs import letter_runs


@given(st.text("ab", max_size=60), st.integers(1, 6))
def test_they_are_those_of_a_regular_expression(text, least):
    wanted = np.zeros(256, np.bool_)
    wanted[ord("a")] = True
    found = letter_runs(np.frombuffer(text.encode(), np.uint8).copy(), wanted, least)
    assert found.T.tolist() == [[*match.span()] for match in re.finditer(f"a{{{least},}}", text)]
    assert found.shape[0] == 2
