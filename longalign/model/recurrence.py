"""The recurrence, stated once: the cell, the order among ties, where paths start, how two halves of one meet.

    E(i,j) = max(E(i-1,j) - beta, H(i-1,j) - alpha - beta)      vertical gap: a_i against a gap
    F(i,j) = max(F(i,j-1) - beta, H(i,j-1) - alpha - beta)      horizontal gap: b_j against a gap
    H(i,j) = max(0, H(i-1,j-1) + c(a_i,b_j), E(i,j), F(i,j))    the 0 only in local mode

Query a_1..a_m runs down (rows i), target b_1..b_n runs right (columns j); a gap of length k costs
alpha + k*beta. An insertion may stand next to a deletion (both gap states read H).
O. Gotoh, J. Mol. Biol. 162:705 (1982); T. Smith and M. Waterman, J. Mol. Biol. 147:195 (1981).

This module imports nothing and names no number type. A back end builds *its* cell by handing
`make_cell` the arithmetic it computes with (plain integers, wrapping 8- or 16-bit lanes, packed
halves), so that no back end can restate the recurrence and get it subtly wrong.
"""

# The three states of a path: at a letter pair or a closed gap (H), inside a vertical gap (E), inside
# a horizontal gap (F).
H, E, F = 0, 1, 2

# A direction byte: where H came from (two bits), and whether E and F extended an open gap.
STOP, DIAGONAL, FROM_E, FROM_F = 0, 1, 2, 3
SOURCE_MASK = 3
E_EXTENDS = 4
F_EXTENDS = 8


def make_cell(maximum, subtract, local):
    """The cell in a given arithmetic, for a back end to compile.

    `maximum(x, y)` and `subtract(x, y)` act on the back end's numbers; `local` is a compile-time
    constant. The cell takes

    - `diagonal` = H(i-1,j-1) + c(a_i,b_j)
    - `open_up` = H(i-1,j) - alpha - beta and `e_up` = E(i-1,j)
    - `open_left` = H(i,j-1) - alpha - beta and `f_left` = F(i,j-1)
    - `beta`, and `zero`, the value that stands for 0 (values may be relative to a base)

    and returns (H, E, F) at (i,j), and max(diagonal, E): what H would be but for F. The opened values are
    arguments because a kernel computes H - alpha - beta once and uses it twice, below and to the right.

    F(i,j+1) may be opened from H but for F, which is known earlier: F - alpha - beta adds nothing to
    F - beta, as alpha >= 0; nobody closes a gap to open it again. In local mode the gap that starts from 0 is
    lost then, and with it an F that is not positive: H, which is never negative, stays the same.
    """

    def cell(diagonal, open_up, e_up, open_left, f_left, beta, zero):
        e = maximum(subtract(e_up, beta), open_up)
        f = maximum(subtract(f_left, beta), open_left)
        but_for_f = maximum(diagonal, e)
        h = maximum(but_for_f, f)
        if local:
            h = maximum(h, zero)
        return h, e, f, but_for_f

    return cell


def direction(h, diagonal, e, f, open_up, open_left):
    """The direction byte of a cell in global mode, and with it the order among ties.

    H prefers a letter pair, then a vertical gap, then a horizontal one; a gap prefers to have just
    been opened. Only rectangles with a known entry are traced, so no STOP is ever needed.
    """
    if h == diagonal:
        bits = DIAGONAL
    elif h == e:
        bits = FROM_E
    else:
        bits = FROM_F
    if e != open_up:
        bits |= E_EXTENDS
    if f != open_left:
        bits |= F_EXTENDS
    return bits


def make_start_rule(local):
    """Where the paths to a cell's three states start, for a back end to compile.

    A *start* is whatever a back end hands on from cell to cell to tell where a path began; nothing is
    computed with it. `local` is a compile-time constant. The rule takes the values of the cell, (H, E, F) and
    what they came from, and the starts of H(i-1,j-1), H(i-1,j), E(i-1,j), H(i,j-1) and F(i,j-1), and `here`,
    the start of a path that begins at (i,j) itself. It returns the starts of H, E and F.

    The order among ties is that of `direction`, so a start is where `step_back` leads in the end. In local
    mode a path begins where H is `zero`, before anything else.
    """

    def starts(
        h, diagonal, e, f, open_up, open_left, zero,
        start_diagonal, start_up, start_e_up, start_left, start_f_left, here,
    ):  # fmt: skip
        start_e = start_up if e == open_up else start_e_up
        start_f = start_left if f == open_left else start_f_left
        start_gap = start_e if h == e else start_f
        start_h = start_diagonal if h == diagonal else start_gap
        if local:
            start_h = here if h == zero else start_h
        return start_h, start_e, start_f

    return starts


def step_back(state, bits):
    """One step of a path backwards, from a cell in `state` with this direction byte.

    Returns how many query letters and how many target letters it takes, each 0 or 1, and the state before
    it. From H into a gap, the path changes its state without a step; that is part of the gap's step here.
    """
    source = bits & SOURCE_MASK
    if state == H and source == DIAGONAL:
        return 1, 1, H
    if state == E or (state == H and source == FROM_E):
        return 1, 0, E if bits & E_EXTENDS else H
    return 0, 1, F if bits & F_EXTENDS else H


def join(forward, backward, state, alpha):
    """The score of the best path through a state that a forward and a backward sweep both reached.

    Each half of a gap that runs through the state has paid for opening it, so one alpha is given
    back.
    """
    return forward + backward + (0 if state == H else alpha)
