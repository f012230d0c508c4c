"""Exact numbers: what is one, and that a text comes back as the number it spells."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from longalign.system.rationals import (
    as_number,
    common_denominator,
    is_decimal,
    is_long,
    parse_number,
    simplest,
    spell,
)


@given(st.fractions(-(10**9), 10**9, max_denominator=10**6))
def test_a_number_is_spelled_exactly(value: Fraction) -> None:
    assert parse_number(spell(simplest(value))) == value
    assert is_decimal(value) == ("/" not in spell(value))


@given(
    st.builds("{}/{}".format, st.integers(0, 10**18 - 1), st.integers(1, 10**18 - 1))
    | st.from_regex(r"\A[0-9]{1,18}\.[0-9]{0,30}\Z")
)
@example("1/576460752303423488")
def test_what_is_parsed_is_spelled_so_that_it_is_parsed_again(text: str) -> None:
    value = parse_number(text)
    assert not is_long(value)
    assert parse_number(spell(value)) == value


@pytest.mark.parametrize(
    "value",
    [
        *(10**18, -(10**18), Fraction(1, 3**40), Fraction(1, 2**70), Fraction(1, 10**5000)),
        pytest.param(10**5000, id="10^5000"),
    ],
)
def test_numbers_that_are_too_long_to_be_parsed_again(value: int | Fraction) -> None:
    assert is_long(value)
    with pytest.raises(ValueError, match="is not a number"):
        parse_number(spell(value))


@given(st.decimals(allow_nan=False, allow_infinity=False, places=6, min_value=-(10**9), max_value=10**9))
def test_decimals_are_spelled_without_zeros_at_the_end(value: Decimal) -> None:
    text = spell(as_number(value))
    assert Decimal(text) == value
    assert text == str(int(value)) if value == int(value) else not text.endswith("0")


@pytest.mark.parametrize(
    "value",
    [0.5, 1.0, "1", True, None, Decimal("NaN"), Decimal("sNaN"), Decimal("Infinity"), Decimal("1e9999999")],
)
def test_floats_and_other_things_are_no_exact_numbers(value: object) -> None:
    with pytest.raises(TypeError):
        as_number(value)


def test_whole_numbers_of_every_type_become_int() -> None:
    numbers = [np.int32(3), Fraction(6, 2), Decimal("3.0"), 3]
    assert {(type(as_number(number)), as_number(number)) for number in numbers} == {(int, 3)}
    assert as_number(Decimal("0e9999999")) == 0


@pytest.mark.parametrize(
    "text", ["", "x", "1e3", "1/0", "1.5/2", "--1", "1,5", " 1", "inf", ".", "1.2.3", "5/"]
)
def test_texts_that_spell_no_number(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a number$"):
        parse_number(text)


@pytest.mark.parametrize("text", ["1234567890123456789", "0." + "1" * 31, "1/1234567890123456789"])
def test_a_text_of_too_many_digits_is_told_so(text: str) -> None:
    with pytest.raises(
        ValueError, match="is not a number of at most 18 digits before and 30 after the point"
    ):
        parse_number(text)


def test_the_common_denominator_makes_all_whole() -> None:
    assert common_denominator([1, Fraction(1, 2), Fraction(2, 3)]) == 6
    assert common_denominator([]) == 1
