"""A vector type for Numba: eight float32 or four float64 values in one register, twice as many with AVX-512.

The kernels are written on these vectors instead of hoping that a compiler vectorises a scalar loop. That makes the
instructions, and so the bits of the result, independent of the loop's length, of the batch, of the vector's width and
of LLVM's heuristics.
No fast-math flag is set: what is written is what is computed.

Inside an ``@njit`` function::

    v = load(array, index)            # unaligned
    store(array, index, v * v + splat(array, scalar))
"""

import math
import operator

import numpy as np
from llvmlite import ir
from llvmlite.binding import get_host_cpu_features
from numba import types
from numba.core import cgutils, config
from numba.extending import intrinsic, models, overload, register_model

VECTOR_BYTES = 64 if get_host_cpu_features().get("avx512f") else 32


class Vector(types.Type):
    """Numba type of one register full of ``dtype``."""

    def __init__(self, dtype):
        self.dtype = dtype
        self.lanes = VECTOR_BYTES // (dtype.bitwidth // 8)
        super().__init__(name=f"Vector({dtype})")


@register_model(Vector)
class VectorModel(models.PrimitiveModel):
    def __init__(self, dmm, fe_type):
        element = dmm.lookup(fe_type.dtype).get_value_type()
        super().__init__(dmm, fe_type, ir.VectorType(element, fe_type.lanes))


class _Layout:
    """Bit layout of the floating-point numbers in an LLVM vector type."""

    def __init__(self, vector_type):
        single = isinstance(vector_type.element, ir.FloatType)
        self.suffix = f"v{vector_type.count}{'f32' if single else 'f64'}"
        self.mantissa_bits = 23 if single else 52
        self.bias = 127 if single else 1023
        self.integers = ir.VectorType(ir.IntType(32 if single else 64), vector_type.count)
        self.bits_of = (
            (lambda x: int(np.float32(x).view(np.int32))) if single else (lambda x: int(np.float64(x).view(np.int64)))
        )
        self.exp2_degree = 6 if single else 12
        self.log_terms = 5 if single else 11


def _constant(vector_type, value):
    return ir.Constant(vector_type, [value] * vector_type.count)


def _call(builder, name, *args):
    vector_type = args[0].type
    function_type = ir.FunctionType(vector_type, [vector_type] * len(args))
    full_name = f"llvm.{name}.{_Layout(vector_type).suffix}"
    return builder.call(cgutils.get_or_insert_function(builder.module, function_type, full_name), args)


def _horner(builder, x, coefficients):
    """Polynomial with the highest coefficient first."""
    total = _constant(x.type, coefficients[0])
    for coefficient in coefficients[1:]:
        total = _call(builder, "fma", total, x, _constant(x.type, coefficient))
    return total


def _pointer(context, builder, array_type, array, index, vector_type):
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [index]), vector_type.as_pointer())


def pointer_to_number(context, builder, signature, args):
    """Of an intrinsic's first two arguments, an array and an index, which is checked where Numba checks its own."""
    array = context.make_array(signature.args[0])(context, builder, args[0])
    if config.BOUNDSCHECK:
        with builder.if_then(builder.icmp_unsigned(">=", args[1], array.nitems), likely=False):
            context.call_conv.return_user_exc(builder, IndexError, ("a number outside of its array",))
    return builder.gep(array.data, [args[1]])


@intrinsic
def borrow(typing_context, array):
    """Return the same array without reference counting, for kernels whose caller keeps it alive.

    Numba counts references atomically wherever an array is passed on; in the loop over diagonals that would cost more
    than the arithmetic.
    """

    def codegen(context, builder, signature, args):
        borrowed = context.make_array(signature.args[0])(context, builder, args[0])
        borrowed.meminfo = cgutils.get_null_value(borrowed.meminfo.type)
        borrowed.parent = cgutils.get_null_value(borrowed.parent.type)
        return borrowed._getvalue()

    return array(array), codegen


@intrinsic
def lanes(typing_context, array):
    """How many values of the array's dtype one vector holds (a compile-time constant)."""
    count = Vector(array.dtype).lanes

    def codegen(context, builder, signature, args):
        return context.get_constant(types.intp, count)

    return types.intp(array), codegen


