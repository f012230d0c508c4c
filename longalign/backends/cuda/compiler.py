"""Numba's compiler, made to do only what kernels need, for the sake of the first start on a machine.

A sweep is some hundred device functions, and nearly all of the time until they run is Numba's own. Much of it
goes into passes for what no kernel here does (closures, `with` blocks, `literally`, functions inlined before
types are known), types of calls that were worked out before, and lists of variables that generators need.
Without these the same PTX comes out in less than three quarters of the time.

One more thing could go: where a variable's life ends, Numba sets it to zero, lest references to it be counted
down twice, and nothing here counts them. Without these zeros compilation takes a tenth less, but instructions
come in another order, in which the sweep of a long pair takes 2.5 % longer. So they stay.

Numba-CUDA lets a kernel choose none of this, and device functions neither. So where it looks its parts up,
others lie while a kernel is compiled, and nobody else compiles meanwhile: Numba's own lock is held.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from numba.cuda import compiler, types
from numba.cuda.core import postproc
from numba.cuda.core.compiler_lock import global_compiler_lock
from numba.cuda.core.compiler_machinery import PassManager
from numba.cuda.core.transforms import canonicalize_cfg
from numba.cuda.core.typed_passes import IRLegalization, NopythonTypeInference, PreLowerStripPhis
from numba.cuda.core.untyped_passes import (
    DeadBranchPrune,
    FixupArgs,
    GenericRewrites,
    IRProcessing,
    LiteralPropagationSubPipelinePass,
    ReconstructSSA,
    RewriteSemanticConstants,
)
from numba.cuda.descriptor import cuda_target

#: Numba's, in Numba's order.
_PASSES = (
    compiler.CUDATranslateBytecode,
    FixupArgs,
    IRProcessing,
    RewriteSemanticConstants,
    DeadBranchPrune,
    GenericRewrites,
    DeadBranchPrune,
    ReconstructSSA,
    DeadBranchPrune,
    LiteralPropagationSubPipelinePass,
    NopythonTypeInference,
    PreLowerStripPhis,
    IRLegalization,
    compiler.CreateLibrary,
    compiler.CUDANativeLowering,
    compiler.CUDABackend,
)


@contextmanager
def short_compiler() -> Iterator[None]:
    """Have Numba compile what it is asked for meanwhile, and all that this calls, the short way."""
    typing = cuda_target.typing_context
    with global_compiler_lock, ExitStack() as parts:
        parts.enter_context(_exchanged(compiler, "CUDACompiler", _Compiler))
        parts.enter_context(_exchanged(compiler, "CUDAFlags", CUDAFlags))
        parts.enter_context(_exchanged(postproc, "PostProcessor", _PostProcessor))
        resolve = _remembering(typing.resolve_function_type)
        parts.enter_context(_exchanged(typing, "resolve_function_type", resolve))
        yield


@contextmanager
def _exchanged(owner: Any, name: str, value: Any) -> Iterator[None]:
    is_own, before = name in vars(owner), getattr(owner, name)  # what its class has, it keeps no copy of
    try:
        setattr(owner, name, value)
        yield
    finally:
        if is_own:
            setattr(owner, name, before)
        else:
            vars(owner).pop(name, None)


class _Compiler(compiler.CUDACompiler):
    """Leaves out passes that change no function here."""

    def define_pipelines(self) -> list[Any]:
        passes = PassManager("longalign")
        for each in _PASSES:
            passes.add_pass(each)
        passes.finalize()
        return [passes]


class CUDAFlags(compiler.CUDAFlags):
    """Options of a function, of which only those that were set are compared, in every look-up of a function.

    Numba compares all there are. The name of this class goes into the names of functions, so it is Numba's.
    """

    def values(self) -> dict[str, Any]:
        return dict(self._values)


class _PostProcessor(postproc.PostProcessor):
    """Does not list the variables alive at the start of every block: only generators ask for them."""

    def run(self, emit_dels: bool = False, extend_lifetimes: bool = False) -> None:
        self.func_ir.blocks = canonicalize_cfg(self.func_ir.blocks)
        self.func_ir.variable_lifetime = postproc.VariableLifetime(self.func_ir.blocks)
        self.func_ir.generator_info = None
        if emit_dels:
            self._insert_var_dels(extend_lifetimes=extend_lifetimes)


def _remembering(resolve: Callable[..., Any]) -> Callable[..., Any]:
    """The same, but the signature of a function called with the same types is worked out once."""
    known: dict[tuple[Any, ...], Any] = {}

    def resolve_function_type(function: Any, arguments: Any, keywords: Any) -> Any:
        if keywords or not isinstance(function, types.Type):  # others may be given a value, as an index
            return resolve(function, arguments, keywords)
        key = function, *arguments
        if key not in known:
            known[key] = resolve(function, arguments, keywords)
        return known[key]

    return resolve_function_type
