"""The kernels: the sweep, start states, the traceback, linear edges, and which blocks of lines were swept."""
