"""Gradients of the tensors that operations take as values, numbers or bounds, beside eager mode.

Static mode may take such a tensor for a number, compute its gradient by another kernel, or say that a gradient flows
to it where eager mode has none.
"""

import paddle
import pytest
from paddle.nn import functional as F

import sot


def set_by_mask(x, mask, at, value, row):
    y = x * 1
    y[mask] = value
    return y


def set_by_part_of_a_mask(x, mask, at, value, row):
    y = x * 1
    y[mask[:, 0], 1] = value
    return y


def set_rows_by_a_list(x, mask, at, value, row):
    y = x * 1
    y[[True, False, True]] = value
    return y


def set_rows_by_a_mask(x, mask, at, value, row):
    y = x * 1
    y[mask[:, 0]] = row
    return y


def set_by_index(x, mask, at, value, row):
    y = x * 1
    y[at] = row
    y[0, 1] = value
    return y


def zeros_set_by_mask(x, mask, at, value, row):
    y = paddle.zeros([3, 4])
    y[mask] = value
    return y


def weighted_bce(x, mask, at, value, row):
    return F.binary_cross_entropy_with_logits(x, mask.astype("float32"), pos_weight=row)


CALLS = {
    "add_n": lambda x, mask, at, value, row: paddle.add_n([x, x * value]),
    "arange": lambda x, mask, at, value, row: paddle.arange(0, value, 0.5),
    "bce": weighted_bce,
    "clip": lambda x, mask, at, value, row: x.clip(value - 3, value),
    "clip from below": lambda x, mask, at, value, row: paddle.clip(x, min=value),
    "cross_entropy": lambda x, mask, at, value, row: F.cross_entropy(x, at, weight=row),
    "diagonal_scatter": lambda x, mask, at, value, row: paddle.diagonal_scatter(x, row[:3]),
    "dropout": lambda x, mask, at, value, row: F.dropout(x * row, 0.0),
    "dropout of a rate": lambda x, mask, at, value, row: F.dropout(x, value * 0.2),
    "expand_as": lambda x, mask, at, value, row: paddle.expand_as(value, x),
    "fmax": lambda x, mask, at, value, row: paddle.fmax(x, value),
    "full": lambda x, mask, at, value, row: paddle.full([2], value),
    "full_like": lambda x, mask, at, value, row: paddle.full_like(x, value),
    "index_add": lambda x, mask, at, value, row: x.index_add(at, 0, row * x),
    "index_fill": lambda x, mask, at, value, row: paddle.index_fill(x, at, 0, value),
    "index_put": lambda x, mask, at, value, row: x.index_put((at,), row),
    "kl_div": lambda x, mask, at, value, row: F.kl_div(x, F.softmax(x * row)),
    "label_smooth": lambda x, mask, at, value, row: F.label_smooth(F.softmax(x), prior_dist=row.unsqueeze(0)),
    "lerp": lambda x, mask, at, value, row: x.lerp(row, value),
    "linspace": lambda x, mask, at, value, row: paddle.linspace(value, 3, 4),
    "log_loss": lambda x, mask, at, value, row: F.log_loss(F.sigmoid(x[:, :1]), F.sigmoid(row[:3].unsqueeze(1))),
    "masked_fill": lambda x, mask, at, value, row: x.masked_fill(mask, value),
    "masked_fill by a new value": lambda x, mask, at, value, row: x.masked_fill(mask, value * 2),
    "masked_scatter": lambda x, mask, at, value, row: x.masked_scatter(mask, x * row),
    "maximum": lambda x, mask, at, value, row: paddle.maximum(x, row),
    "nll_loss": lambda x, mask, at, value, row: F.nll_loss(x, at, weight=row),
    "pow": lambda x, mask, at, value, row: (x.abs() + 1) ** value,
    "put_along_axis": lambda x, mask, at, value, row: x.put_along_axis(at.unsqueeze(1), value, 1),
    "scale": lambda x, mask, at, value, row: paddle.scale(x, value, 1.0),
    "scatter": lambda x, mask, at, value, row: x.scatter(at, x * row),
    "select_scatter": lambda x, mask, at, value, row: paddle.select_scatter(x, row, 0, 1),
    "set by an index": set_by_index,
    "set by a mask": set_by_mask,
    "set by a mask and an index": set_by_part_of_a_mask,
    "set rows by a list": set_rows_by_a_list,
    "set rows by a mask": set_rows_by_a_mask,
    "slice_scatter": lambda x, mask, at, value, row: paddle.slice_scatter(x, row.unsqueeze(0), [0], [1], [2], [1]),
    "where": lambda x, mask, at, value, row: paddle.where(mask, x, value),
    "where with a new value": lambda x, mask, at, value, row: paddle.where(mask, row * 2, x),
    "zeros set by a mask": zeros_set_by_mask,
}


