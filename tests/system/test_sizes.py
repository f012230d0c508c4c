"""Sizes as text: every printed size can be read again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longalign.system.sizes import format_size, parse_size, round_size

sizes = st.one_of(
    st.integers(0, 10**15 - 1),
    st.builds(
        lambda factor, unit: factor << unit, st.integers(0, 2000), st.sampled_from([0, 10, 20, 30, 40])
    ),
)


@given(sizes)
def test_a_size_is_read_back_as_it_was(size):
    assert parse_size(format_size(size)) == size


@given(sizes)
def test_a_rounded_size_is_close_on_the_side_that_was_asked_for_and_short(size):
    up, down = round_size(size), round_size(size, up=False)
    assert down <= size <= up
    assert up - down <= size / 10 + 1
    assert max(len(format_size(up)), len(format_size(down))) <= 5
    assert round_size(up) == up


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("1023", 1023),
        ("1K", 1024),
        ("1.5k", 1536),
        ("8GiB", 8 << 30),
        ("10mb", 10 << 20),
        ("2T", 2 << 40),
    ],
)
def test_sizes_that_people_write(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "M", "-1", "1.M", "1 M", "1e3", "1P", "0x10"])
def test_what_is_no_size(text):
    with pytest.raises(ValueError, match=r"is not a size such as 512M or 8G \(powers of 1024\)"):
        parse_size(text)


@pytest.mark.parametrize(
    ("size", "text"),
    [(53_477_376, "51M"), (1_395_864_371, "1.3G"), (1 << 30, "1G"), (53_477_375, "53477375")],
)
def test_sizes_as_they_are_printed(size, text):
    assert format_size(size) == text
