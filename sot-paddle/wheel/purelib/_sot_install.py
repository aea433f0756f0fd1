"""Imports `sot`, which installs itself, as soon as Paddle has been imported.

`sot_install.pth` asks for it at the start of every Python whose environment says `SOT_INSTALL=1`: programs that never name
`sot` are traced by it. A module of its own, because importing `sot` imports Paddle, which most Pythons do not need.
"""

import importlib.util
import sys


class _Finder:
    """Comes before the finders of `sys.meta_path` once, to have the last word when Paddle is loaded."""

    def find_spec(self, name, path=None, target=None):
        if name != "paddle":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            _call_after(spec.loader, lambda: __import__("sot"))
        return spec


def _call_after(loader, then):
    def exec_module(module):
        del loader.exec_module
        loader.exec_module(module)
        then()

    loader.exec_module = exec_module


def when_paddle_is_imported():
    """Import `sot` then. Once asked is enough."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
