"""numpy's arrays and numbers that are made in the function of known values."""

import copy

import numpy as np
from numpy import linspace


def makers(x):
    return x + 1, np.array([1, 2]), np.zeros((2, 2)), np.ones(3, "int8"), np.full(2, 7.5), np.arange(3), linspace(0, 1, 3), np.eye(2)


def sum_of_a_list(x):
    return x + int(np.array([1, 2]).sum())


def operators(x):
    a = np.arange(3)
    return x + float((a * 2 - 1.5).sum()), a / 2, -a, a @ a, a > 1, 3 - a, a**2 == 4


def numbers(x):
    a, b = np.float32(1.5), np.int64(7)
    return x * float(a), a + b, b // 2, b % 3, divmod(b, 2), abs(-a), int(b), a == 1.5, np.bool_(True) and b


def attributes(x):
    a = np.ones((2, 3), "float32")
    return x + a.ndim, a.shape, a.dtype, a.size, a.nbytes, a.T, a.dtype == np.float32


def indices(x):
    a = np.arange(12).reshape(3, 4)
    return x + int(a[1, 2]), a[0], a[:, 1:3], a[..., -1], a[a % 2 == 0], a[[0, 2]], a[np.newaxis, 0].shape


def iteration(x):
    total = 0
    for row in np.arange(4).reshape(2, 2):
        for item in row:
            total += item.item()
    first, second = np.array([5, 6])
    return x + total, [i + 1 for i in np.arange(3)], first, second, list(zip(np.arange(2), "ab")), len(np.zeros(3))


def reductions(x):
    a = np.array([[3.0, 1.0], [2.0, 4.0]])
    return x + float(a.mean()), a.sum(axis=0), a.max(), a.argmax(), a.min(axis=1), np.prod(a), np.std(a), a.cumsum(), np.add.reduce(a)


def conversions(x):
    a = np.array([1.7, 2.2])
    return x + 1, a.tolist(), a.astype("int64"), float(a[0]), int(a[1]), a.copy(), bool(a[0]), a.tobytes(), list(a), np.asarray(a) is a


def shapes(x):
    a = np.arange(6)
    joined = np.concatenate([a, a[:2]])
    return x + 1, a.reshape(2, 3), a.reshape(-1, 2).T, np.stack([a, a]), joined, np.split(a, 3), np.expand_dims(a, 0), a.ravel() is a


def views(x):
    a = np.zeros(4)
    b = a[1:3]
    b[0] = 5
    return x + float(a.sum()), a, b, b.base is a, a.reshape(2, 2)


def writes(x):
    a = np.zeros((3, 3))
    a[0] = [1, 2, 3]
    a[1, 1] += 4
    a *= 2
    a[a == 0] = -1
    a.sort(axis=1)
    np.add(a, 1, out=a)
    return x + float(a.sum()), a


def mask(x):
    n = x.shape[0]
    allowed = np.zeros((n, n), dtype=bool)
    for i in range(n):
        allowed[i, : i + 1] = True
    return x + int(allowed.sum()), allowed, np.tril(np.ones((n, n), dtype=bool)), np.array_equal(allowed, np.tril(allowed))


def positions(x):
    angles = np.arange(x.shape[0])[:, None] / np.power(10000, 2 * np.arange(2) / 4)
    table = np.concatenate([np.sin(angles), np.cos(angles)], axis=-1).astype("float32")
    return x + float(table[0].sum()), table


def functions(x):
    a = np.array([0.5, 0.25])
    return x + 1, np.sin(a), np.maximum(a, 0.3), np.where(a > 0.3, 1, 0), np.clip(a, 0, 0.4), np.outer(a, a), np.linalg.norm(a), np.unique([2, 1, 2])


def errors(x):
    try:
        np.zeros(2) + np.zeros(3)
    except ValueError as error:
        return x + 1, str(error)


def conditions(x):
    a = np.array([1, 2])
    if (a > 0).all() and not np.any(a > 5) and 2 in a and a[0]:
        return x + 1
    return x - 1


def containers(x):
    a = np.arange(2)
    held = {"a": a, "rows": [a, a]}
    held["rows"][0][1] = 9
    return x + int(held["a"][1]), held, isinstance(a, np.ndarray), type(a).__name__


def copies(x):
    a = np.arange(6).reshape(2, 3)
    shallow, deep, turned = copy.copy(a), copy.deepcopy(a), copy.deepcopy(a.T)
    shallow[0, 0] = 9
    return x + int(shallow[0, 0]), a, shallow, deep, turned, copy.deepcopy(a[:, ::2])


def copies_in_containers(x):
    a = np.zeros(2)
    settings = {"a": a, "b": [np.ones(2), a]}
    made = copy.deepcopy(settings)
    made["a"][0] = 5
    return x + 1, settings, made, made["a"] is made["b"][1]
