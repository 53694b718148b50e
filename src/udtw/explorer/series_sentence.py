"""One sentence that says what the first tab shows."""

import numpy as np

from udtw.explorer.series_alignment import SeriesResult, SeriesSettings
from udtw.explorer.series_choices import ChosenSeries

SURE = 0.5
"""A match of this probability is more likely than all others together."""
SOURCES = {
    "estimate": "estimates from each series where it is noisy (the bands of ±σ)",
    "known": "is told where the series are noisy (the bands of ±σ)",
}


def sentence(x: ChosenSeries, y: ChosenSeries, settings: SeriesSettings, found: SeriesResult) -> str:
    """How far DTW and uDTW are off if the truth is known; otherwise how sure uDTW is, and where it is not."""
    plain, uncertain = found.error(found.dtw_partners), found.error(found.matches.expected)
    if plain is not None and uncertain is not None:
        if settings.variance == "none":
            return (
                f"Without σ the bursts of noise count as much as everything else: DTW is off by {plain:.1f} steps on "
                f"average, and the soft alignment by {uncertain:.1f}."
            )
        return (
            f"Both series have bursts of noise: DTW follows them and is off by {plain:.1f} steps on average; uDTW "
            f"{SOURCES[settings.variance]}, lets these steps count less, and is off by {uncertain:.1f}."
        )
    own = [one.label for one in (x, y) if one.own]
    begin = f"Nothing was added to {' and '.join(dict.fromkeys(own))}: " if own else ""
    sure = float((found.matches.probability >= SURE).mean())
    text = f"{sure:.0%} of the steps of x have a match that is more likely than all others together; "
    doubtful = found.matches.doubtful()
    if not doubtful:
        return begin + text + "no stretch is much more doubtful than the rest."
    widest = doubtful[int(np.argmax([(one.last - one.first + 1) * (one.high - one.low) for one in doubtful]))]
    more = f", and {len(doubtful) - 1} more" if len(doubtful) > 1 else ""
    return (
        begin + text + f"doubtful (orange bar): steps {widest.first} to {widest.last} of x, "
        f"which lie between {widest.low} and {widest.high} of y{more}."
    )
