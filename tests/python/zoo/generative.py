"""Autoencoders and flows: distributions made in the function, codebooks, masks, log-determinants."""

import math

import paddle
import paddle.nn.functional as F
from paddle import nn

from . import Task, task


class VAE(nn.Layer):
    def __init__(self, dim=12, hidden=8, latent=3):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(dim, hidden), nn.Tanh())
        self.mu, self.logvar = nn.Linear(hidden, latent), nn.Linear(hidden, latent)
        self.decoder = nn.Sequential(nn.Linear(latent, hidden), nn.Tanh(), nn.Linear(hidden, dim))

    def reparameterize(self, mu, logvar):
        if self.training:
            std = paddle.exp(0.5 * logvar)
            return mu + paddle.randn(std.shape) * std
        return mu

    def forward(self, x):
        h = self.encoder(x)
        mu, logvar = self.mu(h), self.logvar(h)
        z = self.reparameterize(mu, logvar)
        return {"recon": F.sigmoid(self.decoder(z)), "mu": mu, "logvar": logvar, "z": z}


class Points(Task):
    def batch(self, step):
        return (paddle.rand([4, 12]),)

    def predict(self, x):
        return self.model(x)


@task
class Autoencoder(Points):
    title = "VAE"
    shows = "`if self.training` around random numbers, dict outputs"

    def __init__(self):
        self.model = VAE()

    def loss(self, x):
        out = self.model(x)
        bce = F.binary_cross_entropy(out["recon"], x, reduction="sum")
        kld = -0.5 * paddle.sum(1 + out["logvar"] - out["mu"].pow(2) - out["logvar"].exp())
        return (bce + kld) / x.shape[0]


class DistributionVAE(VAE):
    def forward(self, x):
        h = self.encoder(x)
        posterior = paddle.distribution.Normal(self.mu(h), F.softplus(self.logvar(h)) + 1e-3)
        prior = paddle.distribution.Normal(paddle.zeros([4, 3]), paddle.ones([4, 3]))
        z = posterior.rsample() if self.training else posterior.mean
        recon = self.decoder(z)
        kl = paddle.distribution.kl_divergence(posterior, prior).sum(-1)
        return recon, kl, posterior.log_prob(z), posterior.entropy()


@task
class Distributions(Points):
    title = "VAE with `paddle.distribution`"
    shows = "distributions made in the function, `rsample`, `kl_divergence` found by its registry"

    def __init__(self):
        self.model = DistributionVAE()

    def loss(self, x):
        recon, kl, _, _ = self.model(x)
        return F.mse_loss(recon, x, reduction="none").sum(-1).mean() + kl.mean()


class VectorQuantizer(nn.Layer):
    def __init__(self, n_e=5, e_dim=3, beta=0.25):
        super().__init__()
        self.n_e, self.e_dim, self.beta = n_e, e_dim, beta
        self.embedding = nn.Embedding(n_e, e_dim)

    def forward(self, z):
        z_flattened = z.reshape([-1, self.e_dim])
        weight = self.embedding.weight
        d = (
            paddle.sum(z_flattened**2, axis=1, keepdim=True)
            + paddle.sum(weight**2, axis=1)
            - 2 * paddle.matmul(z_flattened, weight.t())
        )
        indices = paddle.argmin(d, axis=1).unsqueeze(1)
        encodings = paddle.zeros([indices.shape[0], self.n_e])
        encodings = paddle.put_along_axis(encodings, indices, 1.0, axis=1)
        z_q = paddle.matmul(encodings, weight).reshape(z.shape)
        loss = paddle.mean((z_q.detach() - z) ** 2) + self.beta * paddle.mean((z_q - z.detach()) ** 2)
        z_q = z + (z_q - z).detach()
        e_mean = paddle.mean(encodings, axis=0)
        perplexity = paddle.exp(-paddle.sum(e_mean * paddle.log(e_mean + 1e-10)))
        return loss, z_q, (perplexity, encodings, indices)


@task
class VQVAE(Points):
    title = "VQ-VAE"
    shows = "straight-through gradients by `detach`, nested tuples, one-hot by `put_along_axis`"

    def __init__(self):
        self.encoder, self.decoder = nn.Linear(12, 6), nn.Linear(6, 12)
        self.quantizer = VectorQuantizer()

    def predict(self, x):
        z = self.encoder(x).reshape([-1, 2, 3])
        loss, z_q, (perplexity, _, indices) = self.quantizer(z)
        return self.decoder(z_q.flatten(1)), loss, perplexity, indices

    def loss(self, x):
        recon, loss, _, _ = self.predict(x)
        return F.mse_loss(recon, x) + loss


class Coupling(nn.Layer):
    def __init__(self, dim, flip):
        super().__init__()
        mask = paddle.arange(dim) % 2
        self.register_buffer("mask", (1 - mask if flip else mask).astype("float32"))
        self.net = nn.Sequential(nn.Linear(dim, 8), nn.ReLU(), nn.Linear(8, 2 * dim))

    def forward(self, x, reverse=False):
        masked = x * self.mask
        log_s, t = self.net(masked).split(2, axis=-1)
        log_s = paddle.tanh(log_s) * (1 - self.mask)
        t = t * (1 - self.mask)
        if not reverse:
            return (x * paddle.exp(log_s) + t), log_s.sum(-1)
        return (x - t) * paddle.exp(-log_s), -log_s.sum(-1)


class RealNVP(nn.Layer):
    def __init__(self, dim=4, depth=3):
        super().__init__()
        self.flows = nn.LayerList([Coupling(dim, bool(i % 2)) for i in range(depth)])

    def forward(self, x):
        log_det = 0
        for flow in self.flows:
            x, ld = flow(x)
            log_det += ld
        return x, log_det

    def inverse(self, z):
        for flow in self.flows[::-1]:
            z, _ = flow(z, reverse=True)
        return z

    def log_prob(self, x):
        z, log_det = self(x)
        return -0.5 * (z**2 + math.log(2 * math.pi)).sum(-1) + log_det


@task
class Flow(Task):
    title = "RealNVP"
    shows = "layers taken from the end by `[::-1]`, sums that start from the number 0"

    def __init__(self):
        self.model = RealNVP()

    def batch(self, step):
        return (paddle.randn([5, 4]) * 0.5 + 1,)

    def predict(self, x):
        z, log_det = self.model(x)
        return self.model.inverse(z), log_det, self.model.log_prob(x)

    def loss(self, x):
        return -self.model.log_prob(x).mean()