def gradients(function, wanting):
    """The result of a call, and the gradients of the tensors that want one."""
    paddle.seed(5)
    x = paddle.to_tensor([[0.5, -1.0, 2.0, 0.25], [1.5, 3.0, -2.0, -0.5], [0.75, 1.25, -0.25, 4.0]])
    value, row = paddle.to_tensor(1.5), paddle.to_tensor([0.5, 2.0, 1.0, -1.0])
    mask, at = x > 0, paddle.to_tensor([2, 0, 1])
    given = {"x": x, "value": value, "row": row}
    for name in wanting:
        given[name].stop_gradient = False
    result = function(x, mask, at, value, row)
    if not result.stop_gradient:
        (result * paddle.arange(1.0, result.numel().item() + 1).reshape(result.shape)).sum().backward()
    found = {name: None if given[name].grad is None else given[name].grad.tolist() for name in wanting}
    return result.tolist(), result.stop_gradient, found


@pytest.mark.parametrize("function", CALLS.values(), ids=CALLS)
def test_gradients_of_values(function):
    fast = sot.symbolic_translate(function)
    for wanting in (["x", "value", "row"], ["value", "row"], ["x"]):
        expected = gradients(function, wanting)
        for _ in range(2):
            assert gradients(fast, wanting) == expected, wanting
    assert sot.stats().graphs > 0 and not sot.stats().fallbacks, sot.stats()


# Positions that a tensor tells may occur twice, where a program sends gradients to both values.
@pytest.mark.parametrize("function", [set_by_part_of_a_mask, set_rows_by_a_mask])
def test_other_values_that_are_set_stay_in_the_graph(function):
    fast = sot.symbolic_translate(function)
    for _ in range(2):
        assert gradients(fast, ["x", "value", "row"]) == gradients(function, ["x", "value", "row"])
    assert sot.stats().graphs == 1 and not sot.stats().breaks, sot.stats()


def test_only_the_gradient_of_the_value_breaks_the_graph(same):
    fast = sot.symbolic_translate(lambda x, mask, value: x.masked_fill(mask, value) * 2)
    x = paddle.to_tensor([1.0, -2.0], stop_gradient=False)
    for _ in range(2):
        same(fast(x, x > 0, paddle.to_tensor(3.0)), x.masked_fill(x > 0, paddle.to_tensor(3.0)) * 2)
    assert sot.stats().graphs == 1 and not sot.stats().breaks, sot.stats()


# An operation reads `z`, which the graph has computed, and its result is added to `z`: the executor may write the sum over `z`. What the
# operation has kept of `z` for the backward pass must stay.
RESIDUALS = {
    "einsum, matmul": lambda a, z: paddle.einsum("ij,jk->ik", a, z),
    "einsum, first operand": lambda a, z: paddle.einsum("ij,jk->ik", z, a),
    "einsum, transposed": lambda a, z: paddle.einsum("ij,kj->ik", a, z),
    "einsum, batched": lambda a, z: paddle.einsum("bij,bjk->bik", a.unsqueeze(0), z.unsqueeze(0))[0],
    "einsum, twice": lambda a, z: paddle.einsum("ij,ij->ij", z, z),
    "einsum, sum": lambda a, z: paddle.einsum("bi,bi->b", z, z).unsqueeze(1),
    "einsum, three": lambda a, z: paddle.einsum("ij,jk,kl->il", a, z, a),
    "einsum, outer": lambda a, z: paddle.einsum("i,j->ij", a[0], z[0]),
    "matmul": lambda a, z: a @ z,
    "matmul, transposed": lambda a, z: paddle.matmul(z, z, transpose_y=True) @ a,
    "bmm": lambda a, z: paddle.bmm(a.unsqueeze(0), z.unsqueeze(0)).squeeze(0),
    "multiply": lambda a, z: a * z,
    "tanh": lambda a, z: z.tanh() * a,
    "softmax": lambda a, z: F.softmax(z) * a,
    "layer_norm": lambda a, z: F.layer_norm(z, [4]) * a,
    "outer": lambda a, z: paddle.outer(a[0], z[0]),
    "tensordot": lambda a, z: paddle.tensordot(a, z, 1),
    "attention": lambda a, z: F.scaled_dot_product_attention(*[z.reshape([1, 4, 2, 2])] * 3).reshape([4, 4]),
    "gather": lambda a, z: z[paddle.to_tensor([1, 0, 3, 2])] * a,
    "concat": lambda a, z: paddle.concat([z[:2], z[2:]]).exp() * a,
    "where": lambda a, z: paddle.where(z > 0, z, a) * z,
}


@pytest.mark.parametrize("operation", RESIDUALS.values(), ids=RESIDUALS)
def test_what_an_operation_keeps_of_a_value_that_the_graph_adds_to(operation):
    def f(x, w):
        z = x @ w
        a = F.softmax(x.exp() @ w)
        return z + operation(a, z)

    def gradients(run):
        paddle.seed(3)
        found = []
        w = paddle.rand([4, 4])
        w.stop_gradient = False
        for _ in range(3):
            x = paddle.rand([4, 4])
            x.stop_gradient = False
            run(x, w).square().sum().backward()
            found.append((x.grad.tolist(), w.grad.tolist()))
            w.clear_gradient(False)
        return found

    expected = gradients(f)
    assert gradients(sot.symbolic_translate(f)) == expected
    assert sot.stats().graphs == 1 and not sot.stats().breaks
