"""Write the Python scripts offered by the page: each computes the same numbers as its tab, to the last digit."""

from collections.abc import Iterable

from udtw._engine.likelihood import ROUGHNESS_WINDOW
from udtw.explorer.image_alignment import LUMA, N_IMAGES, PATCH, SIDE, ChosenImage, ImageSettings, TokenEncoder
from udtw.explorer.series_alignment import LEVEL, SeriesSettings
from udtw.explorer.series_choices import ChosenSeries
from udtw.explorer.skeleton_alignment import (
    BOUNDS,
    BURST_VARIANCE,
    GRAPH,
    N_CLASSES,
    N_CLIPS,
    ChosenClip,
    SkeletonSettings,
)

DPI = 150
PREVIEW = 3000
"""Number of characters shown on the page; the file is complete."""

NUMBERS = 'print(f"distance {float(a.distance)!r}, regularizer {float(a.regularizer)!r}, loss {float(a.loss)!r}")'


def preview(code: str) -> str:
    """Shorten long lists of numbers in a script, and cut it after `PREVIEW` characters."""
    short = "\n".join(line if len(line) <= 160 else f"{line[:110]} … {line[-30:]}" for line in code.splitlines())
    return short if len(short) <= PREVIEW else f"{short[:PREVIEW]}\n…"


def series_script(x: ChosenSeries, y: ChosenSeries, settings: SeriesSettings) -> str:
    """Write a script that aligns two series as the series tab does, prints its numbers and draws its picture."""
    s = settings
    sides = {"x": x, "y": y}
    plot = "plot_matches" if s.view == "lines" else "plot_alignment"
    made = ["from udtw.data.generators import known_warps"] if {x.pair, y.pair} != {None} else []
    code = [
        '"""Made by `udtw explore`. The environment variable UDTW_DATA is the folder of UCR data sets."""',
        "",
        "import numpy as np",
        "",
        "import udtw",
        "import udtw.data",
        *made,
        f"from udtw.plots import {plot}",
        "",
        f"# {x.label}",
        f"x = np.asarray({x.code}, dtype=float).reshape({len(x.values)}, -1)",
        f"# {y.label}",
        f"y = np.asarray({y.code}, dtype=float).reshape({len(y.values)}, -1)",
    ]
    if s.znormalize:
        code.append("x, y = udtw.data.znormalize([x, y])")
    if s.variance == "known":
        for name, one in sides.items():
            code.append(f"var_{name} = {one.variance_code or f'np.ones(len({name}))'}")
    noisy = [name for name, one in sides.items() if not one.own and s.side in (name, "both")] if s.noise else []
    if noisy:
        comment = f"# noise of standard deviation {s.noise:g} in a part of the series"
        code += ["", comment, f"rng = np.random.default_rng({s.seed})"]
    for name in noisy:
        begin, end = (round(share / 100 * len(sides[name].values)) for share in s.stretch)
        code += [
            f"{name} = {name}.copy()",
            f"{name}[{begin}:{end}] += {s.noise!r} * rng.standard_normal({name}[{begin}:{end}].shape)",
        ]
        if s.variance == "known":
            code.append(f"var_{name}[{begin}:{end}] += {s.noise!r} ** 2")
    given = {"match": "", "none": "", "known": ", var_x, var_y"}[s.variance]
    options = f"paths={s.paths}, seed={s.seed}"
    if s.view == "lines":
        options = f"level={LEVEL!r}" + (f", times=({x.times!r}, {y.times!r})" if x.times or y.times else "")
    aligned = [f"a = udtw.align(x, y{given}, gamma={s.gamma!r}, beta={s.beta!r}, band={s.band!r})"]
    if s.variance == "match":
        aligned = [
            f"m = udtw.match(x, y, level={LEVEL!r}, band={s.band!r})",
            "print(m.trust.sentence)",
            "a = m.alignment",
        ]
        options = ("matches=m, " if s.view == "lines" else "match=m, ") + options
    code += [
        "",
        *aligned,
        NUMBERS,
        'print(f"entropy {float(a.paths.entropy)!r} nats, most probable path of {len(a.paths.mode())} cells")',
        f'{plot}(x, y, a, {options}).savefig("alignment.png", dpi={DPI})',
    ]
    return _joined(code)


