"""Arguments to call Paddle's functions with: made from the names of a function's parameters, with exceptions by function."""

import inspect

import paddle


def floats(*shape):
    """Values between 0.1 and 0.9, all different, so that most functions are defined and smooth there."""
    count = 1
    for size in shape:
        count *= size
    values = paddle.arange(count, dtype="float32") * 7 % (count + 1) / (count + 1)
    return (values * 0.8 + 0.1).reshape(list(shape))


def ints(*shape, below=3):
    count = 1
    for size in shape:
        count *= size
    return (paddle.arange(count, dtype="int64") % below).reshape(list(shape))


def bools(*shape):
    return ints(*shape, below=2).astype("bool")


def square():
    return floats(3, 3) + paddle.eye(3)


def positive():
    """Symmetric and positive definite."""
    a = square()
    return a @ a.T + paddle.eye(3)


def image():
    return floats(1, 4, 6, 6)


# Arguments by the name of the parameter.
BY_NAME = {
    "x": lambda: floats(3, 4),
    "input": lambda: floats(3, 4),
    "self": lambda: floats(3, 4),
    "X": lambda: floats(3, 4),
    "a": lambda: floats(3, 4),
    "arr": lambda: floats(3, 4),
    "logits": lambda: floats(3, 4),
    "logit": lambda: floats(3, 4),
    "tensor": lambda: floats(3, 4),
    "y": lambda: floats(3, 4) + 0.05,
    "other": lambda: floats(3, 4) + 0.05,
    "value": lambda: 0.5,
    "values": lambda: floats(3, 4),
    "input1": lambda: floats(3, 4),
    "input2": lambda: floats(3, 4) + 0.05,
    "x1": lambda: floats(3, 4),
    "x2": lambda: floats(3, 4) + 0.05,
    "label": lambda: floats(3, 4),
    "labels": lambda: floats(3, 4),
    "mask": lambda: bools(3, 4),
    "condition": lambda: bools(3, 4),
    "index": lambda: ints(3),
    "indices": lambda: ints(3, 4),
    "shape": lambda: [3, 4],
    "size": lambda: [3, 4],
    "axis": lambda: 0,
    "dim": lambda: 0,
    "axes": lambda: [0],
    "perm": lambda: [1, 0],
    "num_or_sections": lambda: 2,
    "num_or_indices": lambda: 2,
    "chunks": lambda: 2,
    "num": lambda: 3,
    "n": lambda: 2,
    "k": lambda: 2,
    "shifts": lambda: 1,
    "repeats": lambda: 2,
    "repeat_times": lambda: [2, 1],
    "dtype": lambda: "float32",
    "min": lambda: 0.3,
    "max": lambda: 0.6,
    "weight": lambda: floats(4),
    "inputs": lambda: [floats(3, 4), floats(3, 4)],
    "tensors": lambda: [floats(3, 4), floats(3, 4)],
    "num_classes": lambda: 4,
    "num_rows": lambda: 3,
    "groups": lambda: 2,
    "kernel_size": lambda: 2,
    "output_size": lambda: 2,
    "upscale_factor": lambda: 2,
    "downscale_factor": lambda: 2,
    "p": lambda: 2,
    "q": lambda: 0.5,
    "fill_value": lambda: 2.0,
    "start": lambda: 0,
    "stop": lambda: 5,
    "end": lambda: 5,
    "func": lambda: lambda x: x + 1,
    "training": lambda: False,
    "random_seed": lambda: 0,
    "sections": lambda: 2,
    "padding": lambda: 1,
    "pad": lambda: [1, 1],
    "offset": lambda: 0,
    "diagonal": lambda: 0,
    "source": lambda: floats(3, 4),
    "vec": lambda: floats(4),
    "mat": lambda: floats(3, 4),
    "variance": lambda: floats(3, 4),
    "normalized_shape": lambda: [4],
    "num_groups": lambda: 2,
    "exponent": lambda: ints(3, 4),
    "equation": lambda: "ij,kj->ik",
    "end_axis": lambda: 1,
}


def _f(*args, **kwargs):
    return args, kwargs


def _ones(make, *more, **kwargs):
    return lambda: _f(make(), *more, **kwargs)


def _two(make):
    return lambda: _f(make(), make())


