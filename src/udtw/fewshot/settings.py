"""Settings of a model in one place, as JSON can hold them."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Self, get_type_hints

from udtw.errors import OptionError


@dataclass(frozen=True)
class Settings:
    """Base of frozen dataclasses of plain values: to a dict and back, unknown names refused."""

    def check_choice(self, name: str, choices: tuple[str, ...]) -> None:
        if getattr(self, name) not in choices:
            raise OptionError(f"{name} must be one of {choices}; got {getattr(self, name)!r}.")

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, settings: Mapping[str, Any]) -> Self:
        """The inverse of `as_dict`; what is absent has its default."""
        if not isinstance(settings, Mapping):
            raise OptionError(f"Settings must be a dictionary; got {settings!r:.60}.")
        known = {field.name for field in fields(cls)}
        unknown = sorted(set(settings) - known)
        if unknown:
            raise OptionError(f"A recipe has no setting {', '.join(unknown)}; it has {', '.join(sorted(known))}.")
        types = get_type_hints(cls)
        for name, value in settings.items():
            allowed = types[name] | int if types[name] is float else types[name]
            if not isinstance(value, allowed) or (isinstance(value, bool) and types[name] is not bool):
                raise OptionError(
                    f"{name} must be of type {getattr(types[name], '__name__', types[name])}; got {value!r}."
                )
        return cls(**settings)
