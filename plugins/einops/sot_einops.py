"""What einops' functions mean to a trace of sot, by registrations from Python alone; the entry point calls `register`.

Without it a call of `einops.rearrange` breaks the graph: einops looks among the subclasses of its backends for the framework of a
tensor, and keeps what it has worked out of a pattern in caches that give objects.
"""

import paddle
import sot
from einops import _backends, einops


registered = []
"""Each takes itself back by `undo()`."""


def register():
    """Register at once."""
    of_paddle = _backends.PaddleBackend()

    def get_backend(tensor):
        if isinstance(tensor, paddle.Tensor):
            return of_paddle
        return _backends.get_backend(tensor)

    registered[:] = [
        sot.register.substitute(_backends.get_backend, get_backend),
        # What is worked out of a pattern stays as it is.
        sot.register.constant_result(einops._prepare_transformation_recipe),
        sot.register.substitute(einops._reconstruct_from_shape, einops._reconstruct_from_shape_uncached),
    ]