def _by_precision(single, double):
    """Return a compile-time constant of the array's dtype."""

    def constant(typing_context, array):
        value = single if array.dtype.bitwidth == 32 else double

        def codegen(context, builder, signature, args):
            return context.get_constant(array.dtype, value)

        return array.dtype(array), codegen

    return intrinsic(constant)


most_halvings = _by_precision(50.0, 128.0)
"""A share halved so many times counts as zero, as does one below `least_probability`. The product of both is still a
normal number: arithmetic on subnormal ones would make the kernels twice as slow."""
least_probability = _by_precision(1e-22, 1e-250)


@intrinsic
def load(typing_context, array, index):
    vector = Vector(array.dtype)

    def codegen(context, builder, signature, args):
        pointer = _pointer(context, builder, signature.args[0], *args, context.get_value_type(vector))
        value = builder.load(pointer)
        value.align = array.dtype.bitwidth // 8
        return value

    return vector(array, types.intp), codegen


@intrinsic
def store(typing_context, array, index, value):
    def codegen(context, builder, signature, args):
        pointer = _pointer(context, builder, signature.args[0], args[0], args[1], args[2].type)
        instruction = builder.store(args[2], pointer)
        instruction.align = array.dtype.bitwidth // 8
        return context.get_dummy_value()

    return types.void(array, types.intp, Vector(array.dtype)), codegen


@intrinsic
def store_bytes(typing_context, array, index, value):
    """Store small whole numbers in an array of bytes."""

    def codegen(context, builder, signature, args):
        bytes_type = ir.VectorType(ir.IntType(8), args[2].type.count)
        pointer = _pointer(context, builder, signature.args[0], args[0], args[1], bytes_type)
        instruction = builder.store(builder.fptoui(args[2], bytes_type), pointer)
        instruction.align = 1
        return context.get_dummy_value()

    return types.void(array, types.intp, value), codegen


@intrinsic
def get(typing_context, array, index):
    """Read a contiguous array of any shape; unlike Numba's own indexing, without a check for negative indices."""

    def codegen(context, builder, signature, args):
        return builder.load(pointer_to_number(context, builder, signature, args))

    return array.dtype(array, types.intp), codegen


@intrinsic
def put(typing_context, array, index, number):
    """Inverse of `get`."""

    def codegen(context, builder, signature, args):
        builder.store(args[2], pointer_to_number(context, builder, signature, args))
        return context.get_dummy_value()

    return types.void(array, types.intp, array.dtype), codegen


@intrinsic
def splat(typing_context, array, scalar):
    """Return the scalar in every lane; ``array`` only names the dtype."""
    vector = Vector(array.dtype)

    def codegen(context, builder, signature, args):
        vector_type = context.get_value_type(vector)
        undefined = ir.Constant(vector_type, ir.Undefined)
        first = builder.insert_element(undefined, args[1], ir.Constant(ir.IntType(32), 0))
        zeros = _constant(ir.VectorType(ir.IntType(32), vector_type.count), 0)
        return builder.shuffle_vector(first, undefined, zeros)

    return vector(array, array.dtype), codegen


def _elementwise(arity, build):
    """Return an intrinsic on ``arity`` vectors of one type, built by ``build(builder, *values)``."""

    def signature_and_code(vectors):
        def codegen(context, builder, signature, args):
            return build(builder, *args)

        return vectors[0](*vectors), codegen

    if arity == 1:
        return intrinsic(lambda typing_context, a: signature_and_code((a,)))
    if arity == 2:
        return intrinsic(lambda typing_context, a, b: signature_and_code((a, b)))
    if arity == 3:
        return intrinsic(lambda typing_context, a, b, c: signature_and_code((a, b, c)))
    return intrinsic(lambda typing_context, a, b, c, d: signature_and_code((a, b, c, d)))


def _select(relation):
    return lambda builder, x, y: builder.select(builder.fcmp_ordered(relation, x, y), x, y)


def _halved(builder, x):
    layout = _Layout(x.type)
    # The difference has the biased exponent in its lowest bits; the shift moves it where exponents live.
    shifter = _constant(x.type, 1.5 * 2.0**layout.mantissa_bits + layout.bias)
    bits = builder.bitcast(builder.fsub(shifter, x), layout.integers)
    return builder.bitcast(builder.shl(bits, _constant(layout.integers, layout.mantissa_bits)), x.type)


def _exp2_fraction(builder, x):
    degree = _Layout(x.type).exp2_degree
    return _horner(builder, x, [math.log(2) ** n / math.factorial(n) for n in range(degree, -1, -1)])


