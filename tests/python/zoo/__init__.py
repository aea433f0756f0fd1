"""The model zoo: models as their users write them, each with what is done with it in eval mode and in training.

A module here registers tasks; `check.py` runs one translated beside eager mode, `page.py` writes `docs/models.md`.
"""

import importlib
import pkgutil

import paddle

TASKS = {}


class Task:
    """A model (or several) and its use. `predict` and `loss` are what is translated, `batch(step)` is what they are given."""

    title = shows = ""
    """What the table calls it, and what of its code is worth a look."""
    learning_rate = 1e-3
    steps = 20
    """Steps of training."""
    rtol = 1e-5
    """For outputs, and for gradients and parameters after the first step."""
    atol = 1e-6
    eval_graphs, eval_breaks = 1, ()
    """What the first call comes to in eval mode: subgraphs, and the ids of the reasons for what is not one of them."""
    train_graphs, train_breaks = 1, ()
    settles = 1
    """The number of the call after which calls in eval mode change nothing that matters to the next."""

    def batch(self, step):
        raise NotImplementedError

    def predict(self, *batch):
        raise NotImplementedError

    def loss(self, *batch):
        raise NotImplementedError

    def layers(self):
        return [value for value in vars(self).values() if isinstance(value, paddle.nn.Layer)]

    def parameters(self):
        return [parameter for layer in self.layers() for parameter in layer.parameters() if not parameter.stop_gradient]

    def buffers(self):
        return [buffer for layer in self.layers() for buffer in layer.buffers()]


def task(cls):
    """Takes a task into the zoo, under the name of its module if that says it."""
    name = f"{cls.__module__.rsplit('.', 1)[1]}.{cls.__name__}"
    assert name not in TASKS, name
    TASKS[name] = cls
    return cls


def load():
    """Imports all modules of the zoo."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    return list(TASKS)
