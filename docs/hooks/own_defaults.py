"""Show each parameter with its own default (Griffe extension).

Griffe gives parameters that share a line of the docstring ("beta, lam : float") the default of the first.
"""

from typing import Any

from griffe import Class, DocstringSectionKind, Extension, Function, Module, Object


class OwnDefaults(Extension):
    def on_package(self, *, pkg: Module, **_: Any) -> None:
        _correct(pkg)


def _correct(item: Object) -> None:
    for member in item.members.values():
        if not member.is_alias and isinstance(member, Module | Class | Function):
            _correct(member)
    if not isinstance(item, Class | Function) or item.docstring is None:
        return
    for section in item.docstring.parsed:
        if section.kind is DocstringSectionKind.parameters:
            for shown in section.value:
                if shown.name in item.parameters:
                    shown.value = item.parameters[shown.name].default
