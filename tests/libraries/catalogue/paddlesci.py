"""Networks of PaddleSci, as the examples in their docstrings make and call them."""

import ast
import doctest

import paddle

from compare import Model

# Their examples have weather maps of the whole Earth, or need data that is not in the package.
LARGE = {"AFNONet", "PrecipNet", "DGMR", "CFDGCN", "GraphCastNet", "NowcastNet", "CVit", "SFNONet", "ExtFormerMoECuboid"}


def models():
    import ppsci

    found = {}
    for name, kind in sorted(vars(ppsci.arch).items()):
        if isinstance(kind, type) and issubclass(kind, paddle.nn.Layer) and name not in LARGE:
            example = read(kind.__doc__ or "")
            if example:
                found[name] = Model(*example)
    return found


def read(text):
    """What makes the model of a docstring's example and what gives its arguments; none without such an example."""
    done = []
    for example in doctest.DocTestParser().get_examples(text):
        for statement in ast.parse(example.source).body:
            call = getattr(statement, "value", None)
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "model":
                return lambda: run(done)["model"], lambda: arguments(run(done), call)
            done.append(statement)
    return None


def run(statements):
    import ppsci

    names = {"paddle": paddle, "ppsci": ppsci}
    exec(compile(ast.Module(statements, []), "<example>", "exec"), names)
    return names


def arguments(names, call):
    def value(node):
        return eval(compile(ast.Expression(node), "<example>", "eval"), names)

    return tuple(value(node) for node in call.args), {keyword.arg: value(keyword.value) for keyword in call.keywords}
