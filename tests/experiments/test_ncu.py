"""How `experiments/cuda_ncu.py` reads what Nsight Compute prints."""

from __future__ import annotations

from cuda_ncu import read


def test_counters_are_read_from_what_the_profiler_prints():
    printed = """==PROF== Connected
"ID","Kernel Name","Section Name","Metric Name","Metric Unit","Metric Value"
"0","sweep","Warp State Statistics","Warp Cycles Per Issued Instruction","cycle","3.21"
"0","sweep","Warp State Statistics","Rule text","",""
"0","sweep","Occupancy","","",""
"""
    counters = read(printed)
    assert counters["Warp State Statistics"]["Warp Cycles Per Issued Instruction"] == "3.21 cycle"
    assert "Occupancy" not in counters


def test_there_are_no_counters_in_an_error():
    assert read("==ERROR== The user does not have permission") == {}