_conv1, _conv2, _conv3 = (lambda: floats(1, 4, 6)), image, (lambda: floats(1, 4, 4, 4, 4))
_complex = lambda: paddle.complex(floats(3, 4), floats(3, 4))



def _sparse():
    return paddle.sparse.sparse_coo_tensor([[0, 1, 2], [1, 0, 2]], [0.5, 0.25, 0.75], [3, 3])


# The last part of a function's name -> its arguments.
SPECIAL = {
    "Size": lambda: _f([1, 2]),
    "addmm": lambda: _f(floats(3, 3), floats(3, 4), floats(4, 3)),
    "addmm_": lambda: _f(floats(3, 3), floats(3, 4), floats(4, 3)),
    "baddbmm": lambda: _f(floats(2, 3, 3), floats(2, 3, 4), floats(2, 4, 3)),
    "baddbmm_": lambda: _f(floats(2, 3, 3), floats(2, 3, 4), floats(2, 4, 3)),
    "bmm": lambda: _f(floats(2, 3, 4), floats(2, 4, 3)),
    "mm": lambda: _f(floats(3, 4), floats(4, 3)),
    "matmul": lambda: _f(floats(3, 4), floats(4, 3)),
    "dot": lambda: _f(floats(4), floats(4)),
    "vecdot": lambda: _f(floats(4), floats(4)),
    "mv": lambda: _f(floats(3, 4), floats(4)),
    "inner": lambda: _f(floats(3, 4), floats(3, 4)),
    "cross": lambda: _f(floats(3, 3), floats(3, 3)),
    "multi_dot": lambda: _f([floats(3, 4), floats(4, 3)]),
    "block_diag": lambda: _f([floats(3, 4), floats(4, 3)]),
    "concat": lambda: _f([floats(3, 4), floats(3, 4)]),
    "stack": lambda: _f([floats(3, 4), floats(3, 4)]),
    "add_n": lambda: _f([floats(3, 4), floats(3, 4)]),
    "meshgrid": lambda: _f(floats(3), floats(4)),
    "broadcast_tensors": lambda: _f([floats(3, 4), floats(1, 4)]),
    "broadcast_shape": lambda: _f([3, 1], [1, 4]),
    "cartesian_prod": lambda: _f([floats(3), floats(2)]),
    "multiplex": lambda: _f([floats(3, 4), floats(3, 4)], ints(3, 1, below=2).astype("int32")),
    "index_sample": lambda: _f(floats(3, 4), ints(3, 2)),
    "index_add": lambda: _f(floats(3, 4), ints(2), 0, floats(2, 4)),
    "index_add_": lambda: _f(floats(3, 4), ints(2), 0, floats(2, 4)),
    "index_put": lambda: _f(floats(3, 4), (ints(2), ints(2)), floats(2)),
    "index_put_": lambda: _f(floats(3, 4), (ints(2), ints(2)), floats(2)),
    "index_fill": lambda: _f(floats(3, 4), ints(2), 0, 0.5),
    "index_fill_": lambda: _f(floats(3, 4), ints(2), 0, 0.5),
    "gather_nd": lambda: _f(floats(3, 4), ints(2, 1)),
    "scatter": lambda: _f(floats(3, 4), ints(2), floats(2, 4)),
    "scatter_": lambda: _f(floats(3, 4), ints(2), floats(2, 4)),
    "scatter_nd": lambda: _f(ints(2, 1), floats(2, 4), [3, 4]),
    "scatter_nd_add": lambda: _f(floats(3, 4), ints(2, 1), floats(2, 4)),
    "scatter_reduce": lambda: _f(floats(3, 4), 0, ints(3, 4), floats(3, 4), "sum"),
    "scatter_add": lambda: _f(floats(3, 4), 0, ints(3, 4), floats(3, 4)),
    "scatter_add_": lambda: _f(floats(3, 4), 0, ints(3, 4), floats(3, 4)),
    "select_scatter": lambda: _f(floats(3, 4), floats(4), 0, 1),
    "slice_scatter": lambda: _f(floats(3, 4), floats(1, 4), [0], [0], [1], [1]),
    "diagonal_scatter": lambda: _f(floats(3, 3), floats(3)),
    "masked_scatter": lambda: _f(floats(3, 4), bools(3, 4), floats(12)),
    "masked_scatter_": lambda: _f(floats(3, 4), bools(3, 4), floats(12)),
    "put_along_axis": lambda: _f(floats(3, 4), ints(3, 4), 0.5, 0),
    "put_along_axis_": lambda: _f(floats(3, 4), ints(3, 4), 0.5, 0),
    "take_along_axis": lambda: _f(floats(3, 4), ints(3, 4), 0),
    "take": lambda: _f(floats(3, 4), ints(3)),
    "where": lambda: _f(bools(3, 4), floats(3, 4), floats(3, 4) + 1),
    "where_": lambda: _f(bools(3, 4), floats(3, 4), floats(3, 4) + 1),
    "slice": lambda: _f(floats(3, 4), [0], [0], [2]),
    "strided_slice": lambda: _f(floats(3, 4), [0], [0], [2], [1]),
    "crop": lambda: _f(floats(3, 4), [2, 2], [0, 1]),
    "expand": lambda: _f(floats(1, 4), [3, 4]),
    "expand_as": lambda: _f(floats(1, 4), floats(3, 4)),
    "broadcast_to": lambda: _f(floats(1, 4), [3, 4]),
    "view": lambda: _f(floats(3, 4), [4, 3]),
    "reshape": lambda: _f(floats(3, 4), [4, 3]),
    "reshape_": lambda: _f(floats(3, 4), [4, 3]),
    "unflatten": lambda: _f(floats(3, 4), 1, [2, 2]),
    "as_strided": lambda: _f(floats(3, 4), [2, 2], [4, 1]),
    "unfold": lambda: _f(image(), [2, 2]),
    "fold": lambda: _f(floats(1, 12, 4), [3, 3], [2, 2]),
    "split": lambda: _f(floats(4, 4), 2),
    "tensor_split": lambda: _f(floats(4, 4), 2),
    "hsplit": lambda: _f(floats(4, 4), 2),
    "vsplit": lambda: _f(floats(4, 4), 2),
    "dsplit": lambda: _f(floats(2, 2, 4), 2),
    "chunk": lambda: _f(floats(4, 4), 2),
    "moveaxis": lambda: _f(floats(3, 4), 0, 1),
    "movedim": lambda: _f(floats(3, 4), 0, 1),
    "swapaxes": lambda: _f(floats(3, 4), 0, 1),
    "swapdims": lambda: _f(floats(3, 4), 0, 1),
    "rot90": lambda: _f(floats(3, 4)),
    "shard_index": lambda: _f(ints(3, 1), 20, 2, 0),
    "bincount": lambda: _f(ints(5)),
    "one_hot": lambda: _f(ints(4), 4),
    "embedding": lambda: _f(ints(4), floats(3, 4)),
    "embedding_renorm_": lambda: _f(ints(4), floats(3, 4), 0.5),
    "cholesky": lambda: _f(positive()),
    "cholesky_inverse": lambda: _f(positive()),
    "cholesky_solve": lambda: _f(floats(3, 1), paddle.linalg.cholesky(positive())),
    "solve": lambda: _f(square(), floats(3, 1)),
    "triangular_solve": lambda: _f(paddle.triu(square()), floats(3, 1)),
    "lstsq": lambda: _f(floats(4, 3) + paddle.eye(4, 3), floats(4, 1)),
    "lu_solve": lambda: _f(floats(3, 1), *paddle.linalg.lu(square())[:2]),
    "lu_unpack": lambda: _f(*paddle.linalg.lu(square())[:2]),
    "inverse": lambda: _f(square()),
    "inv": lambda: _f(square()),
    "det": lambda: _f(square()),
    "slogdet": lambda: _f(square()),
    "eig": lambda: _f(square()),
    "eigvals": lambda: _f(square()),
    "eigh": lambda: _f(positive()),
    "eigvalsh": lambda: _f(positive()),
    "matrix_power": lambda: _f(square(), 2),
    "matrix_exp": lambda: _f(square()),
    "householder_product": lambda: _f(floats(3, 3), floats(3)),
    "ormqr": lambda: _f(floats(3, 3), floats(3), floats(3, 3)),
    "lu": lambda: _f(square()),
    "qr": lambda: _f(square()),
    "trace": lambda: _f(square()),
    "histogramdd": lambda: _f(floats(6, 2), [2, 2]),
    "histogram_bin_edges": lambda: _f(floats(3, 4)),
    "bucketize": lambda: _f(floats(3, 4), paddle.to_tensor([0.2, 0.5])),
    "searchsorted": lambda: _f(paddle.to_tensor([0.2, 0.5]), floats(3, 4)),
    "polar": lambda: _f(floats(3, 4), floats(3, 4)),
    "complex": lambda: _f(floats(3, 4), floats(3, 4)),
    "as_complex": lambda: _f(floats(3, 2)),
    "as_real": lambda: _f(_complex()),
    "conj": lambda: _f(_complex()),
    "angle": lambda: _f(_complex()),
    "vander": lambda: _f(floats(3)),
    "combinations": lambda: _f(floats(4)),
    "gcd": lambda: _f(ints(4) + 2, ints(4) + 4),
    "gcd_": lambda: _f(ints(4) + 2, ints(4) + 4),
    "lcm": lambda: _f(ints(4) + 2, ints(4) + 4),
    "lcm_": lambda: _f(ints(4) + 2, ints(4) + 4),
    "ldexp": lambda: _f(floats(4), ints(4)),
    "ldexp_": lambda: _f(floats(4), ints(4).astype("float32")),
    "renorm": lambda: _f(floats(3, 4), 2.0, 0, 0.5),
    "renorm_": lambda: _f(floats(3, 4), 2.0, 0, 0.5),
    "multigammaln": lambda: _f(floats(3, 4) + 3, 2),
    "multigammaln_": lambda: _f(floats(3, 4) + 3, 2),
    "polygamma": lambda: _f(floats(3, 4), 1),
    "polygamma_": lambda: _f(floats(3, 4), 1),
    "acosh": lambda: _f(floats(3, 4) + 1),
    "acosh_": lambda: _f(floats(3, 4) + 1),
    "lerp": lambda: _f(floats(3, 4), floats(3, 4), 0.5),
    "lerp_": lambda: _f(floats(3, 4), floats(3, 4), 0.5),
    "quantile": lambda: _f(floats(3, 4), 0.5),
    "nanquantile": lambda: _f(floats(3, 4), 0.5),
    "multinomial": lambda: _f(floats(3, 4), 2),
    "randint": lambda: _f(0, 5, [3, 4]),
    "randint_like": lambda: _f(floats(3, 4), 0, 5),
    "randperm": lambda: _f(5),
    "bartlett_window": lambda: _f(5),
    "blackman_window": lambda: _f(5),
    "hamming_window": lambda: _f(5),
    "hann_window": lambda: _f(5),
    "kaiser_window": lambda: _f(5),
    "tensor": lambda: _f([1.0, 2.0]),
    "bernoulli": lambda: _f(floats(3, 4)),
    "binomial": lambda: _f(ints(3, 4), floats(3, 4)),
    "poisson": lambda: _f(floats(3, 4)),
    "top_p_sampling": lambda: _f(floats(3, 4), floats(3, 1)),
    "full": lambda: _f([3, 4], 2.0),
    "arange": lambda: _f(0, 5, 1),
    "linspace": lambda: _f(0.0, 1.0, 5),
    "logspace": lambda: _f(0.0, 1.0, 5),
    "eye": lambda: _f(3),
    "tril_indices": lambda: _f(3, 3, 0),
    "triu_indices": lambda: _f(3, 3, 0),
    "einsum": lambda: _f("ij,kj->ik", floats(3, 4), floats(2, 4)),
    "tensordot": lambda: _f(floats(3, 4), floats(4, 3), 1),
    "cdist": lambda: _f(floats(3, 4), floats(2, 4)),
    "pdist": lambda: _f(floats(3, 4)),
    "cov": lambda: _f(floats(3, 4)),
    "corrcoef": lambda: _f(floats(3, 4)),
    "stft": lambda: _f(floats(1, 64), 16),
    "istft": lambda: _f(paddle.signal.stft(floats(1, 64), 16), 16),
    "frame": lambda: _f(floats(16), 4, 2),
    "overlap_add": lambda: _f(floats(4, 4), 2),
    "linear": lambda: _f(floats(3, 4), floats(4, 2)),
    "bilinear": lambda: _f(floats(3, 4), floats(3, 2), floats(5, 4, 2)),
    "conv1d": lambda: _f(_conv1(), floats(2, 4, 3)),
    "conv2d": lambda: _f(_conv2(), floats(2, 4, 3, 3)),
    "conv3d": lambda: _f(_conv3(), floats(2, 4, 3, 3, 3)),
    "conv1d_transpose": lambda: _f(_conv1(), floats(4, 2, 3)),
    "conv2d_transpose": lambda: _f(_conv2(), floats(4, 2, 3, 3)),
    "conv3d_transpose": lambda: _f(_conv3(), floats(4, 2, 3, 3, 3)),
    "avg_pool1d": lambda: _f(_conv1(), 2),
    "avg_pool2d": lambda: _f(_conv2(), 2),
    "avg_pool3d": lambda: _f(_conv3(), 2),
    "max_pool1d": lambda: _f(_conv1(), 2),
    "max_pool2d": lambda: _f(_conv2(), 2),
    "max_pool3d": lambda: _f(_conv3(), 2),
    "lp_pool1d": lambda: _f(_conv1(), 2.0, 2),
    "lp_pool2d": lambda: _f(_conv2(), 2.0, 2),
    "fractional_max_pool2d": lambda: _f(_conv2(), 2, random_u=0.3),
    "fractional_max_pool3d": lambda: _f(_conv3(), 2, random_u=0.3),
    "max_unpool1d": lambda: _f(*paddle.nn.functional.max_pool1d(_conv1(), 2, return_mask=True), 2),
    "max_unpool2d": lambda: _f(*paddle.nn.functional.max_pool2d(_conv2(), 2, return_mask=True), 2),
    "max_unpool3d": lambda: _f(*paddle.nn.functional.max_pool3d(_conv3(), 2, return_mask=True), 2),
    "adaptive_avg_pool1d": lambda: _f(_conv1(), 2),
    "adaptive_avg_pool2d": lambda: _f(_conv2(), 2),
    "adaptive_avg_pool3d": lambda: _f(_conv3(), 2),
    "adaptive_max_pool1d": lambda: _f(_conv1(), 2),
    "adaptive_max_pool2d": lambda: _f(_conv2(), 2),
    "adaptive_max_pool3d": lambda: _f(_conv3(), 2),
    "pixel_shuffle": lambda: _f(image(), 2),
    "pixel_unshuffle": lambda: _f(image(), 2),
    "channel_shuffle": lambda: _f(image(), 2),
    "interpolate": lambda: _f(image(), [3, 3]),
    "upsample": lambda: _f(image(), [3, 3]),
    "grid_sample": lambda: _f(image(), floats(1, 3, 3, 2)),
    "affine_grid": lambda: _f(floats(1, 2, 3), [1, 3, 4, 4]),
    "temporal_shift": lambda: _f(floats(4, 4, 3, 3), 2),
    "maxout": lambda: _f(image(), 2),
    "dropout": lambda: _f(floats(3, 4), 0.5),
    "dropout2d": lambda: _f(image(), 0.5),
    "dropout3d": lambda: _f(_conv3(), 0.5),
    "alpha_dropout": lambda: _f(floats(3, 4), 0.5),
    "feature_alpha_dropout": lambda: _f(image(), 0.5),
    "pad": lambda: _f(image(), [1, 1, 1, 1]),
    "zeropad2d": lambda: _f(image(), [1, 1, 1, 1]),
    "local_response_norm": lambda: _f(image(), 3),
    "batch_norm": lambda: _f(floats(3, 4), paddle.zeros([4]), paddle.ones([4])),
    "instance_norm": lambda: _f(image()),
    "group_norm": lambda: _f(image(), 2),
    "layer_norm": lambda: _f(floats(3, 4), [4]),
    "rms_norm": lambda: _f(floats(3, 4), [4]),
    "prelu": lambda: _f(image(), floats(4)),
    "glu": lambda: _f(floats(3, 4)),
    "swiglu": lambda: _f(floats(3, 4)),
    "gumbel_softmax": lambda: _f(floats(3, 4)),
    "cross_entropy": lambda: _f(floats(3, 4), ints(3)),
    "softmax_with_cross_entropy": lambda: _f(floats(3, 4), ints(3, 1)),
    "nll_loss": lambda: _f(floats(3, 4), ints(3)),
    "multi_margin_loss": lambda: _f(floats(3, 4), ints(3)),
    "multi_label_margin_loss": lambda: _f(floats(3, 4), ints(3, 4)),
    "dice_loss": lambda: _f(floats(3, 4), ints(3, 1)),
    "log_loss": lambda: _f(floats(3, 1), floats(3, 1)),
    "npair_loss": lambda: _f(floats(3, 4), floats(3, 4), floats(3)),
    "ctc_loss": lambda: _f(
        floats(5, 2, 4),
        ints(2, 2).astype("int32") + 1,
        paddle.full([2], 5, "int64"),
        paddle.full([2], 2, "int64"),
    ),
    "rnnt_loss": lambda: _f(
        floats(1, 3, 3, 4),
        ints(1, 2).astype("int32") + 1,
        paddle.full([1], 3, "int32"),
        paddle.full([1], 2, "int32"),
    ),
    "hsigmoid_loss": lambda: _f(floats(3, 4), ints(3, 1), 5, floats(4, 4)),
    "margin_ranking_loss": lambda: _f(floats(3), floats(3), paddle.ones([3])),
    "margin_cross_entropy": lambda: _f(floats(3, 4), ints(3)),
    "cosine_embedding_loss": lambda: _f(floats(3, 4), floats(3, 4), paddle.ones([3])),
    "triplet_margin_loss": lambda: _f(floats(3, 4), floats(3, 4) + 1, floats(3, 4) * 2),
    "triplet_margin_with_distance_loss": lambda: _f(floats(3, 4), floats(3, 4) + 1, floats(3, 4) * 2),
    "gaussian_nll_loss": lambda: _f(floats(3, 4), floats(3, 4), floats(3, 4)),
    "poisson_nll_loss": lambda: _f(floats(3, 4), floats(3, 4)),
    "sigmoid_focal_loss": lambda: _f(floats(3, 4), floats(3, 4)),
    "adaptive_log_softmax_with_loss": lambda: _f(
        floats(3, 4), ints(3), floats(4, 3), [[floats(4, 2), floats(2, 2)]], [2, 4]
    ),
    "scaled_dot_product_attention": lambda: _f(floats(1, 3, 2, 8), floats(1, 3, 2, 8), floats(1, 3, 2, 8)),
    "gather_tree": lambda: _f(ints(3, 2, 2), ints(3, 2, 2, below=2)),
    "sequence_mask": lambda: _f(ints(3), 4),
    "class_center_sample": lambda: _f(ints(4), 5, 3),
    "diag_embed": lambda: _f(floats(3)),
    "bitwise_left_shift": lambda: _f(ints(4), ints(4)),
    "bitwise_right_shift": lambda: _f(ints(4), ints(4)),
    "isin": lambda: _f(ints(4), ints(2)),
    "kthvalue": lambda: _f(floats(3, 4), 2),
    "topk": lambda: _f(floats(3, 4), 2),
    "masked_fill": lambda: _f(floats(3, 4), bools(3, 4), 0.5),
    "masked_fill_": lambda: _f(floats(3, 4), bools(3, 4), 0.5),
    "masked_select": lambda: _f(floats(3, 4), bools(3, 4)),
    "repeat_interleave": lambda: _f(floats(3, 4), 2, 0),
    "rank": lambda: _f(floats(3, 4)),
    "signbit": lambda: _f(floats(3, 4) - 0.5),
    "increment": lambda: _f(floats(1)),
    "standard_gamma": lambda: _f(floats(3, 4)),
    "log_normal": lambda: _f(0.0, 1.0, [3, 4]),
    "normal": lambda: _f(0.0, 1.0, [3, 4]),
    "uniform": lambda: _f([3, 4]),
    "histogram": lambda: _f(floats(3, 4), 3),
    "trapezoid": lambda: _f(floats(3, 4)),
    "cumulative_trapezoid": lambda: _f(floats(3, 4)),
    "squeeze": lambda: _f(floats(3, 1)),
    "squeeze_": lambda: _f(floats(3, 1)),
    "unsqueeze": lambda: _f(floats(3, 4), 0),
    "unsqueeze_": lambda: _f(floats(3, 4), 0),
    "hfft": lambda: _f(_complex()),
    "ihfft": lambda: _f(floats(3, 4)),
    "bitwise_invert": lambda: _f(ints(3, 4)),
    "floor_divide": lambda: _f(floats(3, 4) * 9, floats(3, 4) * 3),
    "fill_diagonal_": lambda: _f(floats(3, 4), 0.5),
    "fill_diagonal_tensor": lambda: _f(floats(3, 3), floats(3)),
    "fill_diagonal_tensor_": lambda: _f(floats(3, 3), floats(3)),
    "normal_": lambda: _f(floats(3, 4)),
    "uniform_": lambda: _f(floats(3, 4)),
    "set_value": lambda: _f(floats(3, 4), floats(3, 4) + 1),
    "copy_": lambda: _f(floats(3, 4), floats(3, 4) + 1, False),
    "fill_": lambda: _f(floats(3, 4), 0.5),
    "astype": lambda: _f(floats(3, 4), "float64"),
    "cast": lambda: _f(floats(3, 4), "float64"),
    "cast_": lambda: _f(floats(3, 4), "float64"),
    "view_as": lambda: _f(floats(3, 4), floats(4, 3)),
    "reshape_as": lambda: _f(floats(3, 4), floats(4, 3)),
    "type_as": lambda: _f(floats(3, 4), ints(3)),
    "to": lambda: _f(floats(3, 4), "float64"),
    "apply": lambda: _f(floats(3, 4), lambda x: x + 1),
    "apply_": lambda: _f(floats(3, 4), lambda x: x + 1),
    "new_full": lambda: _f(floats(3, 4), [2, 2], 0.5),
    "item": lambda: _f(floats(1)),
    "sparse_attention": None,
    "to_tensor": lambda: _f([0.5, 0.25]),
    "as_tensor": lambda: _f([0.5, 0.25]),
    "asarray": lambda: _f([0.5, 0.25]),
    "cat": lambda: _f([floats(3, 4), floats(3, 4)]),
    "concatenate": lambda: _f([floats(3, 4), floats(3, 4)]),
    "iinfo": lambda: _f("int32"),
    "manual_seed": lambda: _f(3),
    "seed": lambda: _f(3),
    "set_rng_state": lambda: _f(paddle.get_rng_state()),
    "get_flags": lambda: _f(["FLAGS_benchmark"]),
    "from_numpy": lambda: _f(floats(3, 4).numpy()),
    "split_with_sizes": lambda: _f(floats(4, 4), [1, 3]),
    "to_dense": lambda: _f(_sparse()),
    "to_sparse_coo": lambda: _f(floats(3, 4), 2),
    "register_hook": lambda: _f(floats(3, 4), lambda gradient: gradient),
    "narrow": lambda: _f(floats(3, 4), 0, 0, 2),
    "permute": lambda: _f(floats(3, 4), [1, 0]),
    "pow_": lambda: _f(floats(3, 4), 2.0),
    "unfold": lambda: _f(floats(6), 0, 2, 2),
    "view_as_complex": lambda: _f(floats(3, 2)),
    "new_empty": lambda: _f(floats(3, 4), [2, 2]),
    "new_ones": lambda: _f(floats(3, 4), [2, 2]),
    "new_zeros": lambda: _f(floats(3, 4), [2, 2]),
    "coalesce": lambda: _f(_sparse()),
    "is_coalesced": lambda: _f(_sparse()),
    "indices": lambda: _f(_sparse()),
    "nnz": lambda: _f(_sparse()),
    "values": lambda: _f(_sparse()),
    "cols": lambda: _f(_sparse().to_sparse_csr()),
    "crows": lambda: _f(_sparse().to_sparse_csr()),
}


