"""The first example of the README: a function of two operations becomes one graph, which is replayed as it is small."""

import paddle

import sot


def scale_and_clip(x, factor=2.0):
    return paddle.nn.functional.relu(x * factor)


fast = sot.symbolic_translate(scale_and_clip)
x = paddle.to_tensor([-1.0, 0.5, 3.0])

print(fast(x))  # translated on this call
print(fast(x))  # found by its guards
print(sot.stats())
print()
print(sot.explain(scale_and_clip)(x))
