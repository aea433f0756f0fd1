"""Vision transformers: patches, a class token, stochastic depth; Swin's windows; an MLP-Mixer."""

from functools import partial

import paddle
import paddle.nn.functional as F
from paddle import nn

from . import Task, task


def to_2tuple(x):
    return tuple(x) if isinstance(x, (list, tuple)) else (x, x)


def drop_path(x, drop_prob=0.0, training=False):
    if drop_prob == 0.0 or not training:
        return x
    keep_prob = paddle.to_tensor(1 - drop_prob)
    shape = (paddle.shape(x)[0],) + (1,) * (x.ndim - 1)
    random_tensor = paddle.floor(keep_prob + paddle.rand(shape, dtype=x.dtype))
    return x.divide(keep_prob) * random_tensor


class DropPath(nn.Layer):
    def __init__(self, drop_prob=None):
        super().__init__()
        self.drop_prob = drop_prob

    def forward(self, x):
        return drop_path(x, self.drop_prob, self.training)


class Mlp(nn.Layer):
    def __init__(self, in_features, hidden_features=None, out_features=None, act_layer=nn.GELU, drop=0.0):
        super().__init__()
        out_features = out_features or in_features
        self.fc1 = nn.Linear(in_features, hidden_features or in_features)
        self.act = act_layer()
        self.fc2 = nn.Linear(hidden_features or in_features, out_features)
        self.drop = nn.Dropout(drop)

    def forward(self, x):
        return self.drop(self.fc2(self.drop(self.act(self.fc1(x)))))


