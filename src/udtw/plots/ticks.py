"""Ticks of colour bars on which probabilities are shown after a power."""


def power_ticks(power: float) -> list[float]:
    """Probabilities of one digit, about evenly spaced after the power."""
    return sorted({float(f"{share ** (1 / power):.1g}") for share in (0, 0.25, 0.5, 0.75, 1)})


def number(value: float) -> str:
    """0.001 as it is, 1e-06 as a power of ten."""
    if value == 0 or 1e-3 <= value < 1e4:
        return f"{value:g}"
    digit, exponent = f"{value:.0e}".split("e")
    factor = "" if digit == "1" else digit + r"\cdot "
    return rf"${factor}10^{{{int(exponent)}}}$"
