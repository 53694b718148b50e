"""``udtw skeleton``: prepare a data set, train a recognizer of actions, evaluate it, classify new clips, and draw."""

import time
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from udtw.cli import options, training
from udtw.cli.options import OnError
from udtw.cli.output import list_skipped, note, save_figure, show, show_predictions
from udtw.cli.training import Mode
from udtw.errors import DataError, OptionError
from udtw.fewshot.model import comparator_names
from udtw.skeleton.datasets.loading import DATASETS

if TYPE_CHECKING:
    from udtw.skeleton import ActionRecognizer
    from udtw.skeleton.datasets import SkeletonSet

OnErrorOption = Annotated[
    OnError, typer.Option(help="Stop at a file that cannot be read, or leave it out and list it.")
]


def load(name: str, data_dir: Path | None, on_error: OnError, block_size: int, shown: bool = True) -> "SkeletonSet":
    """Load a data set; print what was left out and, for a folder of your own, its classes, splits and joints."""
    from udtw.skeleton.datasets import load_skeletons
    from udtw.skeleton.datasets.protocols import class_split

    skeletons = load_skeletons(name, data_dir, on_error=str(on_error), progress=shown)
    if name == "folder":  # published sets have published clips
        skeletons = skeletons.at_least(block_size)
    if shown:
        list_skipped(skeletons.skipped)
        if name == "folder":
            split = class_split(skeletons)
            parts = {"train": split.train, "validation": split.validation, "novel": split.novel}
            named = "; ".join(
                f"{part}: {', '.join(skeletons.classes[label] for label in labels)}" for part, labels in parts.items()
            )
            note(f"{len(skeletons)} clips of {len(skeletons.classes)} classes, joints {skeletons.graph}. {named}")
    return skeletons


FILES = {name: dataset.files for name, dataset in DATASETS.items() if dataset.find is not None}


def prepare(
    name: Annotated[str, typer.Argument(metavar="|".join(FILES), help="Which data set.")],
    out: Annotated[Path, typer.Option(help="Folder for the prepared form, created if needed.")],
    data_dir: options.SkeletonDir = None,
    on_error: OnErrorOption = OnError.stop,
    ignore: Annotated[
        Path | None,
        typer.Option(
            help="NTU: text file with samples to leave out, such as the published lists of missing skeletons."
        ),
    ] = None,
    json: options.Json = False,
) -> None:
    """Parse the original files of a data set once; training then starts at once and needs little memory.

    Stop it at any time: the same command continues where it stopped. Run it again after files were added or replaced,
    and only shards with changed files are written again. Files that each data set needs:

    FILES

    Examples:

    - `udtw skeleton prepare utd-mhad --data-dir ~/utd-mhad --out prepared/utd-mhad`

    - `udtw skeleton prepare folder --data-dir ~/my-clips --on-error skip --out prepared/my-clips`

    - `udtw skeleton prepare ntu120 --data-dir ~/ntu --ignore missing.txt --on-error skip --out prepared/ntu120`
    """
    from udtw.skeleton.datasets import prepare
    from udtw.skeleton.datasets.loading import find_source

    begin = time.perf_counter()
    source = find_source(name, data_dir, ignore=ignore)
    done = prepare(source, out, on_error=str(on_error), progress=True)
    list_skipped(done.skipped, f", all listed in {out / 'manifest.json'}")
    result = {
        "dataset": source.name,
        "folder": str(out),
        "clips": done.clips,
        "left_out": len(done.skipped),
        "classes": len(source.classes),
        "joints": source.graph,
        "shards_written": done.written,
        "shards_kept": done.kept,
        "seconds": time.perf_counter() - begin,
    }
    if json:
        result["skipped"] = [{"name": one.name, "reason": one.reason} for one in done.skipped]
    show(f"Prepared {source.name}", result, json)


prepare.__doc__ = (prepare.__doc__ or "").replace(
    "FILES", "\n\n    ".join(f"- `{name}`: {files}" for name, files in FILES.items())
)


