"""Feed one input again, to see its traceback: `python -m hardening.again PARSER INDEX [SEED]`."""

import sys

from hardening.fuzz import damaged_input, workplace
from hardening.parsers import parsers


def main() -> None:
    name, index, *seed = sys.argv[1:]
    with workplace() as folder:
        seeds, read = parsers()[name].prepare(folder)
        file, content = damaged_input(name, seeds, int(*seed or ["0"]), int(index))
        print(f"{file}: {len(content)} bytes\n{content[:4000]!r}")
        read(file, content)


if __name__ == "__main__":
    main()
