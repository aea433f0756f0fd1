"""Run in each process of a mesh: functions of distributed tensors, translated and in eager mode.

    python distributed_tensors.py RESULTS
"""

import json
import os
import sys

import paddle
import paddle.distributed as dist
import sot

NUMBER = int(os.environ.get("PADDLE_TRAINERS_NUM", "1"))
MESH = dist.ProcessMesh(list(range(NUMBER)), dim_names=["x"])


def two_operations(a, b):
    return paddle.matmul(a, b) * 2 + 1


def activation(a, b):
    return paddle.nn.functional.relu(a - 3) @ b + a.sum()


def resharded(a, b):
    whole = dist.reshard(a * 2, MESH, [dist.Replicate()])
    return dist.reshard(whole @ b, MESH, [dist.Shard(0)]) + 1


def sharded_here(a, b):
    mesh = dist.ProcessMesh(list(range(NUMBER)), dim_names=["x"])
    whole = paddle.arange(16, dtype="float32").reshape([4, 4])
    part = dist.shard_tensor(whole, mesh, [dist.Shard(1)])
    return a * 2 + part @ b


def partial(a, b):
    summed = dist.shard_tensor(paddle.ones([4]), MESH, [dist.Partial()])
    return dist.reshard(summed, mesh=MESH, placements=[dist.Replicate()]) + a.sum(axis=0) * b


def in_a_loop(a, b):
    for placement in [dist.Replicate(), dist.Shard(0), dist.Replicate()]:
        a = dist.reshard(a * 2, MESH, [placement])
    return a + b


def made_whole(a, b):
    return dist.unshard_dtensor(a @ b) + 1


def asks(a, b):
    c = a @ b
    dense = paddle.ones([4, 4])
    if c.is_dist() and not c.is_dense() and dense.is_dense() and not dense.is_dist():
        return c + dense.shape[0]
    return c


def in_place(a, b):
    c = a * 1
    c.add_(b)
    return c.scale_(0.5)


def breaks(a, b):
    c = a @ b
    if c.sum().item() > 0:
        return c + 1
    return c - 1


FUNCTIONS = [
    two_operations,
    activation,
    resharded,
    sharded_here,
    partial,
    in_a_loop,
    made_whole,
    asks,
    in_place,
    breaks,
]
PLACEMENTS = {
    "whole": (dist.Replicate(), dist.Replicate()),
    "rows": (dist.Shard(0), dist.Replicate()),
    "inner": (dist.Shard(1), dist.Shard(0)),
}


def operands(placements):
    def distributed(whole, placement):
        whole.stop_gradient = False
        return dist.shard_tensor(whole, MESH, [placement])

    first = paddle.arange(16, dtype="float32").reshape([4, 4]) - 5
    second = paddle.cos(paddle.arange(16, dtype="float32")).reshape([4, 4])
    return distributed(first, placements[0]), distributed(second, placements[1])


def described(tensor):
    if tensor is None:
        return None
    placements = repr(tensor.placements) if tensor.is_dist() else "dense"
    local = tensor._local_value() if tensor.is_dist() else tensor
    return [placements, tensor.shape, local.tolist()]


def outcome(function, placements):
    a, b = operands(placements)
    try:
        result = function(a, b)
    except NotImplementedError as error:  # Some exchanges have no kernel for CPUs.
        return [str(error)]
    try:
        result.sum().backward()
    except NotImplementedError as error:
        return [described(result), str(error)]
    return [described(result), described(a.grad), described(b.grad)]


class Net(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        paddle.seed(3)
        self.first = paddle.nn.Linear(4, 8)
        self.second = paddle.nn.Linear(8, 2)
        for layer, placement in [(self.first, dist.Shard(1)), (self.second, dist.Shard(0))]:
            layer.weight = dist.shard_tensor(layer.weight, MESH, [placement])

    def forward(self, x):
        return self.second(paddle.nn.functional.gelu(self.first(x)))


def trained(translate):
    net = Net()
    step = sot.symbolic_translate(net) if translate else net
    adam = paddle.optimizer.AdamW(0.1, parameters=net.parameters())
    losses = []
    for number in range(4):
        x = dist.shard_tensor(paddle.ones([4, 4]) * (number + 1), MESH, [dist.Replicate()])
        loss = (step(x) ** 2).mean()
        loss.backward()
        adam.step()
        adam.clear_grad()
        losses.append(float(loss._local_value()))
    return losses


def counted(run):
    sot.reset()
    result = run()
    now = sot.stats()
    return result, {name: getattr(now, name) for name in ["translations", "graphs", "replayed", "breaks", "fallbacks", "hits"]}


def main(results):
    found = {}
    for function in FUNCTIONS:
        for name, placements in PLACEMENTS.items():
            translated = sot.symbolic_translate(function)
            expected = outcome(function, placements)
            (first, second), counts = counted(lambda: [outcome(translated, placements) for _ in range(2)])
            entry = {"expected": expected, "first": first, "second": second, "counts": counts}
            found["{}, {}".format(function.__name__, name)] = entry
    losses, counts = counted(lambda: trained(True))
    found["training"] = {"expected": trained(False), "first": losses, "second": losses, "counts": counts}
    with open("{}.{}.json".format(results, dist.get_rank()), "w") as file:
        json.dump(found, file)


if __name__ == "__main__":
    if NUMBER > 1:
        dist.init_parallel_env()
    main(sys.argv[1])
