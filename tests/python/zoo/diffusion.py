"""Diffusion: sinusoidal embeddings of time steps, a noise schedule in buffers, training on random steps, sampling loops."""

import math

import paddle
import paddle.nn.functional as F
from paddle import nn

from . import Task, task


def linear_beta_schedule(timesteps):
    scale = 1000 / timesteps
    return paddle.linspace(scale * 0.0001, min(scale * 0.02, 0.9), timesteps)


def extract(a, t, x_shape):
    b, *_ = t.shape
    out = paddle.gather(a, t)
    return out.reshape((b, *((1,) * (len(x_shape) - 1))))


def exists(x):
    return x is not None


def default(val, d):
    if exists(val):
        return val
    return d() if callable(d) else d


class SinusoidalPosEmb(nn.Layer):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x):
        half_dim = self.dim // 2
        emb = math.log(10000) / (half_dim - 1)
        emb = paddle.exp(paddle.arange(half_dim, dtype="float32") * -emb)
        emb = x.astype("float32")[:, None] * emb[None, :]
        return paddle.concat((emb.sin(), emb.cos()), axis=-1)


class Residual(nn.Layer):
    def __init__(self, fn):
        super().__init__()
        self.fn = fn

    def forward(self, x, *args, **kwargs):
        return self.fn(x, *args, **kwargs) + x


class ResnetBlock(nn.Layer):
    def __init__(self, dim, dim_out, *, time_emb_dim=None, groups=2):
        super().__init__()
        self.mlp = nn.Sequential(nn.Silu(), nn.Linear(time_emb_dim, dim_out * 2)) if exists(time_emb_dim) else None
        self.conv1, self.norm1 = nn.Conv2D(dim, dim_out, 3, padding=1), nn.GroupNorm(groups, dim_out)
        self.conv2, self.norm2 = nn.Conv2D(dim_out, dim_out, 3, padding=1), nn.GroupNorm(groups, dim_out)
        self.res_conv = nn.Conv2D(dim, dim_out, 1) if dim != dim_out else nn.Identity()

    def forward(self, x, time_emb=None):
        scale_shift = None
        if exists(self.mlp) and exists(time_emb):
            time_emb = self.mlp(time_emb)[:, :, None, None]
            scale_shift = time_emb.chunk(2, axis=1)
        h = self.norm1(self.conv1(x))
        if exists(scale_shift):
            scale, shift = scale_shift
            h = h * (scale + 1) + shift
        h = self.norm2(self.conv2(F.silu(h)))
        return F.silu(h) + self.res_conv(x)


class LinearAttention(nn.Layer):
    def __init__(self, dim, heads=2, dim_head=4):
        super().__init__()
        self.heads, self.scale = heads, dim_head**-0.5
        self.to_qkv = nn.Conv2D(dim, heads * dim_head * 3, 1, bias_attr=False)
        self.to_out = nn.Conv2D(heads * dim_head, dim, 1)

    def forward(self, x):
        b, c, h, w = x.shape
        qkv = self.to_qkv(x).chunk(3, axis=1)
        q, k, v = map(lambda t: t.reshape([b, self.heads, -1, h * w]), qkv)
        q, k = F.softmax(q, axis=-2) * self.scale, F.softmax(k, axis=-1)
        context = paddle.einsum("bhdn,bhen->bhde", k, v)
        out = paddle.einsum("bhde,bhdn->bhen", context, q)
        return self.to_out(out.reshape([b, -1, h, w]))


class Unet(nn.Layer):
    def __init__(self, dim=4, dim_mults=(1, 2), channels=1):
        super().__init__()
        dims = [dim, *map(lambda m: dim * m, dim_mults)]
        in_out = list(zip(dims[:-1], dims[1:]))
        time_dim = dim * 4
        self.init_conv = nn.Conv2D(channels, dim, 3, padding=1)
        self.time_mlp = nn.Sequential(SinusoidalPosEmb(dim), nn.Linear(dim, time_dim), nn.GELU())
        self.downs, self.ups = nn.LayerList([]), nn.LayerList([])
        for ind, (dim_in, dim_out) in enumerate(in_out):
            is_last = ind >= (len(in_out) - 1)
            self.downs.append(
                nn.LayerList(
                    [
                        ResnetBlock(dim_in, dim_out, time_emb_dim=time_dim),
                        Residual(LinearAttention(dim_out)),
                        nn.Conv2D(dim_out, dim_out, 4, 2, 1) if not is_last else nn.Identity(),
                    ]
                )
            )
        self.mid = ResnetBlock(dims[-1], dims[-1], time_emb_dim=time_dim)
        for ind, (dim_in, dim_out) in enumerate(reversed(in_out)):
            is_last = ind == (len(in_out) - 1)
            up = nn.Upsample(scale_factor=2, mode="nearest") if not is_last else nn.Identity()
            self.ups.append(nn.LayerList([ResnetBlock(dim_out * 2, dim_in, time_emb_dim=time_dim), up]))
        self.final_conv = nn.Conv2D(dim, channels, 1)

    def forward(self, x, time):
        x = self.init_conv(x)
        t = self.time_mlp(time)
        h = []
        for block, attn, downsample in self.downs:
            x = attn(block(x, t))
            h.append(x)
            x = downsample(x)
        x = self.mid(x, t)
        for block, upsample in self.ups:
            x = upsample(block(paddle.concat((x, h.pop()), axis=1), t))
        return self.final_conv(x)