# Arguments of functions of `paddle.sparse`.
SPARSE = {
    "addmm": lambda: _f(floats(3, 3), _sparse(), floats(3, 3)),
    "mask_as": lambda: _f(floats(3, 3), _sparse()),
    "masked_matmul": lambda: _f(floats(3, 4), floats(4, 3), _sparse().to_sparse_csr()),
    "matmul": lambda: _f(_sparse(), floats(3, 4)),
    "mv": lambda: _f(_sparse(), floats(3)),
    "pow": lambda: _f(_sparse(), 2.0),
    "cast": lambda: _f(_sparse(), "int64", "float64"),
    "reshape": lambda: _f(_sparse(), [9]),
    "slice": lambda: _f(_sparse(), [0], [0], [2]),
    "sum": lambda: _f(_sparse()),
    "transpose": lambda: _f(_sparse(), [1, 0]),
    "sparse_coo_tensor": lambda: _f([[0, 1], [1, 0]], [0.5, 0.25], [3, 3]),
    "sparse_csr_tensor": lambda: _f([0, 1, 2], [1, 0], [0.5, 0.25], [2, 3]),
}


def candidates(area, name, function, method):
    """Argument lists to try, the best guess first: each a function that makes `(args, kwargs)` anew."""
    if area == "paddle.sparse":
        yield SPARSE.get(name, lambda: _f(_sparse()))
        yield lambda: _f(_sparse(), _sparse())
        return
    special = SPECIAL.get(name, candidates)
    if special is None:
        return
    if special is not candidates:
        yield special
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        parameters = None
    if parameters is not None:
        known = [
            p
            for p in parameters
            if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        ]
        if all(p.name in BY_NAME for p in known) and (known or not method):
            yield lambda: (tuple(BY_NAME[p.name]() for p in known), {})
    for make in (lambda: floats(3, 4), square, image, lambda: ints(3, 4), lambda: bools(3, 4), _complex, _conv1, _conv3):
        yield lambda make=make: ((make(),), {})
        yield lambda make=make: ((make(), make()), {})
    if not method:
        yield lambda: ((), {})
        yield lambda: (([3, 4],), {})


