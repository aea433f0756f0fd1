"""How time and memory grow with the length of a graph: this tracer, Paddle's AST conversion, and one raw program.

Each figure is of a process of its own. `first` is the first call, `call` the median of later ones, `memory` what the process
has grown by. `raw` is this tracer with cuts switched off: one program, as Paddle runs it. Nothing is asserted here.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time

LENGTHS = {"gpt": (4, 12, 24, 48, 96), "train": (4, 12, 24, 48), "chain": (100, 1000, 4000, 20000), "lstm": (100, 500, 2000)}
SYSTEMS = ("eager", "sot", "raw", "ast")
# Beyond this, a system's setup takes minutes.
LONGEST = {("chain", "raw"): 1000, ("chain", "ast"): 1000, ("lstm", "raw"): 100, ("lstm", "ast"): 100}
LIMIT = 600
NEVER = "1000000000"


def measure(case, length, system):
    """The figures of one system, or what it ended with."""
    environment = dict(os.environ, SOT_PROGRAM_SIZE=NEVER) if system == "raw" else os.environ
    command = [sys.executable, __file__, "--child", case, str(length), system]
    try:
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        return {"failed": f"more than {LIMIT} s"}
    lines = done.stdout.decode().splitlines()
    return json.loads(lines[-1]) if done.returncode == 0 and lines else {"failed": f"exit {done.returncode}"}


def child(case, length, system):
    import paddle

    paddle.seed(0)
    function, argument = CASES[case](length)
    training = case == "train"
    calls = {"eager": lambda: function, "ast": lambda: paddle.jit.to_static(function, full_graph=True)}.get(system, lambda: translated(function))()

    def call():
        result = calls(argument)
        if training:
            result.backward()

    with paddle.set_grad_enabled(training):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        first = seconds(call) if not training else sum(seconds(call) for _ in range(3))
        later = [seconds(call) for _ in range(15)]
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    print(json.dumps({"first": first * 1e3, "call": statistics.median(later) * 1e3, "memory": grown}))


def translated(function):
    import sot

    return sot.symbolic_translate(function)


def seconds(call):
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def gpt(length):
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "examples"))
    import paddle
    from demo_models import Block

    net = paddle.nn.Sequential(*[Block(32, 4) for _ in range(length)])
    net.eval()
    return (lambda x: net(x)), paddle.rand([2, 8, 32])


def train(length):
    net, argument = gpt(length)
    return (lambda x: net(x).mean()), argument


def chain(length):
    import paddle

    def function(x):
        for _ in range(length // 2):
            x = paddle.nn.functional.relu(x + 0.01)
        return x

    return function, paddle.rand([4, 8])


def lstm(length):
    import paddle

    cell = paddle.nn.LSTMCell(16, 16)
    cell.eval()

    def function(x):
        state = (paddle.zeros([2, 16]), paddle.zeros([2, 16]))
        for step in range(length):
            out, state = cell(x[:, step], state)
        return out

    return function, paddle.rand([2, length, 16])


CASES = {"gpt": gpt, "train": train, "chain": chain, "lstm": lstm}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--case", action="append", choices=list(CASES), help="default: all")
    options = parser.parse_args()
    if options.child:
        case, length, system = options.child
        return child(case, int(length), system)
    print("| case | length | " + " | ".join(f"{s} first / call (ms), memory (MiB)" for s in SYSTEMS) + " |")
    print("|---|---|" + "---|" * len(SYSTEMS))
    for case in options.case or CASES:
        for length in LENGTHS[case]:
            cells = []
            for system in SYSTEMS:
                if length > LONGEST.get((case, system), length):
                    cells.append("not tried")
                    continue
                found = measure(case, length, system)
                cells.append(found.get("failed") or "{first:.0f} / {call:.2f}, {memory:+.0f}".format(**found))
            print(f"| {case} | {length} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
