"""Training by several processes: each computes its share of the rows of every step."""

import os
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor


class Processes:
    """The processes of a launched lightning-fabric object; a single process without one.

    All hold the same weights and draw the same random numbers. Each compares its own rows of a batch, and gradients are
    summed: the result is the step of one process, up to rounding.
    """

    def __init__(self, fabric: Any = None) -> None:
        self.fabric = fabric
        self.rank: int = 0 if fabric is None else fabric.global_rank
        self.world: int = 1 if fabric is None else fabric.world_size

    @property
    def writes(self) -> bool:
        """Whether this is the process that writes files."""
        return self.rank == 0

    def rows(self, count: int, device: torch.device | None = None) -> Tensor:
        """Return this process's share of ``range(count)``.

        All shares have the same size: the last row may be repeated.
        """
        each = -(-count // self.world)
        return torch.arange(self.rank * each, (self.rank + 1) * each, device=device).clamp(max=count - 1)

    def share(self, count: int) -> Tensor:
        """Return this process's share of ``range(count)`` if every row belongs to one process; it may be empty."""
        each = -(-count // self.world)
        return torch.arange(min(self.rank * each, count), min((self.rank + 1) * each, count))

    def sum(self, value: Tensor) -> Tensor:
        """Return the sum of a tensor over the processes."""
        return value if self.world == 1 else self.fabric.all_reduce(value, reduce_op="sum").to(value)

    def gather(self, mine: Tensor, count: int) -> Tensor:
        """Return (count, …) from the `rows` (each, …) of all processes, detached from the graph."""
        if self.world == 1:
            return mine.detach()
        return self.fabric.all_gather(mine.detach().contiguous()).flatten(0, 1)[:count]

    def own(self, every: Tensor) -> Tensor:
        """Return the `rows` of ``every`` (count, …); repeated rows are zero."""
        if self.world == 1:
            return every
        rows = self.rows(len(every))
        first = self.rank * len(rows) + torch.arange(len(rows)) < len(every)
        return every[rows.to(every.device)] * first.to(every.device).view(-1, *[1] * (every.ndim - 1))

    def sum_gradients(self, parameters: Iterable[Tensor]) -> None:
        """Replace every gradient by its sum over the processes, in one all-reduce."""
        if self.world == 1:
            return
        kept = [(p, p.grad) for p in parameters if p.grad is not None]
        flat = torch.cat([gradient.flatten() for _, gradient in kept])
        for (parameter, _), part in zip(kept, self.sum(flat).split([g.numel() for _, g in kept]), strict=True):
            parameter.grad = part.view_as(parameter)


def join_torchrun(accelerator: str) -> tuple[int, int] | None:
    """Join the other processes that ``torchrun`` started: (processes per machine, machines); None without torchrun.

    The processes find each other in the store of torchrun. After a restart it still has the addresses of the previous
    attempt, so each attempt writes under its own prefix.
    """
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return None
    from torch import distributed

    world, here = int(os.environ["WORLD_SIZE"]), int(os.environ["LOCAL_WORLD_SIZE"])
    if not distributed.is_initialized():
        rank, attempt = int(os.environ["RANK"]), os.environ["TORCHELASTIC_RESTART_COUNT"]
        shared = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
        store = distributed.TCPStore(
            os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), world, is_master=rank == 0 and not shared
        )
        on_gpu = accelerator in ("cuda", "gpu") or (accelerator == "auto" and torch.cuda.is_available())
        distributed.init_process_group(
            "nccl" if on_gpu else "gloo",
            store=distributed.PrefixStore(f"udtw/{attempt}", store),
            rank=rank,
            world_size=world,
        )
    return here, world // here
