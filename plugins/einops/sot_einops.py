"""The meaning of einops' functions for a trace of sot, by registrations from Python; the entry point calls `register`.

Without the plug-in, a call of `einops.rearrange` breaks the graph: einops searches the subclasses of its backend class
for the framework of a tensor, and caches objects that it has derived from a pattern.
"""

import paddle
import sot
from einops import _backends, einops


registered = []
"""Each takes itself back by `undo()`."""


def register():
    """Register the functions."""
    of_paddle = _backends.PaddleBackend()

    def get_backend(tensor):
        if isinstance(tensor, paddle.Tensor):
            return of_paddle
        return _backends.get_backend(tensor)

    registered[:] = [
        sot.register.substitute(_backends.get_backend, get_backend),
        # The recipe depends on the pattern and the shape alone.
        sot.register.constant_result(einops._prepare_transformation_recipe),
        sot.register.substitute(einops._reconstruct_from_shape, einops._reconstruct_from_shape_uncached),
    ]
