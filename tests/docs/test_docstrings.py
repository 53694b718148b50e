"""Every public function and class shows its use in its docstring, and the examples print what they say."""

import doctest
import importlib.util
import inspect
import pkgutil
from pathlib import Path

import pytest

import udtw

OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
COMMAND_LINE = ("udtw.cli",)
"""Not a Python interface: it is run from a terminal, and `test_code_blocks` runs the commands of its pages."""


def packages():
    """``udtw`` and all packages below it."""
    yield udtw
    for info in pkgutil.walk_packages(udtw.__path__, "udtw."):
        if info.ispkg and info.name not in COMMAND_LINE:
            yield importlib.import_module(info.name)


def internal_modules():
    """Names of the modules with examples that no package gathers; those of `udtw.interop` need other libraries."""
    for info in pkgutil.walk_packages(udtw.__path__, "udtw."):
        source = importlib.util.find_spec(info.name).origin
        if not info.ispkg and not info.name.startswith("udtw.interop.") and ">>>" in Path(source).read_text("utf-8"):
            yield info.name


def needs_example(thing):
    """Functions and classes of udtw do. Constants, modules, type aliases, exceptions and protocols do not."""
    if not getattr(thing, "__module__", "").startswith("udtw."):
        return False
    if inspect.isclass(thing):
        return not issubclass(thing, BaseException) and not getattr(thing, "_is_protocol", False)
    return inspect.isroutine(thing)


def public_names():
    """One parameter for each object that a package gathers, listed in ``__all__`` or not, under its shortest name."""
    names = {}
    for package in packages():
        for name, thing in sorted(vars(package).items()):
            if needs_example(thing) and not name.startswith("_"):
                names.setdefault(id(thing), (f"{package.__name__}.{name}", thing))
    return [pytest.param(name, thing, id=name) for name, thing in names.values()]


@pytest.mark.parametrize(("name", "thing"), public_names())
def test_examples_of_the_docstring(name, thing, tmp_path, monkeypatch):
    """The examples import what they use; those of a class may stand in the docstrings of its methods."""
    monkeypatch.chdir(tmp_path)
    tests = [test for test in doctest.DocTestFinder().find(thing, name, globs={}) if test.examples]
    assert tests, f"{name} has no example (>>>) in its docstring"
    run(tests)


@pytest.mark.parametrize("name", list(internal_modules()))
def test_examples_of_names_that_no_package_gathers(name, tmp_path, monkeypatch):
    """They use the names of their module."""
    monkeypatch.chdir(tmp_path)
    gathered = {f"{thing.__module__}.{thing.__qualname__}" for _, thing in (one.values for one in public_names())}
    found = doctest.DocTestFinder().find(importlib.import_module(name), name)
    own = (test.name.removeprefix(f"{name}.").partition(".")[0] for test in found)
    run([test for test, first in zip(found, own, strict=True) if f"{name}.{first}" not in gathered])


def run(tests):
    printed = []
    runner = doctest.DocTestRunner(optionflags=OPTIONS, verbose=False)
    for test in tests:
        runner.run(test, out=printed.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(printed)
