"""``udtw skeleton show``: figures of the uncertainty and the matches of a trained model."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from udtw.cli import options
from udtw.cli.options import OnError
from udtw.cli.output import note, save_figure
from udtw.cli.output import show as show_result
from udtw.cli.skeleton import OnErrorOption, load
from udtw.skeleton.datasets.loading import DATASETS

if TYPE_CHECKING:
    import numpy as np

    from udtw.skeleton import ActionRecognizer
    from udtw.skeleton.datasets import SkeletonSet

MOST_CANDIDATES = 200
"""Clips of the query's class, and of others, among which the nearest is looked for."""


def show(
    model: Annotated[Path, typer.Argument(help="The checkpoint of a trained model.")],
    name: Annotated[str, typer.Argument(metavar="|".join(DATASETS), help="Which data set.")],
    out: Annotated[Path, typer.Option(help="Write the figure here (.png, .pdf or .svg).")],
    data_dir: options.SkeletonDir = None,
    query: Annotated[
        str | None, typer.Option(help="Name of the query clip; by default one of a novel class, drawn by the seed.")
    ] = None,
    support: Annotated[
        list[str] | None,
        typer.Option(
            help="Name of a support clip, may be repeated; by default the nearest of the query's class and the nearest "
            "of all others."
        ),
    ] = None,
    clip: Annotated[str | None, typer.Option(help="Draw this clip alone, with the uncertainty of its blocks.")] = None,
    on_error: OnErrorOption = OnError.stop,
    seed: options.Seed = 0,
    json: options.Json = False,
) -> None:
    """Draw the uncertainty of the blocks of clips, and the alignment of a query with supports.

    The query is on the left and the supports are on top, drawn as stick figures over time. Between them is the
    coupling: dark where a block of the query is matched with a block of the support. Blue means a small σ (certain),
    red a large one. A pair of the same class usually has the smaller distance d².

    With `--clip` one clip is drawn with the σ of its blocks below it.

    Examples:

    - `udtw skeleton show run.safetensors utd-mhad --data-dir ~/data --out match.png`

    - `udtw skeleton show run.safetensors utd-mhad --query a3_s1_t1 --support a3_s2_t1 --support a6_s2_t1 --out m.pdf`

    - `udtw skeleton show run.safetensors synthetic --clip kick-001 --out kick.png`
    """
    from udtw.errors import OptionError
    from udtw.skeleton import ActionRecognizer

    if clip is not None and (query is not None or support):
        raise OptionError("--clip draws one clip alone; leave out --query and --support, or leave out --clip.")
    recognizer = ActionRecognizer.load(model)
    skeletons = load(name, data_dir, on_error, recognizer.recipe.block_size)
    if clip is not None:
        result = _show_clip(recognizer, skeletons, _place(skeletons, clip), out)
    else:
        result = _show_match(recognizer, skeletons, query, support or [], seed, out)
    show_result("Picture", {"model": str(model), "dataset": name, **result, "picture": str(out)}, json)


def _show_clip(recognizer: "ActionRecognizer", skeletons: "SkeletonSet", index: int, out: Path) -> dict[str, Any]:
    from udtw.plots import plot_clip
    from udtw.skeleton.blocks import block_spans

    clip = skeletons[index]
    every = recognizer.tokens(skeletons.subset([index])).std
    std = None if every is None else every[0].cpu().numpy()
    if std is None:
        note(f"the model compares by {recognizer.recipe.metric}, which has no uncertainty to show")
    spans = block_spans(len(clip), recognizer.recipe.block_size, recognizer.recipe.stride)
    title = f"{skeletons.classes[clip.label]} ({clip.name})"
    save_figure(plot_clip(clip.frames, recognizer.graph, spans, std, title=title), out, "--out")
    return {"clip": clip.name, "class": skeletons.classes[clip.label], "frames": len(clip), "blocks": len(spans)} | (
        {} if std is None else {"sigma": std.tolist()}
    )


def _show_match(
    recognizer: "ActionRecognizer",
    skeletons: "SkeletonSet",
    query: str | None,
    supports: list[str],
    seed: int,
    out: Path,
) -> dict[str, Any]:
    import numpy as np

    from udtw.plots import plot_match

    generator = np.random.default_rng(seed)
    at = _place(skeletons, query) if query is not None else _novel(skeletons, generator)
    chosen = (
        [_place(skeletons, one) for one in supports] if supports else _nearest(recognizer, skeletons, at, generator)
    )
    figure = plot_match(skeletons[at], [skeletons[i] for i in chosen], recognizer, classes=skeletons.classes)
    save_figure(figure, out, "--out")
    scores = recognizer.scores(skeletons.subset([at]), skeletons.subset(chosen))[0]
    return {
        "query": skeletons.names[at],
        "class": skeletons.classes[skeletons.labels[at]],
        "supports": [
            {"name": skeletons.names[i], "class": skeletons.classes[skeletons.labels[i]], "score": float(score)}
            for i, score in zip(chosen, scores, strict=True)
        ],
    }


def _place(skeletons: "SkeletonSet", name: str) -> int:
    """Return the number of the clip of that name."""
    import difflib

    from udtw.errors import OptionError

    if name in skeletons.names:
        return skeletons.names.index(name)
    near = difflib.get_close_matches(name, skeletons.names, 3) or skeletons.names[:3]
    raise OptionError(f"{skeletons.name} has no clip {name!r}; it has {', '.join(near)} and others.")


def _novel(skeletons: "SkeletonSet", generator: "np.random.Generator") -> int:
    """Draw a clip of a novel class."""
    from udtw.skeleton.datasets import protocol

    return int(generator.choice(protocol(skeletons).novel))


def _nearest(
    recognizer: "ActionRecognizer", skeletons: "SkeletonSet", at: int, generator: "np.random.Generator"
) -> list[int]:
    """Return the nearest clip of the class of clip ``at`` and the nearest of another class, within its own part.

    Novel clips are compared with the exemplars of the protocol, if it has them.
    """
    import numpy as np

    from udtw.errors import DataError
    from udtw.skeleton.datasets import protocol

    parts = protocol(skeletons)
    pool = next((part for part in (parts.train, parts.validation, parts.novel) if at in part), parts.novel)
    if parts.exemplars is not None and pool is parts.novel and at not in parts.exemplars:
        pool = parts.exemplars
    pool = pool[pool != at]
    same = skeletons.labels[pool] == skeletons.labels[at]
    found = []
    for which, what in ((same, "its own class"), (~same, "another class")):
        candidates = pool[which]
        if not len(candidates):
            raise DataError(
                f"{skeletons.name}: there is no support of {what} for {skeletons.names[at]}; name --support."
            )
        if len(candidates) > MOST_CANDIDATES:
            candidates = np.sort(generator.choice(candidates, MOST_CANDIDATES, replace=False))
        scores = recognizer.scores(skeletons.subset([at]), skeletons.subset(candidates))[0]
        found.append(int(candidates[scores.argmin()]))
    return found
