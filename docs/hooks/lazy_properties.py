"""Show what `udtw._engine.lazy.lazy` decorates as a property (Griffe extension)."""

from typing import Any

from griffe import Attribute, Extension, Function


class LazyProperties(Extension):
    def on_function_instance(self, *, func: Function, **_: Any) -> None:
        if func.parent is None or not any(str(decorator.value) == "lazy" for decorator in func.decorators):
            return
        shown = Attribute(func.name, lineno=func.lineno, endlineno=func.endlineno, docstring=func.docstring)
        shown.labels |= {"property"}
        func.parent.set_member(func.name, shown)
