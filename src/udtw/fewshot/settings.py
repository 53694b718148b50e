"""Settings of a model in one place, as JSON can hold them."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

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
        known = {field.name for field in fields(cls)}
        unknown = sorted(set(settings) - known)
        if unknown:
            raise OptionError(f"A recipe has no setting {', '.join(unknown)}; it has {', '.join(sorted(known))}.")
        return cls(**settings)