def _worst(builder, x, y):
    # Bits without a sign are ordered like the numbers they stand for; the bits of NaN come last.
    integers = _Layout(x.type).integers
    larger = builder.icmp_unsigned(">", builder.bitcast(x, integers), builder.bitcast(y, integers))
    return builder.select(larger, x, y)


def _exponent(builder, x):
    layout = _Layout(x.type)
    bits = builder.bitcast(x, layout.integers)
    biased = builder.lshr(bits, _constant(layout.integers, layout.mantissa_bits))
    # An integer below 2**mantissa_bits, or-ed into the bits of that power of two, reads as their sum.
    power = 2.0**layout.mantissa_bits
    as_float = builder.bitcast(builder.or_(biased, _constant(layout.integers, layout.bits_of(power))), x.type)
    return builder.fsub(as_float, _constant(x.type, power + layout.bias))


def _mantissa(builder, x):
    layout = _Layout(x.type)
    bits = builder.bitcast(x, layout.integers)
    bits = builder.and_(bits, _constant(layout.integers, 2**layout.mantissa_bits - 1))
    return builder.bitcast(builder.or_(bits, _constant(layout.integers, layout.bias << layout.mantissa_bits)), x.type)


def _log(builder, x):
    """``log(x) = e·log 2 + 2 artanh((m − 1)/(m + 1))`` with ``x = m·2^e`` and m in [√½, √2)."""
    layout = _Layout(x.type)
    one = _constant(x.type, 1.0)
    bits = builder.bitcast(x, layout.integers)
    above = builder.sub(bits, _constant(layout.integers, layout.bits_of(math.sqrt(0.5))))
    places = _constant(layout.integers, layout.mantissa_bits)
    whole = builder.ashr(above, places)
    mantissa = builder.bitcast(builder.sub(bits, builder.shl(whole, places)), x.type)
    ratio = builder.fdiv(builder.fsub(mantissa, one), builder.fadd(mantissa, one))
    square = builder.fmul(ratio, ratio)
    series = _horner(builder, square, [2.0 / (2 * n + 1) for n in range(layout.log_terms - 1, -1, -1)])
    exponent = builder.sitofp(whole, x.type)
    return _call(builder, "fma", exponent, _constant(x.type, math.log(2)), builder.fmul(ratio, series))


fma = _elementwise(3, lambda builder, x, y, z: _call(builder, "fma", x, y, z))
"""``x·y + z``, rounded once."""
fnma = _elementwise(3, lambda builder, x, y, z: _call(builder, "fma", builder.fneg(x), y, z))
"""``z − x·y``, rounded once."""
minimum = _elementwise(2, _select("<"))
maximum = _elementwise(2, _select(">"))
nearest = _elementwise(1, lambda builder, x: _call(builder, "rint", x))
halved = _elementwise(1, _halved)
"""``2**−x``, one halved ``x`` times, for a whole ``x`` as long as that is a normal number."""
exp2_fraction = _elementwise(1, _exp2_fraction)
"""``2**x`` for ``|x| ≤ ½`` to the last place."""
exponent = _elementwise(1, _exponent)
"""``floor(log2(x))`` for a positive normal ``x``."""
mantissa = _elementwise(1, _mantissa)
"""``x / 2**exponent(x)``, in [1, 2)."""
log = _elementwise(1, _log)
"""Natural logarithm of a positive normal number."""

worst = _elementwise(2, _worst)
"""The larger of two numbers that are not negative; infinity beats every number, and NaN beats infinity."""

where_greater = _elementwise(4, lambda builder, a, b, x, y: builder.select(builder.fcmp_ordered(">", a, b), x, y))
"""``x`` in the lanes where ``a > b``, else ``y``."""

_ARITHMETIC = {operator.add: "fadd", operator.sub: "fsub", operator.mul: "fmul", operator.truediv: "fdiv"}


def _register_operator(python_operator, instruction):
    implementation = _elementwise(2, lambda builder, x, y: getattr(builder, instruction)(x, y))

    @overload(python_operator)
    def typed(a, b):
        if isinstance(a, Vector) and a == b:
            return lambda a, b: implementation(a, b)
        return None


for _operator, _instruction in _ARITHMETIC.items():
    _register_operator(_operator, _instruction)
