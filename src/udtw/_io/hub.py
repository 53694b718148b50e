"""Models in folders and on the Hugging Face Hub, by its own mixins (extra ``hub``)."""

from functools import cache
from pathlib import Path
from typing import Any, Self

from torch import nn

WEIGHTS = "model.safetensors"


class HubModel:
    """Base of models with `save_pretrained`, `from_pretrained` and `push_to_hub`.

    These are the methods of ``huggingface_hub.PyTorchModelHubMixin`` (for a model that is not a torch module, of
    ``ModelHubMixin``). The package is imported when one of them is called: it takes longer to import than udtw.
    """

    @property
    def hub_config(self) -> dict[str, Any]:
        """The arguments of the constructor, for ``config.json``."""
        return {}

    def save_pretrained(self, folder: str | Path, **options: Any) -> Any:
        """Write weights, configuration and a model card to a folder; see ``PyTorchModelHubMixin.save_pretrained``."""
        return _twin(self).save_pretrained(folder, **options)

    def push_to_hub(self, repo_id: str, **options: Any) -> Any:
        """Upload the model to a repository of the Hub; see ``PyTorchModelHubMixin.push_to_hub``."""
        return _twin(self).push_to_hub(repo_id, **options)

    @classmethod
    def from_pretrained(cls, folder: str | Path, **options: Any) -> Self:
        """Load the model from a folder, or from a repository of the Hub such as "name/model"."""
        kind: Any = cls
        model = _with_mixin(kind).from_pretrained(folder, **options)
        model.__class__ = cls  # of the same layout; a class made at run time could not be pickled
        return model


def _twin(model: HubModel) -> Any:
    """Return the same model, sharing everything, with the mixin among its classes."""
    cls: Any = type(model)
    kind = _with_mixin(cls)
    twin = object.__new__(kind)
    vars(twin).update(vars(model), _hub_mixin_config=model.hub_config)
    return twin


@cache
def _with_mixin(cls: Any) -> Any:
    try:
        from huggingface_hub import ModelHubMixin, PyTorchModelHubMixin
    except ModuleNotFoundError as error:
        if error.name != "huggingface_hub":
            raise
        raise ImportError(
            f"{cls.__name__} on the Hub needs huggingface-hub; install it with: pip install 'udtw[hub]'"
        ) from error

    described = {"library_name": "udtw", "tags": ["udtw", "dynamic-time-warping", "time-series"]}
    if issubclass(cls, nn.Module):
        return type(cls.__name__, (PyTorchModelHubMixin, cls), {}, **described)

    def _save_pretrained(self: Any, save_directory: Path) -> None:
        self.save(save_directory / WEIGHTS)

    def _from_pretrained(kind: Any, *, model_id: str, **options: Any) -> Any:
        path = Path(model_id) / WEIGHTS
        if not Path(model_id).is_dir():
            from huggingface_hub import hf_hub_download

            known = ("revision", "cache_dir", "force_download", "local_files_only", "token")
            path = Path(
                hf_hub_download(model_id, WEIGHTS, **{name: options[name] for name in known if name in options})
            )
        return cls.load(path)

    own = {"_save_pretrained": _save_pretrained, "_from_pretrained": classmethod(_from_pretrained)}
    return type(cls.__name__, (ModelHubMixin, cls), own, **described)
