"""Vienna 4x22: pairs of piano performances with the true partner of every note.

Four excerpts, each played by 22 pianists on a computer-controlled piano; every performed note is matched with its note
of the score, so two performances are matched with one another. Read from ``alignments/vienna4x22/match.zip`` of the
data folder (match files of version 1.0.0).
"""

import functools
import os
import re
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from experiments.alignments.pairs import Pair
from udtw._io.zip_members import ArchiveError, open_zip, read_member
from udtw.data.folder import data_root
from udtw.errors import DataError, OptionError

PIECES = ("Chopin_op10_no3", "Chopin_op38", "Mozart_K331_1st-mov", "Schubert_D783_no15")
PIANISTS = range(1, 23)
RATES = (8, 24, 50)
FEATURES = ("chroma", "loudness")
DECAY, RELEASE = 1.0, 0.1
"""Seconds in which the energy of a held and of a released note falls by the factor e."""
FLOOR = 0.05
"""Frames below this share of the median energy have less chroma, and the loudness of silence."""
MEMBER = 4 << 20
"""Most bytes of a match file."""

SCORE_NOTE = re.compile(
    r"snote\((?P<id>[^,]+),\[[A-Gr],[^\]]*\],-?\d+,[^,]+,[^,]+,[^,]+,(?P<onset>-?[\d.]+),-?[\d.]+,\[[^\]]*\]\)-(?P<played>.+)"
)
PLAYED_NOTE = re.compile(r"note\([^,]+,(?P<pitch>\d+),(?P<onset>\d+),(?P<offset>\d+),(?P<velocity>\d+),\d+,\d+\)\.")
INFO = re.compile(r"info\((?P<name>\w+),(?P<value>.*)\)\.")
IGNORED = ("scoreprop(", "sustain(", "soft(", "section(")


@dataclass(frozen=True)
class Performance:
    """Notes in the order of the file: pitch, velocity, and seconds of onset and release."""

    pitch: NDArray
    velocity: NDArray
    onset: NDArray
    release: NDArray
    matched: dict[str, tuple[float, int]]
    """Id of the score note to its onset in beats and the place of the performed note."""


def parse_match(text: str, name: str = "match file") -> Performance:
    """Read the notes of a match file; deletions have no performed note, insertions no score note."""
    info: dict[str, str] = {}
    notes: list[tuple[int, int, int, int]] = []
    matched: dict[str, tuple[float, int]] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith(IGNORED):
            continue
        if found := INFO.fullmatch(line):
            info[found["name"]] = found["value"]
            continue
        score = SCORE_NOTE.fullmatch(line)
        played = score["played"] if score else line.removeprefix("insertion-")
        if score and played == "deletion.":
            continue
        note = PLAYED_NOTE.fullmatch(played)
        if note is None or (score is None and not line.startswith("insertion-")):
            raise DataError(f"{name}, line {number}, is not a line of a match file of version 1.0.0: {line[:80]!r}.")
        if score:
            if score["id"] in matched:
                raise DataError(f"{name}, line {number}: score note {score['id']} is matched twice.")
            matched[score["id"]] = float(score["onset"]), len(notes)
        notes.append((int(note["pitch"]), int(note["velocity"]), int(note["onset"]), int(note["offset"])))
    if not notes or not {"midiClockRate", "midiClockUnits"} <= info.keys():
        raise DataError(f"{name} has no performed notes, or no info lines midiClockRate and midiClockUnits.")
    pitch, velocity, onset, release = np.array(notes).T
    tick = float(info["midiClockRate"]) / 1e6 / float(info["midiClockUnits"])
    return Performance(pitch, velocity / 127, onset * tick, np.maximum(release, onset + 1) * tick, matched)


def archive(data_dir: str | os.PathLike | None) -> Path:
    """Return the path of match.zip, in the data folder or in ``alignments/vienna4x22`` of it."""
    root = data_root(data_dir)
    for path in (root / "alignments" / "vienna4x22" / "match.zip", root / "match.zip"):
        if path.is_file():
            return path
    raise DataError(f"{root} has neither alignments/vienna4x22/match.zip nor match.zip (Vienna 4x22).")


def load_performance(piece: str, pianist: int, data_dir: str | os.PathLike | None = None) -> Performance:
    """Read the performance of an excerpt by pianist 1 to 22."""
    if piece not in PIECES or pianist not in PIANISTS:
        raise OptionError(f"piece must be one of {', '.join(PIECES)}, pianist 1 to 22; got {piece!r} and {pianist!r}.")
    path = archive(data_dir)
    return _load(str(path), path.stat().st_mtime_ns, f"{piece}_p{pianist:02d}.match")


