"""Imports modules of a package whose sources are in the package's compiled part. Files of the package come first."""

from __future__ import annotations

import _imp
import importlib.abc
import importlib.machinery
import importlib.util
import marshal
import os
import sys
from types import ModuleType
from typing import Dict, List, Optional, Sequence


class _Sources(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    def __init__(self, package: str, sources: Dict[str, str], codes: Dict[str, bytes]) -> None:
        self.package = package
        self.sources = sources
        self.codes = codes
        paths: List[str] = list(getattr(sys.modules.get(package), "__path__", ())) or [f"<{package}>"]
        self.folder = paths[0]

    def find_spec(
        self, fullname: str, path: Optional[Sequence[str]], target: Optional[ModuleType] = None
    ) -> Optional[importlib.machinery.ModuleSpec]:
        package, _, name = fullname.rpartition(".")
        if package != self.package or name not in self.sources:
            return None
        # The path that a file of the package would have; frames of the module show it.
        place = os.path.join(self.folder, name + ".py")
        return importlib.util.spec_from_file_location(fullname, place, loader=self)

    def get_filename(self, fullname: str) -> str:
        return os.path.join(self.folder, fullname.rpartition(".")[2] + ".py")

    def get_source(self, fullname: str) -> str:
        return self.sources[fullname.rpartition(".")[2]]

    def get_code(self, fullname: str) -> object:  # type: ignore[override]
        compiled = self.codes.get(fullname.rpartition(".")[2])
        if compiled:
            code = marshal.loads(compiled)
            # importlib does the same with a compiled file that has been moved.
            _imp._fix_co_filename(code, self.get_filename(fullname))  # type: ignore[attr-defined]
            return code
        return compile(self.get_source(fullname), self.get_filename(fullname), "exec", dont_inherit=True)

    def is_package(self, fullname: str) -> bool:
        return False


def serve(package: str, sources: Dict[str, str], codes: Dict[str, bytes], magic: bytes) -> None:
    """Make these modules importable from the package. `codes` are for interpreters with the magic number `magic`."""
    if magic != importlib.util.MAGIC_NUMBER:
        codes = {}
    # If an import of the compiled part has failed, the next import calls this function again.
    if not any(type(finder).__name__ == "_Sources" and vars(finder).get("package") == package for finder in sys.meta_path):
        sys.meta_path.append(_Sources(package, sources, codes))
