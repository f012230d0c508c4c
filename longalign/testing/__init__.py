"""For tests: the reference implementation, hypothesis strategies, and conformance suites for back ends."""
