"""`SOT_EXPORT`: writes a graph as a layer, with a test that runs the layer in eager mode and as one program."""

from __future__ import annotations

import pathlib
import re
import warnings
from typing import Iterable, List, Optional, Sequence, Tuple

from ._verify.outside import unwatched

# A value: symbol, sizes (`None` for an open size), element type, `stop_gradient`.
Described = Tuple[str, Sequence[Optional[int]], str, bool]
# A statement: kind, callee, arguments, keywords as `name: value`, and the symbols that get the result.
Statement = Tuple[str, str, List[str], List[str], str]

FILE = '''\
# {name}: {signature}
import unittest

import numpy as np
import paddle
from numpy import inf, nan


def sample(shape, dtype, stop_gradient=True):
    if dtype == "bool" or "int" in dtype:
        return paddle.randint(0, 2, shape).astype(dtype)
    tensor = paddle.rand(shape).astype(dtype)
    tensor.stop_gradient = stop_gradient
    return tensor


class LayerCase(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
{parameters}

    def forward(self{inputs}):
{statements}
        return [{outputs}]


def create_inputs():
    return [
{samples}
    ]


class TestLayer(unittest.TestCase):
    def test_static(self):
        net, inputs = LayerCase(), create_inputs()
        paddle.seed(123)
        expected = net(*inputs)
        paddle.seed(123)
        results = paddle.jit.to_static(net, full_graph=True)(*inputs)
        for result, right in zip(paddle.utils.flatten(results), expected):
            np.testing.assert_allclose(result.numpy(), right.numpy(), rtol=1e-5, atol=1e-6)


if __name__ == "__main__":
    unittest.main()
'''
# Values whose `repr` is no expression, and how to write them.
VALUES = ((r"<DataType\.(\w+): \d+>", lambda match: f"paddle.{match[1].lower()}"), (r"Place\(cpu\)", lambda _: "paddle.CPUPlace()"))


def export(
    folder: str,
    name: str,
    inputs: Sequence[Described],
    parameters: Sequence[Described],
    statements: Sequence[Statement],
    outputs: Sequence[str],
) -> None:
    """Write `name`.py, or warn if that is impossible."""
    try:
        text = FILE.format(
            name=name,
            signature="||".join(f"{kind}:{callee}" for kind, callee, *_ in statements),
            parameters=indented(2, map(parameter, parameters)) or "        pass",
            inputs="".join(f", {symbol}" for symbol, *_ in inputs),
            statements=indented(2, (line for each in (map(own, parameters), *map(lines, statements)) for line in each)),
            outputs=", ".join(outputs),
            samples=indented(2, (f"{sample(each)}," for each in inputs)),
        )
        compile(text, name, "exec")
        path = pathlib.Path(folder)
        with unwatched():
            path.mkdir(parents=True, exist_ok=True)
            (path / f"{name}.py").write_text(text)
    except (OSError, SyntaxError, LookupError) as error:
        warnings.warn(f"SOT_EXPORT: {name} is not exported: {error}", RuntimeWarning, stacklevel=2)


def indented(depth: int, lines: Iterable[str]) -> str:
    return "\n".join("    " * depth + line for line in lines)


def sample(described: Described) -> str:
    _, shape, dtype, stop_gradient = described
    sizes = [2 if size is None else size for size in shape]
    return f'sample({sizes}, "{dtype}", stop_gradient={stop_gradient})'


def parameter(described: Described) -> str:
    symbol, shape, dtype, _ = described
    return f'self.{symbol} = self.create_parameter({list(shape)}, dtype="{dtype}")'


def own(described: Described) -> str:
    return f"{described[0]} = self.{described[0]}"


def lines(statement: Statement) -> list[str]:
    kind, callee, args, keywords, target = statement
    given = [value(argument) for argument in args]
    named = [f"{keyword}={value(argument)}" for keyword, _, argument in (text.partition(": ") for text in keywords)]
    if callee == "switch_gradient":
        return [f"{given[0]}.stop_gradient = not {given[1]}", f"{target} = {given[0]}"]
    is_method = kind == "method" or kind == "inplace" and "." not in callee
    if not is_method and not (kind != "whole" and (callee == "getattr" or callee.startswith("paddle."))):
        raise LookupError(f"{callee} has no name of its own")
    call = f"{given[0]}.{callee}({', '.join(given[1:] + named)})" if is_method else f"{callee}({', '.join(given + named)})"
    if kind == "inplace":
        return [call, f"{target} = {given[0]}"]
    return [f"{target} = {call}"]


def value(text: str) -> str:
    for pattern, expression in VALUES:
        text = re.sub(pattern, expression, text)
    return text
