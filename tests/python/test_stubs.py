"""The stubs agree with the modules: names, parameters, and docstrings."""

import ast
import inspect
from pathlib import Path

import pytest

import sot
from sot import _sot

FOLDER = Path(sot.__file__).parent


def stub(name):
    return ast.parse((FOLDER / name).read_text(encoding="utf-8")).body


def names_in(body):
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.AnnAssign):
            yield node.target.id
        elif isinstance(node, ast.ImportFrom):
            yield from (alias.asname for alias in node.names if alias.asname)


def test_the_package_has_what_its_stub_has():
    said = {name for name in names_in(stub("__init__.pyi")) if not name.startswith("_") or name == "__version__"}
    assert said == set(sot.__all__)


def test_the_compiled_part_has_what_its_stub_has():
    said = set(names_in(stub("_sot.pyi"))) - {"_F"}
    there = {name for name in vars(_sot) if not name.startswith("__") or name == "__version__"}
    # Names that only the project's own tests use have no stub.
    assert said - there == set()
    assert not {name for name in there - said if not name.lower().startswith(("_backend", "_graphbuilder"))}


@pytest.mark.parametrize(
    "name", sorted({node.name for node in stub("_sot.pyi") if isinstance(node, ast.FunctionDef)})
)
def test_parameters_of_the_compiled_part(name):
    found = [node for node in stub("_sot.pyi") if isinstance(node, ast.FunctionDef) and node.name == name]
    there = inspect.signature(getattr(_sot, name)).parameters.values()
    for node in found:
        arguments = node.args
        said = [argument.arg for argument in arguments.posonlyargs + arguments.args]
        said += [argument.arg for argument in [arguments.vararg, *arguments.kwonlyargs, arguments.kwarg] if argument]
        assert said == [parameter.name for parameter in there]


@pytest.mark.parametrize("name", sorted(set(sot.__all__) - {"__version__", "psdb", "config"}))
def test_every_public_name_says_what_it_is(name):
    public = getattr(sot, name)
    body = [node for node in stub("__init__.pyi") if getattr(node, "name", None) == name]
    text = (body and ast.get_docstring(body[0])) or inspect.getdoc(public) or ""
    assert len(text) > 20, f"sot.{name} has no text"
    for method, value in vars(public).items() if inspect.isclass(public) else ():
        if inspect.isfunction(value) and not method.startswith("_"):
            assert value.__doc__, f"sot.{name}.{method} has no text"


# Of `disable`, each overload has a text of its own.
@pytest.mark.parametrize("name", ["symbolic_translate", "reset", "GraphBreakError", "RecompileError"])
def test_help_has_the_text_of_the_stub(name):
    body = [node for node in stub("__init__.pyi") if getattr(node, "name", None) == name]
    assert inspect.getdoc(getattr(sot, name)) == ast.get_docstring(body[0])


def test_the_package_has_no_other_public_name():
    assert {name for name in vars(sot) if not name.startswith("_")} == set(sot.__all__) - {"__version__"}


def test_the_version_names_the_commit():
    number, _, commit = sot.__version__.partition("+g")
    assert number.count(".") == 2 and (not commit or len(commit) >= 7)


def test_modules_in_the_compiled_part_have_a_stub():
    served = sot._face.__loader__.sources
    assert {"_breaks", "psdb", "register"} <= set(served)
    for name, source in served.items():
        assert (FOLDER / f"{name}.pyi").read_text(encoding="utf-8") == source
