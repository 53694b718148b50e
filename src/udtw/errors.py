"""Every error that udtw raises on purpose. All are `ValueError`, so that generic handlers keep working."""


class UdtwError(ValueError):
    """Root of the family.

    >>> import udtw
    >>> try:
    ...     udtw.align([0.0, 1.0], [0.0, 1.0], gamma=-1)
    ... except udtw.UdtwError as error:
    ...     print(error.parameter)
    gamma
    """

    parameter: str | None = None
    """Name of the parameter whose value is wrong, where it is a single one."""

    def __init__(self, *args: object, parameter: str | None = None) -> None:
        super().__init__(*args)
        if parameter is not None:
            self.parameter = parameter


class ShapeError(UdtwError):
    """An array's shape, type or device does not fit the others."""


class LengthError(UdtwError):
    """A sequence is empty, or a given length lies outside its padded array."""


class NonFiniteError(UdtwError):
    """NaN or infinity where a number was expected."""


class VarianceError(UdtwError):
    """A variance that is not a positive finite number."""


class GammaError(UdtwError):
    """A temperature γ that is not a positive finite number."""

    parameter = "gamma"


class RangeError(UdtwError):
    """Finite values whose path sums do not fit the floating-point type."""


class BandError(UdtwError):
    """A band that cannot be understood, or that leaves no path."""

    parameter = "band"


class PathError(UdtwError):
    """A path that is not a monotone path from the first to the last cell."""


class BackendError(UdtwError):
    """A backend that is unknown, unavailable, or cannot do what was asked."""


class OptionError(UdtwError):
    """An option whose value is not among its choices, or contradicts another option."""


class SizeError(UdtwError):
    """A request whose result or scratch memory would not fit."""


class FileFormatError(UdtwError):
    """A file that is damaged, or is not what it was expected to be."""


class DataError(UdtwError):
    """A data set that is missing, or a data file that cannot be read."""


class StoreError(UdtwError):
    """A folder of results that holds a damaged or foreign file, or a value that JSON cannot keep."""


class StoreBusyError(StoreError):
    """A folder of results that another run is writing to."""


class WorkerError(UdtwError):
    """A worker process that died while it computed."""