def train(
    name: Annotated[
        str,
        typer.Argument(help="A data set as for `udtw skeleton prepare`, or `synthetic`."),
    ],
    out: training.Out,
    data_dir: options.SkeletonDir = None,
    metric: Annotated[str, options.name_option("How two clips are compared", "comparator", comparator_names)] = "udtw",
    mode: Annotated[Mode, typer.Option(help="Train on labeled episodes, or without labels by a dictionary.")] = (
        Mode.supervised
    ),
    objective: training.ObjectiveOption = None,
    preset: training.PresetOption = training.Preset.default,
    gamma: options.Gamma = None,
    beta: options.Beta = None,
    steps: training.Steps = 300,
    classes: Annotated[
        int | None, typer.Option(help="Train on this many of the training classes; by default on all.")
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option(help="Any other setting of udtw.skeleton.Recipe, as in `--setting width=64 --setting depth=0`."),
    ] = None,
    episodes_per_step: training.EpisodesPerStep = 1,
    devices: training.Devices = 1,
    accelerator: training.Accelerator = "cpu",
    strategy: training.Strategy = "auto",
    on_error: OnErrorOption = OnError.stop,
    seed: options.Seed = 0,
    json: options.Json = False,
) -> None:
    """Train on the training classes of the data set's protocol; novel classes are not used.

    Stop it at any time: the same command resumes from the last checkpoint and ends with the same weights.

    Examples:

    - `udtw skeleton train synthetic --out model.safetensors --steps 100`

    - `udtw skeleton train utd-mhad --data-dir ~/skeletons --metric udtw --out udtw.safetensors`

    - `udtw skeleton train folder --data-dir ~/my-clips --setting n_way=3 --out mine.safetensors`

    - `udtw skeleton train ntu120 --data-dir prepared --classes 100 --steps 30000 --devices 2 --strategy ddp
    --episodes-per-step 2 --out ntu120.safetensors`
    """
    from udtw.skeleton import ActionRecognizer, Recipe
    from udtw.skeleton.datasets import protocol

    recipe = Recipe.from_dict(
        {"metric": metric, "mode": str(mode), "preset": str(preset)}
        | options.given(gamma=gamma, beta=beta, objective=None if objective is None else str(objective))
        | {"n_steps": steps, "seed": seed, "episodes_per_step": episodes_per_step}
        | dict(training.parse_setting(text) for text in setting or [])
    )
    fabric = training.launch(accelerator, devices, strategy)
    main = fabric is None or fabric.is_global_zero
    skeletons = load(name, data_dir, on_error, recipe.block_size, main)
    chosen = skeletons.subset(protocol(skeletons, classes).train)
    recognizer = ActionRecognizer(recipe, skeletons.graph, skeletons[0].frames.shape[3])
    training.with_progress(
        recipe.n_steps, main, lambda tick: recognizer.fit(chosen, checkpoint_path=out, fabric=fabric, tick=tick)
    )
    if main:
        training.show_trained(recognizer, name, out, {"clips": len(chosen)}, json)


class Inference(StrEnum):
    auto = "auto"
    alignment = "alignment"
    codes = "codes"


