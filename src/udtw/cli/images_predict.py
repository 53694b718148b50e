"""``udtw images predict``: the classes of new images, from a few examples in folders."""

from pathlib import Path
from typing import Annotated, Any

import typer

from udtw.cli import options
from udtw.cli.output import note, show

SHOWN = 20


def predict(
    model: Annotated[Path, typer.Argument(help="The model that `udtw images train` wrote.")],
    images: Annotated[list[Path], typer.Argument(metavar="IMAGES...", help="Image files.")],
    support: Annotated[Path, typer.Option(help="Folder with a subfolder of example images for each class.")],
    out: Annotated[Path | None, typer.Option(help="Write the predictions here (.csv, .tsv or .json).")] = None,
    backbone: Annotated[
        str | None,
        typer.Option(help="The backbone of the model's tokens.", show_default="that of `udtw images embed`"),
    ] = None,
    json: options.Json = False,
) -> None:
    """Classify new images by a few examples of each class; the classes need not be those of the training.

    Writes the class and its probability for each image, and the probability of every class. Images that cannot be
    decoded are named and left out.

    Examples:

    - `udtw images predict model.safetensors new/*.jpg --support examples --out predictions.csv`
    """
    from udtw._io.progress import progress_bar
    from udtw.cli.files import check_table_name, write_table
    from udtw.errors import OptionError
    from udtw.images import ImageRecognizer, load_backbone, load_support, predict_images

    if out is not None:
        check_table_name(out)
    recognizer = ImageRecognizer.load(model)
    spec = backbone or recognizer.backbone_spec
    if spec is None:
        raise OptionError(f"{model} does not say by which backbone its tokens were made; pass --backbone.")
    network = load_backbone(spec)
    if recognizer.backbone not in (None, network.identity):
        raise OptionError(
            f"{model} was trained on tokens of {recognizer.backbone}; {spec} is another backbone. Pass --backbone."
        )
    known = load_support(support)
    with progress_bar("reading images", len(known) + len(images), not json) as advance:
        found = predict_images(recognizer, network, images, known, lambda: advance(1))
    for one in found.skipped:
        note(f"left out {one.name}: {one.reason}")
    rows = [
        {"image": name, "class": label, "probability": float(shares.max())}
        | {f"p_{one}": float(share) for one, share in zip(found.classes, shares, strict=True)}
        for name, label, shares in zip(found.names, found.labels, found.probabilities, strict=True)
    ]
    if out is not None:
        write_table(out, rows)
    if json:
        about = {"model": str(model), "classes": list(found.classes), "left_out": [one.name for one in found.skipped]}
        show("Predictions", about | {"predictions": rows}, json)
        return
    _show_rows(rows, found.classes)


def _show_rows(rows: list[dict[str, Any]], classes: tuple[str, ...]) -> None:
    from udtw.cli.output import show_table

    cells = [[row["image"], row["class"], f"{row['probability']:.3f}"] for row in rows[:SHOWN]]
    rest = f"{len(rows) - SHOWN} more; --out writes all. " if len(rows) > SHOWN else ""
    show_table("Predictions", ["image", "class", "probability"], cells, f"{rest}{len(classes)} classes.")
