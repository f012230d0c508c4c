"""How `experiments/cuda_sass.py` reads machine code: listings, loops, and what their instructions are for."""

from __future__ import annotations

import pytest
from loop_mix import MAXIMA, bounds, purposes
from sass import Instruction, Listing, consumers, shortest_loop

#: A loop that waits, a loop of a cell that seldom looks at its maximum, and what lanes that have parted do.
LISTING = """
.text._Z5sweep:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
.L_x_0:
        /*0010*/                   LDG.E R2, desc[UR4][R4.64] ;
        /*0020*/               @P0 BRA `(.L_x_0) ;
.L_x_1:
        /*0030*/                   LDS R6, [R20+0x8] ;
        /*0040*/                   PRMT R7, R8, R6, R9 ;
        /*0050*/                   VIADDMNMX.U16x2 R10, R10, R11.reuse, R12, !PT ;
        /*0060*/                   VIADDMNMX.U16x2 R7, R12, R7, R10, !PT ;
        /*0070*/                   IMAD.IADD R12, R7, 0x1, -R13 ;
        /*0080*/                   VIMNMX3.U16x2 R14, R15, R12, R16, !PT ;
        /*0090*/                   BRA.DIV UR5, `(.L_x_4) ;
        /*00a0*/                   SHFL.UP PT, R17, R12, 0x1, RZ ;
.L_x_2:
        /*00b0*/                   SEL R18, R19, R17, !P5 ;
        /*00c0*/                   PRMT R16, R18, 0x5432, R12 ;
        /*00d0*/                   ISETP.NE.AND P0, PT, R14, R15, PT ;
        /*00e0*/              @!P0 BRA `(.L_x_3) ;
        /*00f0*/                   VIMNMX R15, R15, R14, !PT ;
        /*0100*/                   MOV R15, R14 ;
.L_x_3:
        /*0110*/              @!P4 STS.64 [R21], R12 ;
        /*0120*/                   IMAD.MOV.U32 R8, RZ, RZ, R22 ;
        /*0130*/                   VIADD R20, R20, 0x4 ;
        /*0140*/                   ISETP.GE.AND P1, PT, R20, 0x40, PT ;
        /*0150*/              @!P1 BRA `(.L_x_1) ;
        /*0160*/                   EXIT ;
.L_x_4:
        /*0170*/                   SHFL.UP PT, R17, R12, 0x1, RZ ;
        /*0180*/                   BRA `(.L_x_2) ;
"""


def test_a_listing_has_instructions_and_labels():
    listing = Listing.parse(LISTING)
    assert len(listing.instructions) == 0x19
    assert listing.instructions[2] == Instruction("P0", "BRA", "`(.L_x_0)")
    assert listing.labels == {".L_x_0": 1, ".L_x_1": 3, ".L_x_2": 11, ".L_x_3": 17, ".L_x_4": 23}


@pytest.mark.parametrize(
    ("opcode", "operands", "writes", "reads"),
    [
        ("VIADDMNMX.U16x2", "R18, R19, -R162.reuse, R20, !PT", "R18", "R19 R162 R20"),
        ("LDS.64", "R20, [R74+0x10]", "R20 R21", "R74"),
        ("LDS.128", "R40, [UR4+0x200]", "R40 R41 R42 R43", "UR4"),
        ("STS.64", "[R167+0x8], R122", "", "R167 R122 R123"),
        ("SHFL.UP", "PT, R173, R140, 0x1, RZ", "R173", "R140"),
        ("ISETP.NE.AND", "P4, PT, R84, R9, PT", "P4", "R84 R9"),
        ("SEL", "R72, R73, R221, !P5", "R72", "R73 R221 P5"),
        ("BRA", "P4, `(.L_x_47)", "", "P4"),
        ("UMOV", "UR13, 0xffffffff", "UR13", ""),
    ],
)
def test_what_an_instruction_sets_and_needs(opcode, operands, writes, reads):
    instruction = Instruction(None, opcode, operands)
    assert instruction.writes == set(writes.split())
    assert instruction.reads == set(reads.split())


