"""What the compiler of kernels does with numba and LLVM: functions in Python to machine code.

numba usually compiles for this processor and optimises each function by itself. Here functions are
lowered only; their LLVM code is collected in one module, and optimised and translated at the end,
by the passes that numba runs, for any target.
"""

from __future__ import annotations

from typing import Any

import numba
from llvmlite import binding
from numba import types
from numba.core import codegen
from numba.core.compiler import Flags, compile_extra
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target
from numba.core.runtime import nrtdynmod, rtsys
from numba.extending import intrinsic

from mr_dedup.kernels.targets import Target

_OPTIMIZE = 3

_EXPORTED = """
define i32 @"{symbol}"(i64 %slots) {{
  %result = alloca ptr
  %exception = alloca ptr
  store ptr null, ptr %result
  %status = call i32 @"{name}"(ptr %result, ptr %exception, i64 %slots)
  %raised = icmp ne i32 %status, 0
  %not_none = icmp ne i32 %status, -2
  %failed = and i1 %raised, %not_none
  %code = zext i1 %failed to i32
  ret i32 %code
}}
declare i32 @"{name}"(ptr, ptr, i64)
"""
"""A C function around one of numba's: 0 and -2 are its codes of results, others of exceptions."""


@intrinsic
def _pointer(typing_context: Any, address: Any) -> tuple[Any, Any]:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(types.voidptr))

    return types.voidptr(types.int64), generate


class _Library(codegen.AOTCodeLibrary):  # type: ignore[misc]
    """The code of a function, not optimised: that is done for all of them together."""

    def _optimize_functions(self, ll_module: Any) -> None:
        pass

    def _optimize_final_module(self) -> None:
        pass


class _Codegen(codegen.AOTCPUCodegen):  # type: ignore[misc]
    _library_class = _Library


class Lowering:
    """All functions that were added, as LLVM code.

    numba has one target of this processor in a process; it lowers for this object from now on, and
    can run nothing any more.
    """

    def __init__(self) -> None:
        self._context = cpu_target.target_context
        self._context.refresh()
        self._context._internal_codegen = _Codegen("mr_dedup")
        # nothing is loaded into this process; numba wants a builtin function, another for each
        self._context.get_executable = lambda library, fndesc, env: [].append
        # numba's own functions too, which it has optimised for this processor
        with global_compiler_lock:
            rtsys._library = nrtdynmod.compile_nrt_functions(self._context)
        self._module = binding.parse_assembly("")
        self._symbols: set[str] = set()

    def add(self, symbol: str, source: str, names: dict[str, Any]) -> None:
        """Lower ``wrapper`` of ``source``, a function of one int64, and export it as ``symbol``.

        ``names`` are what it calls; numba's types, ``carray`` and ``pointer`` are added.
        """
        scope = {**vars(types), "bool_": numba.types.boolean, "carray": numba.carray, **names}
        scope["pointer"] = _pointer
        exec(compile(source, f"<{symbol}>", "exec"), scope)
        flags = Flags()
        flags.nrt = flags.no_compile = True
        flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
        with global_compiler_lock:
            compiled = compile_extra(
                cpu_target.typing_context, self._context, scope["wrapper"], (types.int64,), None,
                flags, {},
            )  # fmt: skip
            module = compiled.library._get_module_for_linking()
        # the call first: what nothing calls is not linked in
        self.link(_EXPORTED.format(symbol=symbol, name=compiled.fndesc.llvm_func_name))
        self._module.link_in(module, preserve=True)
        self._symbols.add(symbol)

    def link(self, assembly: str) -> None:
        """Add functions in LLVM's language."""
        self._module.link_in(binding.parse_assembly(assembly))

    def object_code(self, target: Target) -> bytes:
        """Return the optimised code of all functions as an object file."""
        binding.initialize_all_targets()
        binding.initialize_all_asmprinters()
        module = self._module.clone()
        machine = binding.Target.from_triple(target.triple).create_target_machine(
            cpu=target.cpu, features=target.features, opt=_OPTIMIZE, reloc="pic",
            codemodel="default",
        )  # fmt: skip
        module.triple = target.triple
        module.data_layout = str(machine.target_data)
        for function in module.functions:
            if not function.is_declaration and function.name not in self._symbols:
                function.linkage = "internal"
        for variable in module.global_variables:
            # numba's environments, which only raising and printing need
            if variable.linkage not in (binding.Linkage.internal, binding.Linkage.private):
                variable.visibility = "hidden"
        self._optimize(module, machine)
        module.verify()
        code: bytes = machine.emit_object(module)
        return code

    def _optimize(self, module: Any, machine: Any) -> None:
        """Run numba's passes: a cheap one, so that references are counted and pruned, and all."""
        target_codegen = self._context._internal_codegen
        target_codegen._tm = machine
        cheap, cheap_passes = target_codegen._module_pass_manager(
            loop_vectorize=False, slp_vectorize=False, opt=0, cost="cheap"
        )
        cheap.run(module, cheap_passes)
        full, full_passes = target_codegen._module_pass_manager()
        full.run(module, full_passes)
