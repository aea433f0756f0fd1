"""One process of a data-parallel training: `distributed_training.py WRAPPER FILE`, by `paddle.distributed.launch`.

Trains twice from the same start, in eager mode and translated, and writes the values that `test_distributed.py`
compares to FILE.RANK.json.
"""

import json
import os
import sys
import time

import numpy as np
import paddle
import paddle.distributed as dist
from paddle import nn
from paddle.distributed import fleet

import sot

STEPS = 5


class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.second = nn.Linear(8, 16), nn.LayerNorm(16), nn.Linear(16, 4)

    def forward(self, x):
        return self.second(nn.functional.gelu(self.norm(self.first(x))))


def prepare(wrapper):
    """Start the environment. Return the functions that wrap models and optimizers."""
    if wrapper == "DataParallel":
        dist.init_parallel_env()
        return paddle.DataParallel, lambda optimizer: optimizer
    fleet.init(is_collective=True)
    return fleet.distributed_model, fleet.distributed_optimizer


def train(wrap_model, wrap_optimizer, translate):
    paddle.seed(1)
    model = wrap_model(Net())
    optimizer = wrap_optimizer(paddle.optimizer.Adam(0.01, parameters=model.parameters()))
    loss_of = translate(lambda x, y: nn.functional.mse_loss(model(x), y))
    random = np.random.RandomState(dist.get_rank())
    losses = []
    for _ in range(STEPS):
        x, y = (paddle.to_tensor(random.randn(4, width).astype("float32")) for width in (8, 4))
        loss = loss_of(x, y)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        losses.append(float(loss))
    return {"losses": losses, "parameters": [parameter.flatten().tolist() for parameter in model.parameters()]}


def main(wrapper, file):
    wrappers = prepare(wrapper)
    results = {"eager": train(*wrappers, lambda function: function), "translated": train(*wrappers, sot.symbolic_translate)}
    stats = sot.stats()
    results["counts"] = {"graphs": stats.graphs, "hits": stats.hits, "fallbacks": sum(stats.fallbacks.values())}
    with open(f"{file}.{dist.get_rank()}.json", "w") as out:
        json.dump(results, out)
    leave(file)


def leave(file):
    """End the process. The first process serves Paddle's store, and must end before its clients: else it aborts."""
    if dist.get_rank() > 0:
        while not os.path.exists(f"{file}.0.json"):
            time.sleep(0.05)
        time.sleep(1)
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
