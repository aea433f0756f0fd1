"""Layers made in the function: the layer and its parts are the same objects wherever they end up."""

import paddle
import pytest
from paddle import nn

import sot


def run(fn, same, *args):
    """Compares three calls with eager mode. Each call gets new arguments."""
    fast = sot.symbolic_translate(fn)
    for _ in range(3):
        same(fast(*[arg() for arg in args]), fn(*[arg() for arg in args]))
    assert sot.stats().translations and not sot.stats().graph_errors
    return sot.stats()


def ones():
    return paddle.ones([4])


def a_block_is_evaluated(x):
    net = nn.Sequential(nn.Sequential(nn.Dropout(0.5)))
    inner = net[0]
    inner.eval()
    return net(x), net[0].training, net[0] is inner


def a_hook_is_removed(x):
    relu = nn.ReLU()
    hook = relu.register_forward_post_hook(lambda layer, args, out: out * 2)
    y = relu(x)
    hook.remove()
    return y.tolist(), relu(x).tolist()


def a_layer_is_added(x):
    relu = nn.ReLU()
    relu.add_sublayer("next", nn.Tanh())
    if x.sum() > 0:
        x = x + 1
    return x, len(relu.sublayers())


def a_block_behind_a_break(x):
    net = nn.Sequential(nn.Sequential(nn.ReLU()), nn.Tanh())
    inner, last = net[0], net[1]
    sot.psdb.breakgraph()
    return net(x), net[0] is inner, net[1] is last, inner[0] is net[0][0]


def a_list_behind_a_break(x):
    layers = nn.LayerList([nn.LayerList([nn.ReLU()]), nn.Tanh()])
    first = list(layers)[0]
    sot.psdb.breakgraph()
    first.append(nn.Tanh())
    return x + len(layers[0]), layers[0] is first


def dicts_behind_a_break(x):
    relu = nn.ReLU()
    parts = [relu._sub_layers, relu._buffers, relu._forward_pre_hooks, relu._forward_post_hooks]
    names = relu._non_persistable_buffer_names_set
    sot.psdb.breakgraph()
    names.add("found")
    again = [relu._sub_layers, relu._buffers, relu._forward_pre_hooks, relu._forward_post_hooks]
    return relu(x), [one is other for one, other in zip(parts, again)], relu._non_persistable_buffer_names_set


def a_hook_of_a_block(x):
    net = nn.Sequential(nn.Sequential(nn.ReLU()))
    net[0].register_forward_post_hook(lambda layer, args, out: out + 3)
    first = net(x)
    sot.psdb.breakgraph()
    return first, net(x)


def an_attribute_of_a_block(x):
    net = nn.Sequential(nn.Sequential(nn.ReLU()))
    net[0].tag = "first"
    net[0][0].tag = "second"
    sot.psdb.breakgraph()
    return x + 1, net[0].tag, net[0][0].tag


@pytest.mark.parametrize(
    "fn",
    [
        a_block_is_evaluated,
        a_hook_is_removed,
        a_layer_is_added,
        a_block_behind_a_break,
        a_list_behind_a_break,
        dicts_behind_a_break,
        a_hook_of_a_block,
        an_attribute_of_a_block,
    ],
    ids=lambda fn: fn.__name__,
)
def test_parts_of_a_layer(fn, same):
    run(fn, same, ones)


def test_parts_that_leave_the_function():
    def keep(x, found):
        net = nn.Sequential(nn.Sequential(nn.ReLU()))
        found.append(net[0])
        found.append(net)
        return x * 2

    def hooked(x):
        relu = nn.ReLU()
        return relu, relu.register_forward_post_hook(lambda *args: None), x + 1

    found = []
    sot.symbolic_translate(keep)(ones(), found)
    assert found[1][0] is found[0]
    relu, hook, _ = sot.symbolic_translate(hooked)(ones())
    assert len(relu._forward_post_hooks) == 1
    hook.remove()
    assert not relu._forward_post_hooks
    assert sot.stats().graphs


class Wrap(nn.Layer):
    def __init__(self, base):
        super().__init__()
        self.base = base
        self.scale = self.create_parameter([2])


def wrap_linears(net):
    for name, child in list(net.named_children()):
        if isinstance(child, nn.Linear):
            setattr(net, name, Wrap(child))
        else:
            wrap_linears(child)


def test_layers_are_wrapped_in_others(same):
    def build():
        net = nn.Sequential(nn.Linear(3, 3), nn.Sequential(nn.Linear(3, 1)))
        wrap_linears(net)
        return [name for name, _ in net.named_parameters()]

    run(build, same)


def a_class_and_its_layer(x):
    class Double(nn.Layer):
        def forward(self, z):
            return z * 2

    layer = Double()
    y = layer(x)
    sot.psdb.breakgraph()
    return layer(y), isinstance(layer, Double), type(layer) is Double


def a_derived_class(x):
    class First(nn.Layer):
        def forward(self, z):
            return z * 2

    class Second(First):
        def forward(self, z):
            return super().forward(z) + 1

    layer = Second()
    y = layer(x)
    if y.sum() > 0:
        y = layer(y)
    return y.tolist(), isinstance(layer, First)


def a_class_that_counts(x):
    class Count(nn.ReLU):
        calls = 0

        def forward(self, z):
            Count.calls += 1
            return super().forward(z)

    layer = Count()
    y = layer(x).sum().item()
    layer(x)
    return y, Count.calls, isinstance(layer, Count)


def a_table_of_classes(x):
    class Named(nn.Identity):
        pass

    layer = Named()
    table = {Named: 3}
    sot.psdb.breakgraph()
    return x + table[type(layer)], type(layer) in table


def a_break_in_forward(x):
    class Broken(nn.ReLU):
        def forward(self, z):
            sot.psdb.breakgraph()
            return super().forward(z) + 1

    return Broken()(x)


@pytest.mark.parametrize(
    "fn",
    [a_class_and_its_layer, a_derived_class, a_class_that_counts, a_table_of_classes, a_break_in_forward],
    ids=lambda fn: fn.__name__,
)
def test_classes_of_layers(fn, same):
    run(fn, same, ones)


def test_a_class_of_layers_leaves_the_function():
    def make(x):
        class Double(nn.Layer):
            def forward(self, z):
                return z * 2

        return Double, Double(), x + 1

    fast = sot.symbolic_translate(make)
    first, second = fast(ones()), fast(ones())
    for cls, layer, _ in (first, second):
        assert isinstance(layer, cls) and layer(ones()).tolist() == [2, 2, 2, 2]
    assert first[0] is not second[0] and sot.stats().graphs
