"""Which axes of the operators are the batch, for torch.func.vmap."""

from udtw._kernels.cpu import operators as ops
from udtw._kernels.vmap_rule import register_vmap

_GRADS = (
    "grad_x", "grad_y", "grad_cost", "grad_var_x", "grad_var_y", "grad_variance", "grad_gamma", "grad_beta",
    "grad_warp",
)  # fmt: skip
_DERIVATIVES = ("by_loss", "by_cost", "by_log")
_TENSORS = dict.fromkeys(
    (*_GRADS, *_DERIVATIVES, "x", "y", "cost", "var_x", "var_y", "variance", "gamma", "beta", "warp", "field"), 0
) | {
    "lengths": 1,
    "relax": 1,
    "factors": 1,
    "fields": 1,
}
register_vmap(ops.path_sums, _TENSORS, 0)
register_vmap(ops.path_expectations, _TENSORS, 0)
register_vmap(ops.path_coupling, _TENSORS, 0)
register_vmap(ops.path_least, _TENSORS, 0)
register_vmap(ops.path_least_mask, _TENSORS, 0)
register_vmap(ops.path_gradients, _TENSORS, (0,) * (ops.N_GRADS + 1))
register_vmap(ops.path_loss_and_grads, _TENSORS, (0,) * (3 + ops.N_GRADS))
register_vmap(ops.path_pullback, _TENSORS, (0,) * ops.N_GRADS)
