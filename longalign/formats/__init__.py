"""What alignments look like in files: written, read back, and verified."""