class GaussianDiffusion(nn.Layer):
    def __init__(self, model, *, image_size=8, timesteps=4, objective="pred_noise"):
        super().__init__()
        self.model, self.image_size, self.objective = model, image_size, objective
        betas = linear_beta_schedule(timesteps)
        alphas = 1.0 - betas
        alphas_cumprod = paddle.cumprod(alphas, dim=0)
        alphas_cumprod_prev = F.pad(alphas_cumprod[:-1].unsqueeze([0, 1]), [1, 0], value=1.0, data_format="NCL").reshape([-1])
        self.num_timesteps = int(betas.shape[0])
        register_buffer = lambda name, val: self.register_buffer(name, val.astype("float32"))  # noqa: E731
        register_buffer("betas", betas)
        register_buffer("alphas_cumprod", alphas_cumprod)
        register_buffer("sqrt_alphas_cumprod", paddle.sqrt(alphas_cumprod))
        register_buffer("sqrt_one_minus_alphas_cumprod", paddle.sqrt(1.0 - alphas_cumprod))
        register_buffer("sqrt_recip_alphas_cumprod", paddle.sqrt(1.0 / alphas_cumprod))
        register_buffer("sqrt_recipm1_alphas_cumprod", paddle.sqrt(1.0 / alphas_cumprod - 1))
        variance = betas * (1.0 - alphas_cumprod_prev) / (1.0 - alphas_cumprod)
        register_buffer("posterior_log_variance_clipped", paddle.log(variance.clip(min=1e-20)))
        register_buffer("posterior_mean_coef1", betas * paddle.sqrt(alphas_cumprod_prev) / (1.0 - alphas_cumprod))
        register_buffer("posterior_mean_coef2", (1.0 - alphas_cumprod_prev) * paddle.sqrt(alphas) / (1.0 - alphas_cumprod))

    @property
    def loss_fn(self):
        if self.objective == "pred_noise":
            return F.mse_loss
        elif self.objective == "pred_x0":
            return F.l1_loss
        raise ValueError(f"unknown objective {self.objective}")

    def predict_start_from_noise(self, x_t, t, noise):
        return (
            extract(self.sqrt_recip_alphas_cumprod, t, x_t.shape) * x_t
            - extract(self.sqrt_recipm1_alphas_cumprod, t, x_t.shape) * noise
        )

    def q_sample(self, x_start, t, noise=None):
        noise = default(noise, lambda: paddle.randn(x_start.shape))
        return (
            extract(self.sqrt_alphas_cumprod, t, x_start.shape) * x_start
            + extract(self.sqrt_one_minus_alphas_cumprod, t, x_start.shape) * noise
        )

    @paddle.no_grad()
    def p_sample(self, x, t: int, clip_denoised=True):
        batched_times = paddle.full((x.shape[0],), t, dtype="int64")
        x_start = self.predict_start_from_noise(x, batched_times, self.model(x, batched_times))
        if clip_denoised:
            x_start = x_start.clip(-1.0, 1.0)
        mean = (
            extract(self.posterior_mean_coef1, batched_times, x.shape) * x_start
            + extract(self.posterior_mean_coef2, batched_times, x.shape) * x
        )
        log_variance = extract(self.posterior_log_variance_clipped, batched_times, x.shape)
        noise = paddle.randn(x.shape) if t > 0 else 0.0
        return mean + (0.5 * log_variance).exp() * noise, x_start

    @paddle.no_grad()
    def sample(self, batch_size=2, return_all_timesteps=False):
        img = paddle.randn([batch_size, 1, self.image_size, self.image_size])
        imgs = [img]
        for t in reversed(range(0, self.num_timesteps)):
            img, _ = self.p_sample(img, t)
            imgs.append(img)
        ret = img if not return_all_timesteps else paddle.stack(imgs, axis=1)
        return (ret + 1) * 0.5

    def forward(self, img, *args, **kwargs):
        b, c, h, w = img.shape
        assert h == self.image_size and w == self.image_size, f"height and width of image must be {self.image_size}"
        t = paddle.randint(0, self.num_timesteps, (b,)).astype("int64")
        noise = paddle.randn(img.shape)
        x = self.q_sample(x_start=img * 2 - 1, t=t, noise=noise)
        loss = self.loss_fn(self.model(x, t), noise, reduction="none")
        return loss.reshape([b, -1]).mean(axis=-1).mean()


@task
class DDPM(Task):
    title = "DDPM"
    shows = "sampling loop over `reversed(range(...))`, `extract` with `b, *_ = t.shape`, random steps, loss chosen by a property"
    rtol, atol = 1e-4, 1e-5
    settles = 2 if paddle.__version__.startswith("3.0") else 1  # Decorators of Paddle 3.0 are followed, with their loops.

    def __init__(self):
        self.diffusion = GaussianDiffusion(Unet())

    def batch(self, step):
        return (paddle.rand([2, 1, 8, 8]),)

    def predict(self, images):
        return self.diffusion.sample(batch_size=images.shape[0], return_all_timesteps=True)

    def loss(self, images):
        return self.diffusion(images)
