"""The pictures to download: those that the script draws, made here by the same call."""

import base64
import io
from typing import TYPE_CHECKING, Any

from udtw.explorer.series_settings import SeriesSettings
from udtw.explorer.series_work import SeriesResult
from udtw.explorer.snippet import DPI

if TYPE_CHECKING:
    from udtw.explorer.image_work import ImageResult, ImageSettings
    from udtw.explorer.skeleton_work import SkeletonResult


def png(figure: Any) -> bytes:
    """A matplotlib figure in bytes."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=DPI)
    return buffer.getvalue()


def series_picture(found: SeriesResult, settings: SeriesSettings) -> bytes:
    from udtw.plots import plot_alignment

    x, y = found.prepared.x, found.prepared.y
    return png(plot_alignment(x, y, found.alignment, paths=settings.paths, seed=settings.seed))


def image_picture(found: "ImageResult", settings: "ImageSettings") -> bytes:
    from udtw.plots import plot_image_match

    left, right = (one.transpose(1, 2, 0) for one in found.pixels)
    return png(
        plot_image_match(
            left, right, found.coupling, found.grid, found.grid, var_x=found.var_x, var_y=found.var_y,
            order=settings.order, n_matches=settings.matches,
        )
    )  # fmt: skip


def skeleton_picture(found: "SkeletonResult") -> bytes:
    from udtw.plots import plot_alignment

    return png(plot_alignment(found.x, found.y, found.alignment, paths=0))


def png_file(content: bytes, name: str) -> dict[str, Any]:
    """What `dcc.Download` hands to the browser."""
    return {"content": base64.b64encode(content).decode(), "filename": name, "base64": True, "type": "image/png"}
