"""Keep renamed keywords working for one version."""

import inspect
import warnings
from collections.abc import Callable
from dataclasses import is_dataclass, replace
from functools import wraps
from typing import Any

from udtw.errors import OptionError

REMOVED_IN = "0.4"
"""Version in which the old keywords of 0.3 stop working."""


def renamed_options(**new_names: str) -> Callable[[Callable], Callable]:
    """Accept old keywords of a function or method with a `FutureWarning`.

    ``new_names`` maps an old keyword to the new one, or to ``"group.key"`` for a keyword that moved into an option that
    holds a dictionary or a settings dataclass.

    >>> import warnings
    >>> @renamed_options(iterations="max_iter", gamma="metric_params.gamma")
    ... def fit(max_iter=10, metric_params=None):
    ...     return max_iter, metric_params
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     fit(iterations=3, gamma=0.1)
    (3, {'gamma': 0.1})
    >>> str(caught[0].message)
    "fit(): 'iterations' was renamed to 'max_iter' and will be removed in version 0.4."
    """

    def decorate(function: Callable) -> Callable:
        signature = inspect.signature(function)
        name = function.__qualname__.removesuffix(".__init__")

        @wraps(function)
        def wrapped(*args: Any, **options: Any) -> Any:
            for old in [one for one in options if one in new_names]:
                group, _, key = new_names[old].partition(".")
                told = f"{group}={{{key!r}: …}}" if key and not _is_settings(signature, group) else new_names[old]
                warnings.warn(
                    f"{name}(): {old!r} was renamed to {told!r} and will be removed in version {REMOVED_IN}.",
                    FutureWarning,
                    stacklevel=2,
                )
                value = options.pop(old)
                if key:
                    value = _with_key(options.get(group, signature.parameters[group].default), key, value)
                elif group in options:
                    raise OptionError(f"{name}() got both {old!r} and {group!r}, its new name. Pass only {group!r}.")
                options[group] = value
            return function(*args, **options)

        return wrapped

    return decorate


def _is_settings(signature: inspect.Signature, group: str) -> bool:
    return is_dataclass(signature.parameters[group].default)


def _with_key(group: Any, key: str, value: Any) -> Any:
    """Return the settings or dictionary ``group`` with ``key`` set."""
    if is_dataclass(group) and not isinstance(group, type):
        return replace(group, **{key: value})
    return {**(group or {}), key: value}
