"""Damage done to bytes: flipped bits, lost and repeated pieces, numbers that are none, values of another kind.

Every mutator takes the content and a `random.Random` and gives other content; `mutated` applies a few of them.
"""

import json
import random
import re
from collections.abc import Callable
from typing import Any

Mutator = Callable[[bytes, random.Random], bytes]

NUMBER = re.compile(rb"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
TOKEN = re.compile(rb"[^\s,:;]+")
HOSTILE_NUMBERS = (
    b"nan", b"NaN", b"inf", b"-inf", b"-Infinity", b"1e999", b"-1e999", b"1e308", b"1e-320", b"0", b"-0", b"-1", b"2",
    b"99999999999", b"-99999999999", b"4294967296", b"9223372036854775808", b"18446744073709551616",
    b"1" + b"0" * 400, b"9" * 5000, b"0x10", b"1_000", b"1.5", b"", b"?", "٣".encode(), b"\x00",
)  # fmt: skip
HOSTILE_TEXT = (
    b"", b"\n", b"\r\n", b"\t", b",", b";", b":", b'"', b"\\", b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b"\xe2\x80\xa8",
    b"\x1c", b"@data", b"../x", b"/etc/x", b"{}", b"[", b"]" * 30, b"[" * 3000, b"a" * 300,
)  # fmt: skip
HOSTILE_VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 7, 2**31, 2**63, -(2**63), 2**64, 10**30, 0.5, -0.0, 1e308, float("nan"),
    float("inf"), "", "x", "0", "nan", "../x", "/etc/x", "a/b", "\x00", "\ud800", "shard-00000-0.safetensors", [], {},
    [[]], [None], {"": None}, {"$float": "nan"}, {"$float": []}, [0] * 50, "y" * 500,
)  # fmt: skip
INTERESTING = (0, 1, 2, 0x7F, 0x80, 0xFE, 0xFF)


def _place(content: bytes, rng: random.Random) -> int:
    """Anywhere, but half of the time near the beginning, where headers are."""
    size = len(content)
    return rng.randrange(min(size, 256) if rng.random() < 0.5 else size) if size else 0


def flip_bits(content: bytes, rng: random.Random) -> bytes:
    if not content:
        return content
    found = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 8))):
        found[_place(content, rng)] ^= 1 << rng.randrange(8)
    return bytes(found)


def set_bytes(content: bytes, rng: random.Random) -> bytes:
    at, count = _place(content, rng), rng.choice((1, 1, 2, 4, 8))
    value = rng.choice(INTERESTING) if rng.random() < 0.5 else rng.randrange(256)
    return content[:at] + bytes([value]) * count + content[at + count :]


def insert_bytes(content: bytes, rng: random.Random) -> bytes:
    at = _place(content, rng)
    new = rng.choice(HOSTILE_TEXT) if rng.random() < 0.5 else rng.randbytes(rng.choice((1, 2, 4, 8, 64)))
    return content[:at] + new + content[at:]


def delete_bytes(content: bytes, rng: random.Random) -> bytes:
    at = _place(content, rng)
    return content[:at] + content[at + rng.choice((1, 1, 2, 4, 8, 64, 512)) :]


def cut_off(content: bytes, rng: random.Random) -> bytes:
    return content[: rng.randrange(len(content) + 1)]


def repeat_block(content: bytes, rng: random.Random) -> bytes:
    """A piece of it once more, at another place."""
    start, to, size = _place(content, rng), _place(content, rng), rng.choice((1, 4, 16, 64, 256))
    return content[:to] + content[start : start + size] * rng.choice((1, 1, 1, 20)) + content[to:]


def swap_blocks(content: bytes, rng: random.Random) -> bytes:
    if len(content) < 4:
        return content
    a, b, c, d = sorted(rng.randrange(len(content) + 1) for _ in range(4))
    return content[:a] + content[c:d] + content[b:c] + content[a:b] + content[d:]


