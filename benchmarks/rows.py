"""One line of the table: what was asked, what was found, and whether it was met."""

from dataclasses import dataclass

from benchmarks.timing import Timing


@dataclass(frozen=True)
class Comparison:
    """Ours and a peer's time for the same work."""

    work: str
    ours: Timing
    peer: Timing
    peer_name: str
    bound: float | None

    def _cells(self, *texts: str) -> list[str]:
        return [self.work, duration(self.ours.median), duration(self.peer.median), self.peer_name, *texts]


@dataclass(frozen=True)
class Faster(Comparison):
    """Ours must be ``bound`` times faster than the peer; None: shown without a requirement."""

    @property
    def ratio(self) -> float:
        return self.peer.median / self.ours.median

    @property
    def best_ratio(self) -> float | None:
        return self.peer.best / self.ours.best

    @property
    def met(self) -> bool:
        return self.bound is None or self.ratio >= self.bound

    def cells(self) -> list[str]:
        required = "" if self.bound is None else f"≥ {self.bound:g}×"
        return self._cells(f"{self.ratio:.1f}×", f"{self.best_ratio:.1f}×", required)


@dataclass(frozen=True)
class AtMostTimes(Comparison):
    """Return the used share of the allowance."""

    bound: float

    @property
    def ratio(self) -> float:
        return self.ours.median / self.peer.median

    @property
    def best_ratio(self) -> float | None:
        return self.ours.best / self.peer.best

    @property
    def met(self) -> bool:
        return self.ratio <= self.bound

    def cells(self) -> list[str]:
        return self._cells(f"{self.ratio:.2f}× its time", f"{self.best_ratio:.2f}×", f"≤ {self.bound:g}× its time")


@dataclass(frozen=True)
class Below:
    """A quantity of ours must stay below ``bound``."""

    work: str
    value: float
    unit: str
    bound: float

    @property
    def ratio(self) -> float:
        """The share of the allowance that is used."""
        return self.value / self.bound

    @property
    def best_ratio(self) -> float | None:
        return None

    @property
    def met(self) -> bool:
        return self.value < self.bound

    def cells(self) -> list[str]:
        return [self.work, f"{self.value:.3g} {self.unit}", "", "", "", "", f"< {self.bound:g} {self.unit}"]


Row = Faster | AtMostTimes | Below

HEADINGS = ["work", "ours", "peer", "peer's name", "ratio", "ratio of bests", "required", "met?"]


def duration(seconds: float) -> str:
    """Format a duration readably: 12.3 ms, 1.23 s."""
    for size, unit in ((1, "s"), (1e-3, "ms")):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} µs"


def cells(row: Row) -> list[str]:
    """Return the row's cells under `HEADINGS`."""
    return [*row.cells(), "" if row.bound is None else "yes" if row.met else "no"]
