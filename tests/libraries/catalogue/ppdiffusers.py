"""Networks of ppdiffusers, and its schedulers, in loops that draw samples and in steps that train."""

import importlib

import paddle
from paddle import nn, randn

from compare import Model

BLOCKS = {"block_out_channels": (32, 64), "layers_per_block": 1, "attention_head_dim": 8}
TWO = {"down_block_types": ("DownEncoderBlock2D",) * 2, "up_block_types": ("UpDecoderBlock2D",) * 2}
CROSS = {
    "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"),
    "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D"),
}
CROSS_3D = {key: tuple(name.replace("2D", "3D") for name in names) for key, names in CROSS.items()}
SAMPLING = """DDPM DDIM PNDM LMSDiscrete EulerDiscrete EulerAncestralDiscrete DPMSolverMultistep DPMSolverSinglestep HeunDiscrete
    DEISMultistep KDPM2Discrete""".split()
TRAINING = "DDPM DDIM EulerDiscrete".split()


class Sampler(nn.Layer):
    """Draws with a scheduler that it makes."""

    def __init__(self, scheduler):
        super().__init__()
        self.net, self.scheduler = nn.Conv2D(3, 3, 3, padding=1), scheduler

    def forward(self, x):
        scheduler = self.scheduler(num_train_timesteps=100)
        scheduler.set_timesteps(4)
        x = x * scheduler.init_noise_sigma
        for t in scheduler.timesteps:
            x = scheduler.step(self.net(scheduler.scale_model_input(x, t)), t, x).prev_sample
        return x


class Denoiser(nn.Layer):
    """Computes the loss of one step."""

    def __init__(self, scheduler):
        super().__init__()
        self.net, self.scheduler = nn.Conv2D(3, 3, 3, padding=1), scheduler(num_train_timesteps=100)

    def forward(self, x):
        noise, t = paddle.randn(x.shape), paddle.randint(0, 100, [x.shape[0]])
        return ((self.net(self.scheduler.add_noise(x, noise, t)) - noise) ** 2).mean()


def networks():
    """Makers of networks, and their arguments."""
    attention = {"num_attention_heads": 2, "attention_head_dim": 8, "num_layers": 2}
    times = paddle.to_tensor([3, 5])
    blocks_2d = {"down_block_types": ("DownBlock2D", "AttnDownBlock2D"), "up_block_types": ("AttnUpBlock2D", "UpBlock2D")}
    return {
        "UNet2DModel": (dict(sample_size=16, in_channels=3, out_channels=3, **blocks_2d, **BLOCKS), lambda: (randn([2, 3, 16, 16]), 7)),
        "UNet2DConditionModel": (
            dict(sample_size=16, in_channels=4, out_channels=4, cross_attention_dim=32, **CROSS, **BLOCKS),
            lambda: (randn([2, 4, 16, 16]), times, randn([2, 6, 32])),
        ),
        "UNet3DConditionModel": (
            dict(in_channels=4, out_channels=4, cross_attention_dim=32, **CROSS_3D, **BLOCKS),
            lambda: (randn([1, 4, 2, 16, 16]), times[:1], randn([1, 6, 32])),
        ),
        "ControlNetModel": (
            dict(
                in_channels=4,
                down_block_types=CROSS["down_block_types"],
                cross_attention_dim=32,
                conditioning_embedding_out_channels=(8, 16),
                **BLOCKS,
            ),
            lambda: (randn([2, 4, 16, 16]), times, randn([2, 6, 32]), randn([2, 3, 32, 32])),
        ),
        "AutoencoderKL": (
            dict(block_out_channels=(32, 64), latent_channels=4, norm_num_groups=8, **TWO),
            lambda: (randn([2, 3, 16, 16]),),
        ),
        "VQModel": (
            dict(block_out_channels=(32, 64), latent_channels=3, norm_num_groups=8, **TWO),
            lambda: (randn([2, 3, 16, 16]),),
        ),
        "Transformer2DModel": (
            dict(in_channels=32, cross_attention_dim=16, norm_num_groups=8, **attention),
            lambda: (randn([2, 32, 8, 8]), randn([2, 5, 16])),
        ),
        "PriorTransformer": (
            dict(embedding_dim=16, num_embeddings=7, additional_embeddings=4, **attention),
            lambda: (randn([2, 16]), 3, randn([2, 16]), randn([2, 7, 16])),
        ),
    }


def models():
    hub = importlib.import_module("aistudio_sdk.hub")
    hub.download = getattr(hub, "download", None)  # Newer releases have no such function; no model is downloaded here.
    import ppdiffusers
    from ppdiffusers import models as kinds

    def network(name, settings, arguments):
        return Model(lambda: getattr(kinds, name)(**settings), lambda: (arguments(), {}))

    def scheduled(kind, name):
        return Model(lambda: kind(getattr(ppdiffusers, f"{name}Scheduler")), lambda: ((randn([2, 3, 8, 8]),), {}))

    made = {name: network(name, *parts) for name, parts in networks().items()}
    made.update({f"sampling, {name}": scheduled(Sampler, name) for name in SAMPLING})
    made.update({f"training, {name}": scheduled(Denoiser, name) for name in TRAINING})
    return made
