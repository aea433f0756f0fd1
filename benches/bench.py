"""What a call costs: eager, Paddle's own SOT, this tracer, and the static program run directly.

Everything is measured in one process, and only ratios mean something: compare columns, not runs. A call is one of inference
(no gradients), and in the cases that are trained a forward and a backward pass, where the first call stands for the first
three: a graph with gradients is a program from the second or third on. The raw program is the floor: Paddle's program called
with prepared arguments and no checks at all, by an executor without a collector (see `NoCollector`); a case whose graph breaks,
or that is trained, has none. "Hit alone" is what a hit of ours takes more than the raw call when Paddle's executor is left out
of both. Nothing is asserted here. `--case NAME` picks cases, `--rounds N` sets how many batches each median is taken of.
"""

import argparse
import copy
import gc
import math
import os
import statistics
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "examples"))

from demo_models import Block, as_function, batches, ms, seconds_of, table, warm_up

import numpy as np
import paddle
import paddle.nn.functional as F
from paddle import nn
from paddle.base import core

import sot


def two_ops():
    return (lambda x: F.relu(x + x)), paddle.randn([4, 4])


def mlp():
    layers = []
    for _ in range(10):
        layers += [nn.Linear(32, 32), nn.ReLU()]
    return nn.Sequential(*layers), paddle.randn([4, 32])


def gpt_block():
    return Block(64, 4), paddle.randn([1, 16, 64])


class Gated(nn.Layer):
    """Two branches on tensors and a detour through numpy."""

    def __init__(self, width=32):
        super().__init__()
        self.first, self.second, self.third = (nn.Linear(width, width) for _ in range(3))

    def forward(self, x):
        x = F.relu(self.first(x))
        if x.mean() > 0:
            x = self.second(x)
        else:
            x = self.second(-x)
        x = x + paddle.to_tensor(np.tanh(x.numpy()))
        if x.sum() > -1e9:
            x = self.third(x)
        else:
            x = x - 1
        return F.relu(x)


def gated():
    return Gated(), paddle.randn([4, 32])


def resnet18():
    return paddle.vision.models.resnet18(), paddle.randn([1, 3, 64, 64])


CASES = {
    "two ops": two_ops,
    "ten-layer MLP": mlp,
    "GPT block": gpt_block,
    "ResNet-18": resnet18,
    "branches, numpy": gated,
    "MLP, trained": mlp,
    "GPT block, trained": gpt_block,
    "ResNet-18, trained": resnet18,
}
BREAKING = {"branches, numpy"}
TRAINED = {case for case in CASES if case.endswith("trained")}
WAYS = ["eager", "Paddle SOT", "ours", "raw"]


class NoCollector:
    """In here executors are made without a thread that frees what they no longer need, as ours are where all that a graph
    computes is small (`sot-paddle/src/backend/run/collector.rs`); the flag is read when an executor is made, in its first run."""

    name = "FLAGS_eager_delete_tensor_gb"

    def __enter__(self):
        self.before = paddle.get_flags(self.name)
        paddle.set_flags({self.name: -1.0})

    def __exit__(self, *_):
        paddle.set_flags(self.before)


def raw_program(fn, x):
    """A function that runs the static program of `fn` for inputs like `x` with everything prepared beforehand."""
    _, partial = paddle.jit.to_static(fn, full_graph=True).get_concrete_program(x)
    partial.training = False
    attributes = partial._prepare_attributes(in_sot_mode=True)
    parameters, scopes = partial._params or None, [core.Scope()]
    if hasattr(paddle._C_ops, "run_program"):
        run = paddle._C_ops.run_program
        program, cuda_graph = attributes

        def call(x):
            return run([x], parameters, scopes, program, cuda_graph)[0]

    else:  # Paddle 3.0: the caller makes the output tensors
        run = paddle._legacy_C_ops.pir_run_program
        make_outputs, variables = core.create_empty_tensors_with_values, partial._outputs.var_list
        cuda_graph = partial._cuda_graph_vec

        def call(x):
            outputs = make_outputs(variables)
            run([x], parameters, outputs, scopes, cuda_graph, *attributes)
            return outputs[0]

    call.partial = partial  # the program's values die with it
    if computes_little(partial.infer_program.program.global_block()):
        with NoCollector():
            call(x)
    return call


def computes_little(block):
    """Whether all results of a program together take 4 MiB or less."""
    tensors = [result for op in block.ops for result in op.results() if result.is_dense_tensor_type()]
    return sum(4 * math.prod(tensor.shape) for tensor in tensors) <= 4 << 20


def make(way, body, x):
    """`body` as one of the WAYS calls it; runs nothing of it, except that the raw program is built."""
    if way == "Paddle SOT":
        return paddle.jit.to_static(as_function(body), full_graph=False)
    if way == "ours":
        return sot.symbolic_translate(as_function(body))
    if way == "raw":
        return raw_program(as_function(body), x)
    return as_function(body)


def trained(fn, parameters):
    """A function that runs `fn` and its backward pass, and gives the gradient of the first parameter."""

    def step(x):
        fn(x).mean().backward()
        gradient = parameters[0].grad.clone()
        for parameter in parameters:
            parameter.clear_gradient(False)
        return gradient

    return step


