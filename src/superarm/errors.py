"""The errors of the library: one family, so that ``except SuperarmError`` catches them all."""


class SuperarmError(Exception):
    """Base of all errors that are not plain bad arguments (those are ``ValueError``)."""


class InfeasibleError(SuperarmError):
    """No super arm is feasible, or the one returned is not."""


class NegativeCycleError(SuperarmError):
    """A cycle of negative cost lies on the way, so that no best path exists."""


class NumericalError(SuperarmError):
    """A matrix that must be positive definite is not, within rounding."""


class CapacityError(SuperarmError):
    """The request exceeds a stated limit of memory or time."""


class WorkLimitError(SuperarmError):
    """The work that a caller allows for one question is used up."""


class DataError(SuperarmError):
    """A file is damaged, of another format, or of a newer version."""
