"""Numba's compiler, made to do only what kernels need, for the sake of the first start on a machine.

A sweep is some hundred device functions, and nearly all of the time until they run is Numba's own. Much of it
goes into passes for what no kernel here does (closures, `with` blocks, `literally`, functions inlined before
types are known), into lists of variables that only generators need, and into what was worked out before: the
signature of the same call or operator, registries in which nothing is new, a module of code for each way in
which a kernel comes to call it. Without all this the same PTX comes out in two thirds of the time.

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

from numba.cuda import codegen, compiler, types
from numba.cuda.core import postproc
from numba.cuda.core.base import BaseContext as TargetContext
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
from numba.cuda.typing.context import BaseContext as TypingContext

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
    typing, function, library = cuda_target.typing_context, types.BaseFunction, codegen.CUDACodeLibrary
    with global_compiler_lock, ExitStack() as parts:
        for owner, name, value in (
            (compiler, "CUDACompiler", _Compiler),
            (compiler, "CUDAFlags", CUDAFlags),
            (postproc, "PostProcessor", _PostProcessor),
            (typing, "resolve_function_type", _remembering(typing.resolve_function_type)),
            (function, "get_call_type", _remembering(function.get_call_type)),
            (TypingContext, "refresh", _sparing(TypingContext.refresh)),
            (TargetContext, "refresh", _sparing(TargetContext.refresh)),
            (library, "modules", _without_repeats(library.modules)),
        ):
            parts.enter_context(_exchanged(owner, name, value))
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
        elif name in vars(owner):
            delattr(owner, name)


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
    """The same, but the signature of a function called with the same types is worked out once.

    Numba asks twice: as it finds types, and as it lowers what is called.
    """
    known: dict[tuple[Any, ...], Any] = {}

    def remembered(function: Any, *others: Any) -> Any:
        *typing, arguments, keywords = others
        if keywords or not isinstance(function, types.Type):  # others may be given a value, as an index
            return resolve(function, *others)
        key = function, *typing, *arguments
        if key not in known:
            known[key] = resolve(function, *others)
        return known[key]

    return remembered


def _sparing(refresh: Callable[[Any], None]) -> Callable[[Any], None]:
    """Reads a context's registries again only if there is more in them than when it last did.

    Numba does so at each look-up that fails, as those of operators with a constant do.
    """
    seen: dict[int, tuple[list[Any], int]] = {}

    def refresh_if_need_be(context: Any) -> None:
        registries = context._registries
        parts, count = seen.get(id(registries), ([], -1))
        if count != sum(map(len, parts)):
            refresh(context)
            parts = [part for each in registries for part in vars(each).values() if isinstance(part, list)]
            seen[id(registries)] = parts, sum(map(len, parts))
        elif hasattr(context, "typing_context"):
            context.typing_context.refresh()

    return refresh_if_need_be


def _without_repeats(modules: Any) -> property:
    """A library's modules; Numba lists one as often as there are ways to it through other libraries."""
    return property(lambda library: list(dict.fromkeys(modules.fget(library))))