@functools.lru_cache(maxsize=88)
def _load(path: str, _modified: int, member: str) -> Performance:
    try:
        with open_zip(Path(path).read_bytes()) as files:
            inside = [one for one in files.namelist() if one.rsplit("/", 1)[-1] == member]
            if len(inside) != 1:
                raise DataError(f"{path} holds {len(inside)} files {member}; expected one.")
            return parse_match(read_member(files, inside[0], MEMBER).decode(), member)
    except (ArchiveError, UnicodeDecodeError, zipfile.BadZipFile) as error:
        raise DataError(f"{path} is damaged: {error}.") from error


def frame_energy(notes: Performance, rate: float) -> NDArray:
    """Return the energy (T, 12) of each pitch class in each frame; frame i is centered at i / rate seconds.

    Time starts at the first onset and ends with the last release. The energy of a note starts at its squared velocity,
    falls with `DECAY` while the key is held and with `RELEASE` afterwards, and is averaged over the frame.
    """
    begin = notes.onset.min()
    n_frames = int(np.floor((notes.release.max() - begin) * rate)) + 1
    energy = np.zeros((n_frames, 12))
    edges = (np.arange(n_frames + 1) - 0.5) / rate
    for pitch, velocity, on, off in zip(
        notes.pitch, notes.velocity, notes.onset - begin, notes.release - begin, strict=True
    ):
        first = max(0, int(np.floor(on * rate + 0.5)))
        last = min(n_frames, int(np.ceil((off + 8 * RELEASE) * rate + 0.5)))
        held, after = np.clip(edges[first : last + 1], on, off) - on, np.maximum(edges[first : last + 1] - off, 0.0)
        done = DECAY * -np.expm1(-held / DECAY) + RELEASE * np.exp(-(off - on) / DECAY) * -np.expm1(-after / RELEASE)
        energy[first:last, pitch % 12] += velocity**2 * rate * np.diff(done)
    return energy


def features(notes: Performance, rate: float, feature: str = "chroma") -> NDArray:
    """Return the chroma (T, 12), of unit length where there is sound, or the loudness (T,) in decibels."""
    if feature not in FEATURES:
        raise OptionError(f"feature must be one of {', '.join(FEATURES)}; got {feature!r}.")
    energy = frame_energy(notes, rate)
    if feature == "chroma":
        chroma = np.sqrt(energy)
        size = np.linalg.norm(chroma, axis=1, keepdims=True)
        return chroma / np.sqrt(size**2 + (FLOOR * np.median(size)) ** 2)
    total = energy.sum(1)
    return 10 * np.log10(total + FLOOR**2 * np.median(total))


def true_positions(x: Performance, y: Performance, rate: float) -> NDArray:
    """Return the true position in y of the frames of x at note onsets (``T_x``,); NaN for all other frames.

    Score notes that both played are grouped by their onset in the score; a chord stands at the mean of its onsets.
    Between them time is interpolated linearly; chords that are not later than those before them are left out.
    """
    chords: dict[float, list[tuple[float, float]]] = {}
    for note in x.matched.keys() & y.matched.keys():
        beat, place = x.matched[note]
        chords.setdefault(beat, []).append((x.onset[place], y.onset[y.matched[note][1]]))
    times = np.array([np.mean(chords[beat], axis=0) for beat in sorted(chords)]).reshape(-1, 2)
    highest = np.vstack([np.full(2, -np.inf), np.maximum.accumulate(times)[:-1]])
    at_x, at_y = rate * (times[(times > highest).all(1)] - [x.onset.min(), y.onset.min()]).T
    truth = np.full(int(np.floor((x.release.max() - x.onset.min()) * rate)) + 1, np.nan)
    frames = np.unique(np.round(at_x).astype(int))
    frames = frames[(frames >= at_x[0]) & (frames <= at_x[-1])]  # no truth before the first or after the last chord
    truth[frames] = np.interp(frames, at_x, at_y)
    return truth


def pair(
    piece: str, pianists: tuple[int, int], rate: float = 24, feature: str = "chroma",
    data_dir: str | os.PathLike | None = None,
) -> Pair:  # fmt: skip
    """Return two performances of an excerpt; errors are in milliseconds."""
    x, y = (load_performance(piece, pianist, data_dir) for pianist in pianists)
    name = f"{piece} p{pianists[0]:02d} p{pianists[1]:02d}"
    return Pair(name, features(x, rate, feature), features(y, rate, feature), true_positions(x, y, rate), 1000 / rate)


def draw_pairs(
    count: int, rate: float = 24, feature: str = "chroma", seed: int = 0, data_dir: str | os.PathLike | None = None
) -> list[Pair]:
    """Return pairs of pianists drawn without regard to order, equally many of each excerpt (in turn)."""
    rng = np.random.default_rng([seed, 4, 22])
    chosen = [(PIECES[i % len(PIECES)], *rng.choice(np.array(PIANISTS), 2, replace=False)) for i in range(count)]
    return [pair(piece, (int(a), int(b)), rate, feature, data_dir) for piece, a, b in chosen]