def image_script(x: ChosenImage, y: ChosenImage, settings: ImageSettings, encoder: TokenEncoder) -> str:
    """Write a script that aligns two images as the image tab does, prints its numbers and draws its picture."""
    s, trained = settings, encoder.model_name is not None
    uploaded = any(one.code.startswith("PIL") for one in (x, y))
    code = [
        '"""Made by `udtw explore`. Files are read from the working directory."""',
        "",
        *(["import PIL.Image"] if uploaded else []),
        "import torch",
        "",
        "import udtw",
        f"from udtw.images import {'ImageRecognizer, load_backbone' if trained else 'PatchBackbone'}",
        "from udtw.images.datasets import make_images",
        "from udtw.images.projection import token_order",
        "from udtw.plots import plot_image_match",
        "",
        f"images = make_images({N_IMAGES})",
        f"first = {x.code}  # {x.label}",
        f"second = {y.code}  # {y.label}",
    ]
    if trained:
        code.append(f"backbone = load_backbone({encoder.backbone_name!r})")
    else:
        code.append(f"backbone = PatchBackbone({SIDE}, {PATCH}, position={s.position!r})")
    code += [
        "pixels = torch.stack([backbone.prepare(first), backbone.prepare(second)])",
        "tokens, grid = backbone(pixels).tokens, backbone(pixels).grid",
        f"order = token_order({s.order!r}, grid)",
        "tokens = tokens[:, order]",
    ]
    if trained:
        code += [
            f"encoded = ImageRecognizer.load({encoder.model_name!r}).encode(tokens)",
            "tokens = encoded.features",
            "var_x, var_y = (None, None) if encoded.variance is None else encoded.variance",
        ]
    elif s.variance == "contrast":
        code += [
            "",
            "# σ = ½ + 1.5 exp(−c / mean c), where c is the contrast of a patch (deviation of its gray values)",
            f"gray = torch.einsum('c,bchw->bhw', torch.tensor({LUMA}), pixels)",
            "patches = gray.unflatten(1, (grid[0], -1)).unflatten(3, (grid[1], -1)).transpose(2, 3)",
            "contrast = patches.flatten(3).std(3, correction=0).flatten(1)",
            "variance = (0.5 + 1.5 * torch.exp(-contrast / contrast.mean().clamp_min(1e-6))).square()",
            "var_x, var_y = variance[:, order]",
        ]
    else:
        code.append("var_x = var_y = None")
    code += [
        "",
        f"a = udtw.align(tokens[0], tokens[1], var_x, var_y, gamma={s.gamma!r}, beta={s.beta!r}, band={s.band!r}, "
        "weighting='precision')",
        NUMBERS,
        "left, right = (one.permute(1, 2, 0).numpy() for one in pixels)",
        "figure = plot_image_match(",
        f"    left, right, a.coupling, grid, grid, var_x=var_x, var_y=var_y, order={s.order!r}, n_matches={s.matches}",
        ")",
        f'figure.savefig("images.png", dpi={DPI})',
    ]
    return _joined(code)


def skeleton_script(x: ChosenClip, y: ChosenClip, settings: SkeletonSettings) -> str:
    """Write a script that aligns two clips as the skeleton tab does, prints its numbers and draws its picture."""
    s = settings
    code = [
        '"""Made by `udtw explore`."""',
        "",
        "import numpy as np",
        *(["import torch"] if s.variance == "rough" else []),
        "",
        "import udtw",
        "from udtw.plots import plot_alignment",
        "from udtw.skeleton import graph, normalize",
        "from udtw.skeleton.datasets import make_actions",
        "",
        f"clips, lost = make_actions({N_CLASSES}, {N_CLIPS}, return_unreliable=True)",
        "",
        "",
        "def features(clip):",
        '    """Return joints (T, 60) relative to the torso in units of the body; D is a mean over coordinates."""',
        f'    frames = normalize(clip.frames, graph("{GRAPH}").centre)[:, 0].astype(np.float64)',
        "    return frames.reshape(len(frames), -1) / np.sqrt(frames.shape[1] * frames.shape[2])",
        "",
        "",
    ]
    if s.variance == "rough":
        code += [*_roughness(), "", ""]
    code += [
        f"x = features(clips[{x.number}])  # {x.label}",
        f"y = features(clips[{y.number}])  # {y.label}",
    ]
    given = ", var_x, var_y"
    if s.variance == "known":
        code.append(
            f"var_x, var_y = (np.where(lost[i].any(1), {BURST_VARIANCE!r}, 1.0) for i in ({x.number}, {y.number}))"
        )
    elif s.variance == "rough":
        code += [
            "var_x, var_y = (",
            f"    np.clip(one / max(float(np.median(one)), 1e-12), {BOUNDS[0]!r}, {BOUNDS[1]!r}) "
            "for one in (roughness(x), roughness(y))",
            ")",
        ]
    else:
        given = ""
    code += [
        "",
        f"a = udtw.align(x, y{given}, gamma={s.gamma!r}, beta={s.beta!r}, band={s.band!r}, weighting='precision')",
        NUMBERS,
        f'plot_alignment(x, y, a, paths=0).savefig("skeletons.png", dpi={DPI})',
    ]
    return _joined(code)


def _roughness() -> list[str]:
    """Return the lines of the estimate behind ``var_x="estimate"``, written out."""
    return [
        "def roughness(series):",
        '    """Estimate the variance of white noise on a smooth series from its second differences."""',
        "    bend = torch.from_numpy(series).diff(n=2, dim=0).square().mean(1) / 6",
        f"    padded = torch.nn.functional.pad(bend[None], ({1 + ROUGHNESS_WINDOW // 2},) * 2, mode='replicate')",
        f"    return padded[0].unfold(0, {ROUGHNESS_WINDOW}, 1).mean(1).numpy()",
    ]


def _joined(code: Iterable[str]) -> str:
    return "\n".join(code) + "\n"
