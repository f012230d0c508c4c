"""The order among ties, the steps backwards and the join of half paths, by tables worked out by hand.

Every back end and the oracle compile the same functions, so that no comparison among them notices a fault.
"""

from __future__ import annotations

from itertools import product

import pytest

from longalign.model.recurrence import (
    DIAGONAL,
    E_EXTENDS,
    F_EXTENDS,
    FROM_E,
    FROM_F,
    E,
    F,
    H,
    direction,
    join,
    make_cell,
    make_start_rule,
    step_back,
)

ALPHA, BETA = 3, 2


@pytest.mark.parametrize(
    ("diagonal", "open_up", "e_up", "open_left", "f_left", "cell"),
    [
        (9, 4, 6, 5, 7, (9, 4, 5, 9)),
        (2, 4, 8, 5, 7, (6, 6, 5, 6)),
        (2, 4, 6, 5, 10, (8, 4, 8, 4)),
        (-9, -8, -9, -7, -9, (-7, -8, -7, -8)),
    ],
)
def test_a_cell(diagonal, open_up, e_up, open_left, f_left, cell):
    arguments = diagonal, open_up, e_up, open_left, f_left, BETA, 0
    assert make_cell(max, int.__sub__, local=False)(*arguments) == cell
    assert make_cell(max, int.__sub__, local=True)(*arguments) == (max(cell[0], 0), *cell[1:])


@pytest.mark.parametrize(
    ("diagonal", "e", "f", "source"),
    [
        (5, 5, 5, DIAGONAL),
        (5, 5, 4, DIAGONAL),
        (5, 4, 5, DIAGONAL),
        (4, 5, 5, FROM_E),
        (4, 5, 4, FROM_E),
        (4, 4, 5, FROM_F),
    ],
)
def test_h_prefers_a_letter_pair_then_a_vertical_gap(diagonal, e, f, source):
    assert direction(5, diagonal, e, f, e, f) == source


@pytest.mark.parametrize(("e_extends", "f_extends"), [*product([0, 1], repeat=2)])
def test_a_gap_prefers_to_have_just_been_opened(e_extends, f_extends):
    bits = direction(5, 5, 4, 3, 4 - e_extends, 3 - f_extends)
    assert bits == DIAGONAL | e_extends * E_EXTENDS | f_extends * F_EXTENDS


@pytest.mark.parametrize(
    ("state", "bits", "step"),
    [
        (H, DIAGONAL, (1, 1, H)),
        (H, DIAGONAL | E_EXTENDS | F_EXTENDS, (1, 1, H)),
        (H, FROM_E | F_EXTENDS, (1, 0, H)),
        (H, FROM_E | E_EXTENDS, (1, 0, E)),
        (H, FROM_F | E_EXTENDS, (0, 1, H)),
        (H, FROM_F | F_EXTENDS, (0, 1, F)),
        *((E, source | F_EXTENDS, (1, 0, H)) for source in (DIAGONAL, FROM_E, FROM_F)),
        *((E, source | E_EXTENDS, (1, 0, E)) for source in (DIAGONAL, FROM_E, FROM_F)),
        *((F, source | E_EXTENDS, (0, 1, H)) for source in (DIAGONAL, FROM_E, FROM_F)),
        *((F, source | F_EXTENDS, (0, 1, F)) for source in (DIAGONAL, FROM_E, FROM_F)),
    ],
)
def test_a_step_back(state, bits, step):
    assert step_back(state, bits) == step


STARTS = "of diagonal", "of H above", "of E above", "of H on the left", "of F on the left", "here"


@pytest.mark.parametrize(
    ("h", "diagonal", "e", "f", "start"),
    [
        (5, 5, 5, 5, "of diagonal"),
        (5, 4, 5, 5, "of H above"),
        (5, 4, 4, 5, "of H on the left"),
    ],
)
def test_starts_keep_the_order_of_directions(h, diagonal, e, f, start):
    for local in (False, True):
        found = make_start_rule(local)(h, diagonal, e, f, e, f, 0, *STARTS)
        assert found == (start, "of H above", "of H on the left")
        extended = make_start_rule(local)(h, diagonal, e, f, e - 1, f - 1, 0, *STARTS)
        assert extended[1:] == ("of E above", "of F on the left")


def test_a_local_path_starts_at_0_before_anything_else():
    assert make_start_rule(True)(0, 0, 0, 0, 0, 0, 0, *STARTS)[0] == "here"
    assert make_start_rule(False)(0, 0, 0, 0, 0, 0, 0, *STARTS)[0] == "of diagonal"


def test_halves_of_a_gap_have_paid_twice_for_its_opening():
    assert join(7, 5, H, ALPHA) == 12
    assert join(7, 5, E, ALPHA) == join(7, 5, F, ALPHA) == 12 + ALPHA
