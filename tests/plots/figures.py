"""Helpers of tests that inspect figures."""

import io


def panels(figure):
    """The axes by their labels."""
    return {axes.get_label(): axes for axes in figure.axes}


def render(figure):
    """The size in bytes; drawing raises if any text or layout is wrong."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=60)
    return buffer.tell()
