"""The recurrence: the value of a cell, the order among ties, the step back, and the join of two half paths.

    E(i,j) = max(E(i-1,j) - beta, H(i-1,j) - alpha - beta)      vertical gap: a_i against a gap
    F(i,j) = max(F(i,j-1) - beta, H(i,j-1) - alpha - beta)      horizontal gap: b_j against a gap
    H(i,j) = max(0, H(i-1,j-1) + c(a_i,b_j), E(i,j), F(i,j))    the 0 in local mode only

The query a_1..a_m runs down (rows i), the target b_1..b_n runs right (columns j). c is the substitution
score.

Gaps. A gap of length k costs alpha + k*beta, where alpha = `gap_open` >= 0 and beta = `gap_extend` >= 0. The
linear model has alpha = 0. A program that charges O for the first letter of a gap and X for each further one
has alpha = O - X and beta = X. An insertion may follow a deletion and vice versa, because both gap states
read H.

Ties. Of equally good predecessors, H takes a letter pair before a vertical gap, and a vertical gap before a
horizontal one. E and F open a gap rather than extend one. In local mode a path starts at H = 0 rather than
continue backwards. So the path is a function of the input, the scoring and the mode alone, whatever the back
end, the tiling and the way in which the phases find it (`longalign.phases.entry` says why). The order among
end cells is `outranks`.

Sources. Affine gaps: O. Gotoh, J. Mol. Biol. 162:705-708 (1982). Local mode: T. F. Smith and M. S. Waterman,
J. Mol. Biol. 147:195-197 (1981). Start states handed from cell to cell: J. Li, S. Ranka and S. Sahni,
"Pairwise sequence alignment for very long sequences on GPUs", Int. J. Bioinform. Res. Appl. 10:345-368
(2014).

This module imports nothing and names no number type. A back end builds its cell by passing `make_cell` the
arithmetic it computes with: plain integers, wrapping 8- or 16-bit lanes, packed halves. The recurrence is
thus written once, and no back end can deviate from it.
"""

# The states of a path at a cell: after a letter pair or a closed gap (H), in a vertical gap (E), in a
# horizontal gap (F).
H, E, F = 0, 1, 2

# A direction byte: the source of H (two bits), and a bit each for E and F that extend a gap.
DIAGONAL, FROM_E, FROM_F = 1, 2, 3
SOURCE_MASK = 3
E_EXTENDS = 4
F_EXTENDS = 8


def outranks(score, i, j, best_score, best_i, best_j):
    """The order among end cells: a higher score, then a lower anti-diagonal i + j, then a larger column j.

    It is total, so the end cell does not depend on how the DP matrix was cut into tiles. The rule for ties is
    that of Aymone's CUDA Smith-Waterman. `BestCell.rank` is the same order as a sort key.
    """
    if score != best_score:
        return score > best_score
    if i + j != best_i + best_j:
        return i + j < best_i + best_j
    return j > best_j


def make_cell(maximum, subtract, local):
    """The cell function in a given arithmetic, for a back end to compile.

    `maximum(x, y)` and `subtract(x, y)` operate on the back end's numbers. `local` is a compile-time
    constant. The cell takes

    - `diagonal` = H(i-1,j-1) + c(a_i,b_j)
    - `open_up` = H(i-1,j) - alpha - beta and `e_up` = E(i-1,j)
    - `open_left` = H(i,j-1) - alpha - beta and `f_left` = F(i,j-1)
    - `beta`, and `zero`, the number that represents 0 (numbers may be relative to a base)

    and returns H, E and F at (i,j), and max(diagonal, E), which is H without the horizontal gap and the floor
    of 0. The values H - alpha - beta are arguments because a kernel computes each once and uses it twice,
    below and to the right.

    A kernel may open F(i,j+1) from the fourth value, which is available earlier than H. This is exact: H
    differs from it only if H is F(i,j) or 0. Opening from F(i,j) gives F(i,j) - alpha - beta, which does not
    exceed the extension F(i,j) - beta, since alpha >= 0. Opening from 0 gives an F that is not positive; in
    local mode such an F cannot change H, which is at least 0.
    """

    def cell(diagonal, open_up, e_up, open_left, f_left, beta, zero):
        e = maximum(subtract(e_up, beta), open_up)
        f = maximum(subtract(f_left, beta), open_left)
        h_without_f = maximum(diagonal, e)
        h = maximum(h_without_f, f)
        if local:
            h = maximum(h, zero)
        return h, e, f, h_without_f

    return cell


def direction(h, diagonal, e, f, open_up, open_left):
    """The direction byte of a cell in global mode, from the arguments and results of `make_cell`.

    The order of the comparisons is the order among ties. There is always a source: only rectangles with a
    known entry are traced, and their paths do not start at a 0 inside.
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
    """The function that finds where the paths to a cell's H, E and F start, for a back end to compile.

    A *start* identifies the cell and state at which a path started, in any encoding: the rule only selects
    starts. `local` is a compile-time constant. The rule takes H, E and F of the cell and the values that they
    were computed from, the starts of H(i-1,j-1), H(i-1,j), E(i-1,j), H(i,j-1) and F(i,j-1), and `here`, the
    start of a path that starts at (i,j) itself. It returns the starts of H, E and F at (i,j).

    The order among ties is that of `direction`, so that repeated `step_back` ends at the same start. In local
    mode a path starts wherever H equals `zero`.
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
    """One step of a path backwards, from a cell in `state` with the direction byte `bits`.

    Returns the numbers of query letters and of target letters in the step, each 0 or 1, and the state before
    the step. Where H comes from E or F of the same cell, the change of state and the gap letter are one step.
    """
    source = bits & SOURCE_MASK
    if state == H and source == DIAGONAL:
        return 1, 1, H
    if state == E or (state == H and source == FROM_E):
        return 1, 0, E if bits & E_EXTENDS else H
    return 0, 1, F if bits & F_EXTENDS else H


def join(forward, backward, state, alpha):
    """The score of the best path through a boundary cell in `state`, from a forward and a backward sweep.

    `forward` and `backward` are the values of that state in the two sweeps. In state E or F both include the
    cost alpha of opening the same gap, so one alpha is added back.
    """
    return forward + backward + (0 if state == H else alpha)
