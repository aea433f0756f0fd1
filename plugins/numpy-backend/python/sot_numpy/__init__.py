"""NumPy as a backend of the tracer: what a function does with arrays is a program of NumPy's own functions.

    import sot_numpy
    fast = sot_numpy.symbolic_translate(fn)
"""

from . import _sot  # First: it has the modules that are not beside this one.
from . import _face
from ._face import *
from ._face import __all__ as __all__

_face.start()