def evaluate(
    model: Annotated[Path, typer.Argument(help="The model that `udtw skeleton train` wrote.")],
    name: Annotated[str, typer.Argument(help="The data set.")],
    data_dir: options.SkeletonDir = None,
    episodes: Annotated[int, typer.Option(help="Test episodes.")] = 1000,
    n_way: Annotated[int, typer.Option(help="Classes per episode.")] = 5,
    n_shot: Annotated[int, typer.Option(help="Labeled clips per class.")] = 1,
    n_query: Annotated[
        int | None, typer.Option(help="Queries per class; by default 10, or fewer if the classes are smaller.")
    ] = None,
    inference: Annotated[
        Inference, typer.Option(help="By alignment with the supports, or by dictionary codes (unsupervised models).")
    ] = Inference.auto,
    on_error: OnErrorOption = OnError.stop,
    seed: options.Seed = 0,
    json: options.Json = False,
) -> None:
    """Estimate the accuracy on the novel classes of the data set's protocol, with its 95 % confidence interval.

    If the protocol names one exemplar per class (NTU), all other clips of the novel classes are compared with these;
    otherwise episodes are drawn.

    Examples:

    - `udtw skeleton eval model.safetensors synthetic`

    - `udtw skeleton eval udtw.safetensors utd-mhad --data-dir ~/skeletons --episodes 2000 --json`
    """
    from udtw.fewshot import EpisodeSampler
    from udtw.fewshot.episodes import fitting_n_way, queries_for
    from udtw.fewshot.evaluation import accuracy_of, evaluate_scores
    from udtw.fewshot.model import predict
    from udtw.skeleton import ActionRecognizer
    from udtw.skeleton.datasets import protocol

    recognizer = ActionRecognizer.load(model)
    skeletons = load(name, data_dir, on_error, recognizer.recipe.block_size)
    parts = protocol(skeletons)
    novel = skeletons.subset(parts.novel)
    if parts.exemplars is None:
        n_query = queries_for(novel.labels, n_shot) if n_query is None else n_query
        n_way = fitting_n_way(novel.labels, n_way)
        sampler = EpisodeSampler(novel.labels, n_way, n_shot, n_query, seed)
        accuracy = evaluate_scores(recognizer.scores(novel, inference=str(inference)), sampler, episodes)
        what = {"n_way": n_way, "n_shot": n_shot, "n_query": n_query, "episodes": episodes}
    else:
        known = skeletons.subset(parts.exemplars)
        found = predict(recognizer.scores(novel, known, inference=str(inference)), known.labels)
        accuracy = accuracy_of((found == novel.labels).astype(float))
        what = {"n_way": len(known), "n_shot": 1, "test_clips": len(novel)}
    result = {"accuracy": accuracy.mean, "half_width_95": accuracy.half_width, **what, "model": str(model)}
    show(f"{name}, novel classes: {accuracy}", result, json)


def predict(
    model: Annotated[Path, typer.Argument(help="The model that `udtw skeleton train` wrote.")],
    clips: Annotated[list[Path], typer.Argument(metavar="CLIPS...", help="`.npy` or `.json` files of clips.")],
    support: Annotated[Path, typer.Option(help="Folder with a subfolder of example clips for each class.")],
    out: options.Predictions = None,
    on_error: OnErrorOption = OnError.skip,
    json: options.Json = False,
) -> None:
    """Classify new clips by a few examples of each class; the classes need not be those of the training.

    Files are those of the data set `folder`. Writes the class and its probability for each clip, and the probability
    of every class. Clips that cannot be read are named and left out.

    Examples:

    - `udtw skeleton predict model.safetensors new/*.npy --support examples --out predictions.csv`
    """
    from udtw.skeleton import ActionRecognizer
    from udtw.skeleton.datasets.own_folder import clip_files, folder_source
    from udtw.skeleton.datasets.skeleton_set import read_all

    recognizer = ActionRecognizer.load(model)
    known = read_all(folder_source(support, recognizer.graph_name), str(on_error), progress=not json)
    new = read_all(clip_files(clips, recognizer.graph_name), str(on_error), progress=not json)
    list_skipped((*known.skipped, *new.skipped), listed=None)
    labels = np.array(known.classes)[known.labels]
    show_predictions(
        model, new.names, np.unique(labels).tolist(), recognizer.predict_proba(known, labels, new),
        (*known.skipped, *new.skipped), out, json,
    )  # fmt: skip


MOST_CANDIDATES = 200
"""Clips of the query's class, and of others, among which the nearest is looked for."""


def draw(
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
    from udtw.skeleton import ActionRecognizer

    if clip is not None and (query is not None or support):
        raise OptionError("--clip draws one clip alone; leave out --query and --support, or leave out --clip.")
    recognizer = ActionRecognizer.load(model)
    skeletons = load(name, data_dir, on_error, recognizer.recipe.block_size)
    if clip is not None:
        result = _show_clip(recognizer, skeletons, _place(skeletons, clip), out)
    else:
        result = _show_match(recognizer, skeletons, query, support or [], seed, out)
    show("Picture", {"model": str(model), "dataset": name, **result, "picture": str(out)}, json)


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
