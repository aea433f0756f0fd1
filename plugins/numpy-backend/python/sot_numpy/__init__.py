"""NumPy as a backend of the tracer: operations on arrays become a program of calls of NumPy's functions.

    import sot_numpy
    fast = sot_numpy.symbolic_translate(fn)
"""

from . import _sot  # First: it has the modules that are not beside this one.
from . import _face
from ._face import *
from ._face import __all__ as __all__

_face.start()
