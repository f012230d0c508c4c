"""The four kernels: the sweep, start states, the traceback, and filling edges.

**Tried in the sweep kernel.** These changes were measured on an NVIDIA H200 in November 2026. Each gained
nothing or lost, and was left out:

- an extra row block above a strip's first one, to load its code before the neighbour's edge arrives;
- a second warp that carries edges from strip to strip;
- row blocks of 32 or 128 rows; loops of 2 or 8 rows;
- 4 or 6 columns a part for short matrices;
- passing a row's edge on before the next row is swept, where parts have more than 5 columns;
- opening F from H without F in wide parts, or reading edges late there;
- rebasing only where the base moves;
- fewer registers, to have more warps resident;
- votes and hints that make branches uniform;
- storing requested rows from each lane when it meets them, behind a branch, or all at once at the end of a
  step;
- storing the edge for the next strip before the next block's edge is requested, and requesting that edge 4,
  12 or 16 rows before it is needed instead of 8;
- searching for the best cell in every row;
- more than four threads that pack boundaries on the host: they wait for one another.
"""