# Values of optional arguments, by the name of the parameter; functions make tensors. What eager mode does not take is left out.
OTHER_VALUES = {
    "alpha": [0.5, 2.0],
    "append": [lambda: floats(3, 1)],
    "attn_mask": [lambda: floats(3, 3)],
    "aweights": [lambda: floats(4)],
    "axis": [0, -1, [0, 1]],
    "bias": [lambda: floats(4), lambda: floats(3)],
    "data_format": ["NHWC", "NLC", "NDHWC"],
    "dim": [0, -1],
    "driver": ["gels", "gelsd"],
    "dtype": ["float64", "int64", "float32"],
    "fweights": [lambda: ints(4) + 1],
    "ignore_index": [1, 0],
    "indexing": ["xy", "ij"],
    "interpolation": ["lower", "higher", "midpoint", "nearest"],
    "mask": [lambda: bools(3, 4)],
    "max": [0.6],
    "min": [0.3],
    "mode": "reflect bilinear nearest bicubic area linear trilinear replicate circular clip wrap valid same full".split(),
    "name": [],
    "norm": ["ortho", "forward"],
    "normalizer": [lambda: paddle.to_tensor([2.0])],
    "ord": [1, 2, "fro", "nuc"],
    "order": ["F"],
    "out": [],
    "output_size": [[8, 8]],
    "p": [1, 2.0, "fro", float("inf")],
    "padding_mode": ["reflection", "border"],
    "place": [],
    "pos_weight": [lambda: floats(4)],
    "prepend": [lambda: floats(3, 1)],
    "prior_dist": [lambda: floats(1, 4)],
    "reduce": ["add", "multiply", "amin", "amax", "mean"],
    "reduction": ["sum", "none", "mean"],
    "rounding_mode": ["trunc", "floor"],
    "scale_factor": [2, [2, 2], 0.5],
    "side": ["right"],
    "size": [[8, 8], 8],
    "UPLO": ["U"],
    "weight": [lambda: floats(4), lambda: floats(3, 4), lambda: floats(3), lambda: floats(1)],
    "weights": [lambda: floats(3), lambda: ints(3)],
}
# Values for parameters of other names whose default is `None`.
FOR_NONE = [0, 1, 2, True, 0.5, lambda: floats(4), lambda: floats(3, 4), lambda: ints(3)]


def variations(function, make):
    """Arguments like those that `make` gives, with one optional argument more: `(text, make)`."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return
    args, kwargs = make()
    for at, parameter in enumerate(parameters):
        default, name = parameter.default, parameter.name
        if default is parameter.empty or at < len(args) or name in kwargs:
            continue
        if name in OTHER_VALUES:
            values = OTHER_VALUES[name]
        elif isinstance(default, bool):
            values = [not default]
        elif isinstance(default, int):
            values = [default + 1, 0, -1, 2]
        elif isinstance(default, float):
            values = [0.5, 2.0]
        else:
            values = FOR_NONE if default is None else []
        for value in values:
            text = f"{name}={'a tensor' if callable(value) else repr(value)}"
            yield text, lambda name=name, value=value: _with(make, name, value)


def _with(make, name, value):
    args, kwargs = make()
    return args, dict(kwargs, **{name: value() if callable(value) else value})
