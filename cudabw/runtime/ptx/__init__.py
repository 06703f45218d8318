"""Kernels as PTX text: hand-written where they do something, from a template where only their parameters matter.

PTX of ``.version`` 6.4 for ``sm_50`` is loaded by every driver since 2018 and every GPU since 2014.
"""

from __future__ import annotations

import itertools
from importlib import resources
from typing import TYPE_CHECKING

from cudabw.runtime.signature import POINTER, ctype_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cudabw.runtime.signature import CType, TypeSpecification


def read(name: str) -> str:
    """The text of a file of this directory, without its ending.

    ``words`` holds ``cudabw_fill_u32`` and ``cudabw_add_u32``, each of ``(u64 dst, u32 value, u64 count)``; ``copy``
    and ``copies`` hold the kernels of those names, which copy their bytes by the same instructions (``copy_bytes``).
    """
    text = resources.files(__name__).joinpath(f"{name}.ptx").read_text("ascii")
    return text.replace("@COPY@", read("copy_bytes")) if "@COPY@" in text else text


def null_kernel(types: Iterable[TypeSpecification]) -> tuple[str, str]:
    """A kernel that takes these parameters and does nothing.

    Args:
        types: C types as a signature has them, for example ``["pointer"] * 4``.

    Returns:
        Its name, such as ``cudabw_null_u64x4``, and the text of a module that has it.
    """
    parameters = [ctype_of(ctype) for ctype in types]
    kinds = [_kind(ctype) for ctype in parameters]
    name = "_".join(["cudabw_null", *_runs(kinds)])
    declarations = (f"    .param {_declaration(ctype, f'p{index}')}" for index, ctype in enumerate(parameters))
    text = read("null").replace("@NAME@", name).replace("@PARAMETERS@", ",\n".join(declarations))
    return name, text


def _runs(kinds: Iterable[str]) -> Iterable[str]:
    for kind, run in itertools.groupby(kinds):
        count = len(list(run))
        yield kind if count == 1 else f"{kind}x{count}"


def _kind(ctype: CType) -> str:
    """A PTX type, or for what has none its size and alignment in bytes."""
    if ctype is POINTER:
        return "u64"
    family = {"bool": "u", "i": "s", "u": "u", "f": "f"}.get("bool" if ctype.name == "bool" else ctype.name[0])
    if ctype.members or family is None or ctype.name == "float16":
        return f"b{ctype.size}a{ctype.alignment}"
    return f"{family}{8 * ctype.size}"


def _declaration(ctype: CType, name: str) -> str:
    kind = _kind(ctype)
    return f".align {ctype.alignment} .b8 {name}[{ctype.size}]" if "a" in kind else f".{kind} {name}"
