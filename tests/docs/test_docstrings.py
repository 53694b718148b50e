"""Every public function and class shows its use in its docstring, and the examples print what they say."""

import doctest
import importlib
import inspect
import pkgutil

import pytest

import udtw

OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
COMMAND_LINE = ("udtw.cli",)
"""Not a Python interface: it is run from a terminal, and `test_code_blocks` runs the commands of its pages."""


def public_modules():
    """``udtw``, its modules, and all packages below it, if they have an ``__all__``."""
    yield udtw
    for info in pkgutil.walk_packages(udtw.__path__, "udtw."):
        if (info.ispkg or info.name.count(".") == 1) and info.name not in COMMAND_LINE:
            module = importlib.import_module(info.name)
            if hasattr(module, "__all__"):
                yield module


def needs_example(found):
    """Functions and classes do. Constants, modules, type aliases, exceptions and protocols do not."""
    if inspect.isclass(found):
        return not issubclass(found, BaseException) and not getattr(found, "_is_protocol", False)
    return inspect.isroutine(found)


def public_names():
    """One parameter for each object, under the shortest of its public names."""
    names = {}
    for module in public_modules():
        for name in module.__all__:
            found = getattr(module, name)
            if needs_example(found):
                names.setdefault(id(found), (f"{module.__name__}.{name}", found))
    return [pytest.param(name, found, id=name) for name, found in names.values()]


@pytest.mark.parametrize(("name", "found"), public_names())
def test_examples_of_the_docstring(name, found, tmp_path, monkeypatch):
    """The examples import what they use; those of a class may stand in the docstrings of its methods."""
    monkeypatch.chdir(tmp_path)
    tests = [test for test in doctest.DocTestFinder().find(found, name, globs={}) if test.examples]
    assert tests, f"{name} has no example (>>>) in its docstring"
    printed = []
    runner = doctest.DocTestRunner(optionflags=OPTIONS, verbose=False)
    for test in tests:
        runner.run(test, out=printed.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(printed)
