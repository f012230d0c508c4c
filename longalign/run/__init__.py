"""One run: what is asked for, how the matrix is cut, and the phases in their order."""
