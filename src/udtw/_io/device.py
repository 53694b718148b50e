"""The ``device`` of estimators: where their distances and trainings are computed.

`udtw.align` and the modules of `udtw.nn` compute where their tensors are. Estimators are given arrays, and take
``device=``: a name such as "cuda" or "cuda:1", a `torch.device`, or None, the CPU. The series are moved there once, and
results come back as NumPy arrays.
"""

import torch

from udtw.errors import OptionError

Device = str | torch.device | None
CPU = torch.device("cpu")


def checked_device(device: Device) -> torch.device:
    """Return the device of that name; raise `OptionError` if torch sees no such device, or if it has no float64.

    >>> checked_device(None)
    device(type='cpu')
    """
    try:
        checked = CPU if device is None else torch.device(device)
        torch.zeros(1, dtype=torch.float64, device=checked).cpu().numpy()
    except (AssertionError, ImportError, NotImplementedError, RuntimeError, TypeError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise OptionError(
            f"device={device!r} cannot be used: torch sees no such device, or it has no float64 ({reason}). Pass "
            f"'cpu', or a device of this machine; torch.cuda.is_available() is {torch.cuda.is_available()}."
        ) from None
    return checked


def generator_on(device: torch.device, generator: torch.Generator) -> torch.Generator:
    """Return ``generator`` if it makes its numbers on ``device``, else one that does, seeded by it."""
    if generator.device == device:
        return generator
    return seeded_generator(int(torch.randint(2**31, (), generator=generator, device=generator.device)), device)


def seeded_generator(seed: int, device: torch.device = CPU) -> torch.Generator:
    """Return a generator that makes its numbers on ``device``: none are moved there."""
    return torch.Generator(device).manual_seed(seed)
