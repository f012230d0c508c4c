"""Which kernel sweeps a work list, and which rectangles may use packed 16-bit numbers."""