def set_integer(content: bytes, rng: random.Random) -> bytes:
    """A number of 2, 4 or 8 bytes that counts or measures something is another one."""
    width = rng.choice((2, 4, 4, 8))
    at = _place(content, rng) // 4 * 4
    small = rng.randrange(64)
    value = rng.choice((0, 1, small, len(content), 2 ** (8 * width - 1) - 1, 2 ** (8 * width) - 1, rng.getrandbits(31)))
    order = rng.choice(("little", "big"))
    new = (value % 2 ** (8 * width)).to_bytes(width, order)
    return content[:at] + new + content[at + width :]


def replace_number(content: bytes, rng: random.Random) -> bytes:
    """A number in text becomes NaN, infinity, something huge, something negative, or nothing."""
    return _replace(NUMBER, content, rng, lambda: rng.choice(HOSTILE_NUMBERS))


def replace_token(content: bytes, rng: random.Random) -> bytes:
    """A word becomes another word of the same text, or one that is trouble."""
    words = TOKEN.findall(content)
    return _replace(TOKEN, content, rng, lambda: rng.choice(words if rng.random() < 0.6 else HOSTILE_TEXT))


def _replace(pattern: re.Pattern[bytes], content: bytes, rng: random.Random, new: Callable[[], bytes]) -> bytes:
    at = _place(content, rng)
    match = pattern.search(content, at) or pattern.search(content)
    return content if match is None else content[: match.start()] + new() + content[match.end() :]


def move_line(content: bytes, rng: random.Random) -> bytes:
    """A line is lost, doubled, or changes places with another."""
    lines = content.split(b"\n")
    i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
    what = rng.randrange(3)
    if what == 0:
        del lines[i]
    elif what == 1:
        lines.insert(j, lines[i])
    else:
        lines[i], lines[j] = lines[j], lines[i]
    return b"\n".join(lines)


def change_json(content: bytes, rng: random.Random) -> bytes:
    """One value of a JSON text becomes one of another kind, is lost, doubled, wrapped, or trades places."""
    try:
        whole = json.loads(content)
    except (ValueError, RecursionError):
        return replace_token(content, rng)
    places = list(_places(whole))
    if not places:
        return json.dumps(rng.choice(HOSTILE_VALUES)).encode()
    holder, key = rng.choice(places)
    other, other_key = rng.choice(places)
    what = rng.randrange(7)
    if what <= 2:
        holder[key] = rng.choice(HOSTILE_VALUES)
    elif what == 3:
        del holder[key]
    elif what == 4:
        holder[key] = rng.choice(([holder[key]], {"x": holder[key]}, [holder[key]] * 3, str(holder[key])))
    elif what == 5:
        holder[key], other[other_key] = json.loads(json.dumps([other[other_key], holder[key]]))
    elif isinstance(holder, list):
        holder.append(holder[key])
    else:
        holder[rng.choice(("", "x", f"{key}s"))] = holder.pop(key)
    return json.dumps(whole).encode()


def _places(value: Any) -> Any:
    """(holder, key) of every value inside another."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield value, key
        yield from _places(inner)


BINARY: tuple[Mutator, ...] = (
    flip_bits, flip_bits, set_bytes, insert_bytes, delete_bytes, cut_off, repeat_block, swap_blocks, set_integer,
    set_integer,
)  # fmt: skip
TEXT: tuple[Mutator, ...] = (
    flip_bits, set_bytes, insert_bytes, delete_bytes, cut_off, repeat_block, swap_blocks, replace_number,
    replace_number, replace_token, replace_token, move_line, move_line,
)  # fmt: skip
JSON: tuple[Mutator, ...] = (*(change_json,) * 12, *TEXT[:7], replace_number, replace_token)
KINDS = {"binary": BINARY, "text": TEXT, "json": JSON}
MAX_BYTES = 200_000


def mutated(content: bytes, kind: str, rng: random.Random) -> bytes:
    """One to eight mutations of ``kind`` ("binary", "text" or "json"), mostly one or two; never the content itself."""
    mutators = KINDS[kind]
    found = content
    for _ in range(rng.choice((1, 1, 1, 1, 2, 2, 3, 4, 8))):
        found = rng.choice(mutators)(found, rng)[:MAX_BYTES]
    while found == content:
        found = rng.choice(BINARY if content else (insert_bytes,))(found, rng)
    return found