class StandIn:
    """In the place of Paddle's executor: runs a program once and then gives the same results again and again.

    What the executor takes for one program differs by more from batch to batch than a call costs around it.
    """

    def __enter__(self):
        new = hasattr(paddle._C_ops, "run_program")
        self.module = paddle._C_ops if new else paddle._legacy_C_ops
        self.name = "run_program" if new else "pir_run_program"
        self.real = getattr(self.module, self.name)
        scope, known, real = (2 if new else 3), {}, self.real

        def run(*args):
            key = id(args[scope])
            if key not in known:
                known[key] = real(*args), args
            return known[key][0]

        setattr(self.module, self.name, run)

    def __exit__(self, *_):
        setattr(self.module, self.name, self.real)


def hit_cost(body, x, rounds):
    """Seconds a hit takes more than the raw call, with the executor out of the way."""
    with StandIn():
        functions = {"ours": make("ours", body, x), "raw": make("raw", copy.deepcopy(body), x)}
        taken = batches(functions, x, rounds)
    return min(taken["ours"]) - min(taken["raw"])


class PeakMemory:
    """How far the resident set rose above where it was, at its highest, in `bytes`."""

    def __enter__(self):
        gc.collect()
        try:
            with open("/proc/self/clear_refs", "w") as file:
                file.write("5")  # the high-water mark starts anew
            self.key = "VmHWM"
        except OSError:
            self.key = "VmRSS"
        self.start = self.read("VmRSS")
        return self

    def __exit__(self, *_):
        self.bytes = max(0, self.read(self.key) - self.start)

    @staticmethod
    def read(key):
        with open("/proc/self/status") as file:
            for line in file:
                if line.startswith(key + ":"):
                    return int(line.split()[1]) * 1024
        return 0


def measure(case, rounds):
    """Rows for one case, one row a way."""
    body, x = CASES[case]()
    if isinstance(body, nn.Layer):
        body.eval()
    expected = body(x)
    if case in TRAINED:
        expected = trained(body, body.parameters())(x)
    # The raw program is built of a copy, because Paddle 3.0 leaves its static `forward` in the layers it builds from.
    ways = [way for way in WAYS if way != "raw" or case not in BREAKING | TRAINED]
    bodies = {way: copy.deepcopy(body) if way == "raw" else body for way in ways}
    functions, first, peak = {}, {}, {}
    for way in ways:
        with PeakMemory() as memory:
            (functions[way], result), first[way] = seconds_of(lambda x: first_call(case, way, bodies[way], x), x)
        peak[way] = memory.bytes
        # Differences beyond rounding would mean that the columns do not compare the same work.
        if float((result - expected).abs().max()) > 1e-3:
            print(f"{case}: {way} gives other values than eager", file=sys.stderr)
    taken = batches(functions, x, rounds)
    around = {"ours": hit_cost(body, x, rounds)} if "raw" in ways else {}
    return [[case, way, *figures(way, first, taken, peak, around.get(way))] for way in ways]


def first_call(case, way, body, x):
    """The function of a way and its first result: what a user waits for."""
    fn = make(way, body, x)
    if case in TRAINED:
        fn = trained(fn, body.parameters())
        fn(x), fn(x)
    return fn, fn(x)


def figures(way, first, taken, peak, around):
    """The cells of one row. What a way costs over raw is compared batch by batch: neighbours in time share their noise."""
    median = statistics.median(taken[way])
    over_raw = [mine - raw for mine, raw in zip(taken[way], taken.get("raw", []))]
    return [
        ms(first[way]),
        f"{median * 1e6:.1f} µs",
        "" if way == "raw" or not over_raw else f"{statistics.median(over_raw) * 1e6:+.1f} µs",
        "" if around is None else f"{around * 1e6:+.1f} µs",
        f"{median / statistics.median(taken['eager']):.2f}",
        f"{first[way] / first['Paddle SOT']:.2f}",
        f"{peak[way] / 2**20:.1f} MiB",
    ]


HEADING = [
    "case",
    "way",
    "first call",
    "steady state",
    "over raw",
    "hit alone",
    "/ eager",
    "first / Paddle SOT's",
    "peak memory",
]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--case", action="append", help="default: all")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--growth", action="store_true", help="time and memory against the length of a graph instead (growth.py)")
    parser.add_argument("--count", action="store_true", help="instructions of a hit, by callgrind, instead (count.py)")
    parser.add_argument("--beside", metavar="WHEEL", help="count with another wheel, too, such as one with plug-ins")
    parser.add_argument("--phases", action="store_true", help="those of a translation, by phase, instead (phases.py)")
    options = parser.parse_args()
    folder = os.path.dirname(os.path.abspath(__file__))
    if options.count:
        beside = ["--beside", os.path.abspath(options.beside)] if options.beside else []
        sys.exit(subprocess.call([sys.executable, os.path.join(folder, "count.py"), *beside]))
    if options.phases:
        sys.exit(subprocess.call([sys.executable, os.path.join(folder, "phases.py")]))
    if options.growth:
        script = os.path.join(folder, "growth.py")
        cases = [text for case in options.case or () for text in ("--case", case)]
        sys.exit(subprocess.call([sys.executable, script, *cases]))
    for case in options.case or ():
        if case not in CASES:
            parser.error(f"--case {case}: give one of {', '.join(CASES)}")
    paddle.seed(0)
    print(f"CPython {sys.version.split()[0]}, Paddle {paddle.__version__}")
    rows = [HEADING]
    with paddle.no_grad():
        warm_up()
    for case in options.case or CASES:
        with paddle.set_grad_enabled(case in TRAINED):
            rows += measure(case, options.rounds)
    print(table(rows))
    print(f"\n{sot.stats()}")


if __name__ == "__main__":
    main()
