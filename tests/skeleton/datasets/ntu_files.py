"""Files in the format of NTU RGB+D, valid and mutated."""

import random

import numpy as np

HEADER = "{} 0 1 1 1 1 0 0.02764709 0.05745083 2"


def standing(n_frames, seed=0, *, moves=0.1, at=(0.0, 0.0, 3.0)):
    """(T, 25, 3): taller than wide, moving about."""
    rng = np.random.default_rng(seed)
    body = rng.uniform([-0.25, -0.9, -0.2], [0.25, 0.9, 0.2], (25, 3))
    return (body + at + moves * rng.standard_normal((n_frames, 25, 3))).round(5)


def lying(n_frames, seed=0):
    """A ghost: wider than high."""
    return standing(n_frames, seed)[..., [1, 0, 2]]


def ntu_text(n_frames, bodies):
    """``bodies``: {id: {frame: (25, 3)}}."""
    lines = [str(n_frames)]
    for frame in range(n_frames):
        here = {name: joints[frame] for name, joints in bodies.items() if frame in joints}
        lines.append(str(len(here)))
        for name, joints in here.items():
            lines += [HEADER.format(name), "25"]
            lines += [
                " ".join(map(repr, joint.tolist())) + " 277.4 191.8 1036.2 519.1 -0.2 0.05 0.9 -0.1 2"
                for joint in joints
            ]
    return "\n".join(lines) + "\n"


def seen(joints, start=0):
    return {start + i: frame for i, frame in enumerate(joints)}


def small_files():
    return [
        ntu_text(3, {"7205759403793110": seen(standing(3))}).encode(),
        ntu_text(14, {"1": seen(standing(14)), "2": seen(standing(13, 1), 1)}).encode(),
        ntu_text(13, {"1": seen(standing(13)), "2": seen(lying(13)), "3": seen(standing(2), 4)}).encode(),
        ntu_text(2, {}).encode(),
    ]


ODD = [
    b"", b"-1", b"0", b"1", b"2", b"6", b"7", b"24", b"26", b"999999999", b"99999999999999999999", b"9" * 5000,
    b"1e9", b"nan", b"inf", b"-inf", b"NaN", b"1e400", b"-1e39", b"\xff\xfe", b"0x10", b"1_0", b"1.5", b"--", b"\x00",
    "٣".encode(),
]  # fmt: skip


def mutate(content: bytes, rng: random.Random) -> bytes:
    """One to three random damages."""
    for _ in range(rng.randint(1, 3)):
        content = rng.choice(DAMAGES)(content, rng)
    return content


def _flip(content, rng):
    damaged = bytearray(content)
    for _ in range(rng.randint(1, 5) if damaged else 0):
        damaged[rng.randrange(len(damaged))] = rng.randrange(256)
    return bytes(damaged)


def _cut(content, rng):
    return content[: rng.randrange(len(content) + 1)]


def _change_lines(change):
    def damage(content, rng):
        lines = content.split(b"\n")
        # Half of the time near the beginning, where the counts are.
        at = rng.randrange(min(len(lines), rng.choice([5, len(lines)])))
        change(lines, at, rng)
        return b"\n".join(lines)

    return damage


def _replace_token(lines, at, rng):
    tokens = lines[at].split(b" ")
    tokens[rng.randrange(min(len(tokens), 4))] = rng.choice(ODD)
    lines[at] = b" ".join(tokens)


DAMAGES = [
    _flip,
    _cut,
    _change_lines(lambda lines, at, rng: lines.pop(at)),
    _change_lines(lambda lines, at, rng: lines.insert(at, lines[at])),
    _change_lines(lambda lines, at, rng: lines.insert(at, rng.choice(ODD))),
    _change_lines(lambda lines, at, rng: lines.__setitem__(at, rng.choice(ODD))),
    _change_lines(lambda lines, at, rng: lines.__setitem__(slice(at, at + 27), [])),
    _change_lines(lambda lines, at, rng: lines.__setitem__(slice(at, at), lines[at : at + 27])),
    _change_lines(lambda lines, at, rng: lines.insert(rng.randrange(len(lines)), lines.pop(at))),
    _change_lines(_replace_token),
    _change_lines(_replace_token),
    lambda content, rng: content.replace(b"\n", rng.choice([b"\r\n", b"\r", b" ", b"\n\n"])),
    lambda content, rng: content.replace(b" ", rng.choice([b"\t", b"  ", b",", b""])),
    lambda content, rng: content + content,
    lambda content, rng: b"",
    lambda content, rng: rng.randbytes(rng.randrange(300)),
]
