"""Numbers that several threads read and change at once, inside compiled functions."""

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from udtw._kernels.cpu.simd import pointer_to_number


@intrinsic
def read(typing_context, array, index):
    """Return a number that another thread may have changed: it is always read from memory."""

    def codegen(context, builder, signature, args):
        pointer = pointer_to_number(context, builder, signature, args)
        return builder.load_atomic(pointer, "seq_cst", array.dtype.bitwidth // 8)

    return array.dtype(array, types.intp), codegen


@intrinsic
def add(typing_context, array, index, amount):
    """Add to an integer, and return what it was before. No other thread can come between."""

    def codegen(context, builder, signature, args):
        return builder.atomic_rmw("add", pointer_to_number(context, builder, signature, args), args[2], "seq_cst")

    return array.dtype(array, types.intp, array.dtype), codegen


@intrinsic
def add_at(typing_context, address, amount):
    """Add to the 64-bit integer at an address, and return what it was before."""

    def codegen(context, builder, signature, args):
        pointer = builder.inttoptr(args[0], ir.IntType(64).as_pointer())
        return builder.atomic_rmw("add", pointer, args[1], "seq_cst")

    return types.int64(types.int64, types.int64), codegen
