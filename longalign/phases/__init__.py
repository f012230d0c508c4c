"""The three phases: score with boundaries, stitch, recompute."""
