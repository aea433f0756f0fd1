"""The classification models of `paddle.vision.models`, the smallest of each family."""

import paddle
import paddle.nn.functional as F

from . import Task, task


class Vision(Task):
    make, size, channels = None, 32, 3
    narrow = {}
    """Linear layers with tens of millions of weights, and what they are given instead: inputs and outputs."""
    steps = 2
    learning_rate = 1e-4
    rtol, atol = 1e-4, 1e-5

    def __init__(self):
        self.model = type(self).make(num_classes=7)
        for path, width in self.narrow.items():
            replace(self.model, path, width)

    def batch(self, step):
        return paddle.randn([2, self.channels, self.size, self.size]), paddle.randint(0, 7, [2])

    def predict(self, images, labels):
        with paddle.no_grad():
            return self.model(images)

    def loss(self, images, labels):
        outputs = self.model(images)
        if isinstance(outputs, (list, tuple)):
            return sum(F.cross_entropy(output, labels) for output in outputs)
        return F.cross_entropy(outputs, labels)


def replace(model, path, shape):
    *owners, name = path.split(".")
    for owner in owners:
        model = getattr(model, owner)
    assert isinstance(getattr(model, name), paddle.nn.Linear)
    setattr(model, name, paddle.nn.Linear(*shape))


def vision(name, **settings):
    """Takes a model of `paddle.vision.models` into the zoo."""
    make = staticmethod(getattr(paddle.vision.models, name))
    settings.setdefault("title", f"`{name}`")
    task(type(name, (Vision,), {"make": make, "__module__": __name__, **settings}))


vision("LeNet", size=28, channels=1)
vision("alexnet", size=64, narrow={"_fc6": (256, 32), "_fc7": (32, 32), "_fc8": (32, 7)})
vision("densenet121", steps=1)
vision("googlenet", size=224, steps=1)
vision("inception_v3", size=75, steps=1)
vision("mobilenet_v1")
vision("mobilenet_v2")
vision("mobilenet_v3_small")
vision("resnet18")
vision("resnext50_32x4d", steps=1)
vision("wide_resnet50_2", steps=1)
vision("shufflenet_v2_x0_25")
vision("squeezenet1_1")
vision("vgg11", steps=1, narrow={"classifier.0": (25088, 32), "classifier.3": (32, 32), "classifier.6": (32, 7)})
