"""File formats of alignments: a registry of writers, and reading and verifying PAF."""