class Attention(nn.Layer):
    def __init__(self, dim, num_heads=2, qkv_bias=True):
        super().__init__()
        self.num_heads, self.head_dim = num_heads, dim // num_heads
        self.scale = self.head_dim**-0.5
        self.qkv = nn.Linear(dim, dim * 3, bias_attr=qkv_bias)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        N, C = x.shape[1:]
        qkv = self.qkv(x).reshape((-1, N, 3, self.num_heads, C // self.num_heads)).transpose((2, 0, 3, 1, 4))
        q, k, v = qkv[0], qkv[1], qkv[2]
        attn = nn.functional.softmax(q.matmul(k.transpose((0, 1, 3, 2))) * self.scale, axis=-1)
        return self.proj(attn.matmul(v).transpose((0, 2, 1, 3)).reshape((-1, N, C)))


class Block(nn.Layer):
    def __init__(self, dim, num_heads, mlp_ratio=2.0, drop_path=0.0, norm_layer="nn.LayerNorm"):
        super().__init__()
        self.norm1 = eval(norm_layer)(dim) if isinstance(norm_layer, str) else norm_layer(dim)
        self.attn = Attention(dim, num_heads)
        self.drop_path = DropPath(drop_path) if drop_path > 0.0 else nn.Identity()
        self.norm2 = eval(norm_layer)(dim) if isinstance(norm_layer, str) else norm_layer(dim)
        self.mlp = Mlp(in_features=dim, hidden_features=int(dim * mlp_ratio))

    def forward(self, x):
        x = x + self.drop_path(self.attn(self.norm1(x)))
        x = x + self.drop_path(self.mlp(self.norm2(x)))
        return x


class PatchEmbed(nn.Layer):
    def __init__(self, img_size=16, patch_size=4, in_chans=3, embed_dim=16):
        super().__init__()
        self.img_size, self.patch_size = to_2tuple(img_size), to_2tuple(patch_size)
        self.num_patches = (self.img_size[0] // self.patch_size[0]) * (self.img_size[1] // self.patch_size[1])
        self.proj = nn.Conv2D(in_chans, embed_dim, kernel_size=self.patch_size, stride=self.patch_size)

    def forward(self, x):
        B, C, H, W = x.shape
        assert (
            H == self.img_size[0] and W == self.img_size[1]
        ), f"Input image size ({H}*{W}) doesn't match model ({self.img_size[0]}*{self.img_size[1]})."
        return self.proj(x).flatten(2).transpose((0, 2, 1))


class VisionTransformer(nn.Layer):
    def __init__(self, class_num=5, embed_dim=16, depth=2, num_heads=2, drop_path_rate=0.2, **kwargs):
        super().__init__()
        norm_layer = partial(nn.LayerNorm, epsilon=1e-6)
        self.patch_embed = PatchEmbed(embed_dim=embed_dim, **kwargs)
        zeros = nn.initializer.Constant(0.0)
        shape = (1, self.patch_embed.num_patches + 1, embed_dim)
        self.pos_embed = self.create_parameter(shape=shape, default_initializer=nn.initializer.TruncatedNormal(std=0.02))
        self.add_parameter("pos_embed", self.pos_embed)
        self.cls_token = self.create_parameter(shape=(1, 1, embed_dim), default_initializer=zeros)
        self.pos_drop = nn.Dropout(p=0.1)
        rates = [drop_path_rate * i / (depth - 1) for i in range(depth)]
        self.blocks = nn.LayerList([Block(embed_dim, num_heads, drop_path=r, norm_layer=norm_layer) for r in rates])
        self.norm = norm_layer(embed_dim)
        self.head = nn.Linear(embed_dim, class_num) if class_num > 0 else nn.Identity()

    def forward_features(self, x):
        B = paddle.shape(x)[0]
        x = self.patch_embed(x)
        cls_tokens = self.cls_token.expand((B, -1, -1)).astype(x.dtype)
        x = paddle.concat((cls_tokens, x), axis=1)
        x = self.pos_drop(x + self.pos_embed)
        for blk in self.blocks:
            x = blk(x)
        return self.norm(x)[:, 0]

    def forward(self, x):
        return self.head(self.forward_features(x))


class ImageClassification(Task):
    def batch(self, step):
        return paddle.randn([2, 3, 16, 16]), paddle.randint(0, 5, [2])

    def predict(self, images, labels):
        return self.model(images)

    def loss(self, images, labels):
        return F.cross_entropy(self.model(images), labels, label_smoothing=0.1)


@task
class ViT(ImageClassification):
    title = "ViT"
    shows = "`paddle.shape(x)[0]` in shapes, class token, stochastic depth under `if not training`"

    def __init__(self):
        self.model = VisionTransformer()


def window_partition(x, window_size):
    B, H, W, C = x.shape
    x = x.reshape([B, H // window_size, window_size, W // window_size, window_size, C])
    return x.transpose([0, 1, 3, 2, 4, 5]).reshape([-1, window_size, window_size, C])


def window_reverse(windows, window_size, H, W):
    B = int(windows.shape[0] / (H * W / window_size / window_size))
    x = windows.reshape([B, H // window_size, W // window_size, window_size, window_size, -1])
    return x.transpose([0, 1, 3, 2, 4, 5]).reshape([B, H, W, -1])


class WindowAttention(nn.Layer):
    def __init__(self, dim, window_size, num_heads):
        super().__init__()
        self.dim, self.window_size, self.num_heads = dim, window_size, num_heads
        self.scale = (dim // num_heads) ** -0.5
        size = (2 * window_size[0] - 1) * (2 * window_size[1] - 1)
        self.relative_position_bias_table = self.create_parameter(shape=(size, num_heads))
        coords = paddle.stack(paddle.meshgrid(paddle.arange(window_size[0]), paddle.arange(window_size[1])))
        flat = paddle.flatten(coords, 1)
        relative = (flat.unsqueeze(-1) - flat.unsqueeze(1)).transpose([1, 2, 0])
        relative = relative + paddle.to_tensor([window_size[0] - 1, window_size[1] - 1])
        index = relative[:, :, 0] * (2 * window_size[1] - 1) + relative[:, :, 1]
        self.register_buffer("relative_position_index", index)
        self.qkv, self.proj = nn.Linear(dim, dim * 3), nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        B_, N, C = x.shape
        qkv = self.qkv(x).reshape([B_, N, 3, self.num_heads, C // self.num_heads]).transpose([2, 0, 3, 1, 4])
        q, k, v = qkv.unbind(0)
        attn = paddle.mm(q * self.scale, k.transpose([0, 1, 3, 2]))
        index = self.relative_position_index.reshape([-1])
        bias = paddle.index_select(self.relative_position_bias_table, index)
        bias = bias.reshape([self.window_size[0] * self.window_size[1], self.window_size[0] * self.window_size[1], -1])
        attn = attn + bias.transpose([2, 0, 1]).unsqueeze(0)
        if mask is not None:
            nW = mask.shape[0]
            attn = attn.reshape([B_ // nW, nW, self.num_heads, N, N]) + mask.unsqueeze(1).unsqueeze(0)
            attn = attn.reshape([-1, self.num_heads, N, N])
        attn = F.softmax(attn, axis=-1)
        return self.proj(paddle.mm(attn, v).transpose([0, 2, 1, 3]).reshape([B_, N, C]))


class SwinBlock(nn.Layer):
    def __init__(self, dim, input_resolution, num_heads, window_size=4, shift_size=0):
        super().__init__()
        self.input_resolution, self.window_size, self.shift_size = input_resolution, window_size, shift_size
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = WindowAttention(dim, to_2tuple(window_size), num_heads)
        self.mlp = Mlp(dim, dim * 2)
        if self.shift_size > 0:
            H, W = input_resolution
            img_mask = paddle.zeros((1, H, W, 1))
            slices = (slice(0, -window_size), slice(-window_size, -shift_size), slice(-shift_size, None))
            cnt = 0
            for h in slices:
                for w in slices:
                    img_mask[:, h, w, :] = cnt
                    cnt += 1
            windows = window_partition(img_mask, window_size).reshape([-1, window_size * window_size])
            attn_mask = windows.unsqueeze(1) - windows.unsqueeze(2)
            filled = paddle.full_like(attn_mask, -100.0)
            attn_mask = paddle.where(attn_mask != 0, filled, paddle.zeros_like(attn_mask))
        else:
            attn_mask = None
        self.register_buffer("attn_mask", attn_mask)

    def forward(self, x):
        H, W = self.input_resolution
        B, L, C = x.shape
        assert L == H * W, "input feature has wrong size"
        shortcut = x
        x = self.norm1(x).reshape([B, H, W, C])
        if self.shift_size > 0:
            shifted_x = paddle.roll(x, shifts=(-self.shift_size, -self.shift_size), axis=(1, 2))
        else:
            shifted_x = x
        x_windows = window_partition(shifted_x, self.window_size).reshape([-1, self.window_size**2, C])
        attn_windows = self.attn(x_windows, mask=self.attn_mask)
        attn_windows = attn_windows.reshape([-1, self.window_size, self.window_size, C])
        x = window_reverse(attn_windows, self.window_size, H, W)
        if self.shift_size > 0:
            x = paddle.roll(x, shifts=(self.shift_size, self.shift_size), axis=(1, 2))
        x = shortcut + x.reshape([B, H * W, C])
        return x + self.mlp(self.norm2(x))


class PatchMerging(nn.Layer):
    def __init__(self, input_resolution, dim):
        super().__init__()
        self.input_resolution = input_resolution
        self.reduction, self.norm = nn.Linear(4 * dim, 2 * dim, bias_attr=False), nn.LayerNorm(4 * dim)

    def forward(self, x):
        H, W = self.input_resolution
        B, L, C = x.shape
        x = x.reshape([B, H, W, C])
        x0, x1 = x[:, 0::2, 0::2, :], x[:, 1::2, 0::2, :]
        x2, x3 = x[:, 0::2, 1::2, :], x[:, 1::2, 1::2, :]
        x = paddle.concat([x0, x1, x2, x3], -1).reshape([B, -1, 4 * C])
        return self.reduction(self.norm(x))


class SwinTransformer(nn.Layer):
    def __init__(self, dim=8, num_classes=5):
        super().__init__()
        self.patch_embed = nn.Conv2D(3, dim, 2, 2)
        self.layers = nn.LayerList(
            [SwinBlock(dim, (8, 8), 2), SwinBlock(dim, (8, 8), 2, shift_size=2), PatchMerging((8, 8), dim)]
        )
        self.last = SwinBlock(2 * dim, (4, 4), 2)
        self.norm, self.head = nn.LayerNorm(2 * dim), nn.Linear(2 * dim, num_classes)
        self.avgpool = nn.AdaptiveAvgPool1D(1)

    def forward(self, x):
        x = self.patch_embed(x).flatten(2).transpose([0, 2, 1])
        for layer in self.layers:
            x = layer(x)
        x = self.norm(self.last(x))
        return self.head(paddle.flatten(self.avgpool(x.transpose([0, 2, 1])), 1))


@task
class Swin(ImageClassification):
    title = "Swin"
    shows = "windows by `reshape`, `roll`, masks and index tables in buffers (one of them `None`), strided slices"

    def __init__(self):
        self.model = SwinTransformer()


class MixerBlock(nn.Layer):
    def __init__(self, dim, tokens):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.token_mix, self.channel_mix = Mlp(tokens, tokens * 2), Mlp(dim, dim * 2)

    def forward(self, x):
        y = paddle.einsum("btc->bct", self.norm1(x))
        x = x + paddle.einsum("bct->btc", self.token_mix(y))
        return x + self.channel_mix(self.norm2(x))


@task
class Mixer(ImageClassification):
    title = "MLP-Mixer"
    shows = "`Sequential` of own blocks, `einsum` as transposition"

    def __init__(self):
        self.embed = PatchEmbed()
        self.model = nn.Sequential(*[MixerBlock(16, 16) for _ in range(2)], nn.LayerNorm(16))
        self.head = nn.Linear(16, 5)

    def predict(self, images, labels):
        features = self.model(self.embed(images))
        return {"logits": self.head(features.mean(axis=1)), "features": features}

    def loss(self, images, labels):
        return F.cross_entropy(self.predict(images, labels)["logits"], labels)