def test_a_guard_is_needed():
    assert Instruction("!P4", "STS", "[R1], R2").reads == {"P4", "R1", "R2"}


def sweep_loop():
    return shortest_loop(Listing.parse(LISTING), MAXIMA, 3)


def test_the_loop_leaves_out_what_seldom_happens():
    names = [instruction.name for instruction in sweep_loop()]
    assert names.count("SHFL") == 1, "as of lanes that are together"
    assert "MOV" not in names
    assert names[0] == "LDS"
    assert names[-1] == "BRA"
    assert len(names) == 17


def test_another_loop_is_shorter_but_has_no_maxima():
    assert len(shortest_loop(Listing.parse(LISTING), MAXIMA, 0)) == 2


def test_a_wrong_number_of_maxima_in_the_loop_is_an_error():
    with pytest.raises(ValueError, match="no loop has 5 of VIADDMNMX"):
        shortest_loop(Listing.parse(LISTING), MAXIMA, 5)


def loop_of(*lines):
    return [Instruction(None, *line.split(" ", 1)) for line in lines]


def test_values_are_read_in_the_next_turn_too_until_they_are_replaced():
    loop = loop_of("IADD3 R1, R2, R3, RZ", "MOV R2, R1", "MOV R1, R5", "MOV R6, R1")
    assert consumers(loop) == [{1}, {0}, {3}, set()]


def test_what_may_not_be_executed_replaces_nothing():
    loop = [Instruction(None, "MOV", "R1, R2"), Instruction("P0", "MOV", "R1, R3")]
    loop.append(Instruction(None, "STS", "[R4], R1"))
    assert consumers(loop)[:2] == [{2}, {2}]


def test_purposes():
    found = [
        f"{instruction.name} {purpose}"
        for instruction, purpose in zip(sweep_loop(), purposes(sweep_loop()), strict=True)
    ]
    assert found == [
        "LDS edges",
        "PRMT score",
        "VIADDMNMX recurrence",
        "VIADDMNMX recurrence",
        "IMAD recurrence",
        "VIMNMX3 best",
        "BRA loop",
        "SHFL edges",
        "SEL edges",
        "PRMT edges",
        "ISETP best",
        "BRA loop",
        "STS edges",
        "IMAD copies",
        "VIADD loop",
        "ISETP loop",
        "BRA loop",
    ]


def test_a_best_value_may_be_kept_for_what_seldom_happens():
    loop = loop_of(
        "VIMNMX3.U16x2 R1, R2, R3, R4, !PT",
        "IMAD.MOV.U32 R5, RZ, RZ, R1",
        "ISETP.NE.AND P0, PT, R1, R2, PT",
    )
    assert purposes(loop) == ["best", "best", "best"]
    assert purposes([*loop, *loop_of("IADD3 R5, R5, R6, RZ", "STS [R7], R5")])[0] == "recurrence"


def test_letters_that_are_compared_are_scored():
    loop = loop_of(
        "ISETP.NE.AND P1, PT, R1, R2, PT",
        "SEL R3, R4, R5, !P1",
        "VIADDMNMX R6, R3, R7, R8, !PT",
        "IMAD.IADD R8, R6, 0x1, -R10",
        "ISETP.GE.AND P0, PT, R9, 0x20, PT",
    )
    assert purposes(loop) == ["score", "score", "recurrence", "recurrence", "loop"]


def test_every_instruction_is_issued_and_keeps_its_pipe_busy():
    loop = loop_of(
        "VIMNMX R1, R2, R3, !PT", "PRMT R1, R2, R3, R4", "IDP.4A.S8.S8 R5, R6, R7, R8", "BRA `(.L_x_0)"
    )
    assert bounds(loop) == {"issue": 4, "alu": 4, "fma": 2, "memory": 0}


def test_an_instruction_without_a_known_pipe_is_an_error():
    with pytest.raises(ValueError, match=r"no pipe is known for HADD2\.F32"):
        bounds(loop_of("HADD2.F32 R1, R2, R3"))
