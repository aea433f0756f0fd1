"""GANs: two networks against each other, with `detach`, spectral norm, and losses that take turns."""

import paddle
import paddle.nn.functional as F
from paddle import nn

from . import Task, task


class Generator(nn.Layer):
    def __init__(self, nz=6, ngf=4, nc=1):
        super().__init__()
        self.main = nn.Sequential(
            nn.Conv2DTranspose(nz, ngf * 2, 4, 1, 0, bias_attr=False),
            nn.BatchNorm2D(ngf * 2),
            nn.ReLU(True),
            nn.Conv2DTranspose(ngf * 2, nc, 4, 2, 1, bias_attr=False),
            nn.Tanh(),
        )

    def forward(self, input):
        return self.main(input)


class Discriminator(nn.Layer):
    def __init__(self, ndf=4, nc=1):
        super().__init__()
        self.main = nn.Sequential(
            nn.Conv2D(nc, ndf, 4, 2, 1, bias_attr=False),
            nn.LeakyReLU(0.2),
            nn.Conv2D(ndf, 1, 4, 1, 0, bias_attr=False),
            nn.Sigmoid(),
        )

    def forward(self, input):
        return self.main(input).reshape([-1, 1]).squeeze(1)


def weights_init(m):
    classname = m.__class__.__name__
    if hasattr(m, "weight") and classname.find("Conv") != -1:
        m.weight.set_value(paddle.normal(0.0, 0.1, m.weight.shape))


@task
class DCGAN(Task):
    title = "DCGAN"
    shows = "both losses in one function, `detach` between the networks, labels made by `full`"

    def __init__(self):
        self.netG, self.netD = Generator(), Discriminator()
        self.netG.apply(weights_init)
        self.netD.apply(weights_init)
        self.criterion = nn.BCELoss()
        self.real_label, self.fake_label = 1.0, 0.0

    def batch(self, step):
        return paddle.randn([4, 1, 8, 8]), paddle.randn([4, 6, 1, 1])

    def predict(self, real, noise):
        fake = self.netG(noise)
        return fake, self.netD(fake), self.netD(real)

    def loss(self, real, noise):
        b_size = real.shape[0]
        label = paddle.full((b_size,), self.real_label, dtype="float32")
        errD_real = self.criterion(self.netD(real), label)
        fake = self.netG(noise)
        label = paddle.full_like(label, self.fake_label)
        errD_fake = self.criterion(self.netD(fake.detach()), label)
        errD = errD_real + errD_fake
        errG = self.criterion(self.netD(fake), paddle.ones_like(label))
        return errD + errG


class SNDiscriminator(nn.Layer):
    def __init__(self):
        super().__init__()
        self.layers = nn.LayerList([nn.utils.spectral_norm(nn.Linear(a, b)) for a, b in ((8, 8), (8, 1))])

    def forward(self, x, return_features=False):
        features = []
        for i, layer in enumerate(self.layers):
            x = layer(x)
            if i < len(self.layers) - 1:
                x = F.leaky_relu(x, 0.2)
                features.append(x)
        return (x, features) if return_features else x


@task
class Hinge(Task):
    title = "GAN with spectral norm"
    shows = "`spectral_norm` hooks that write buffers at each forward, hinge loss, feature matching over a list"

    def __init__(self):
        self.generator = nn.Sequential(nn.Linear(4, 8), nn.ELU(), nn.Linear(8, 8))
        self.discriminator = SNDiscriminator()

    def batch(self, step):
        return paddle.randn([4, 8]), paddle.randn([4, 4])

    def predict(self, real, noise):
        return self.discriminator(self.generator(noise), return_features=True)

    def loss(self, real, noise):
        fake = self.generator(noise)
        real_score, real_features = self.discriminator(real, return_features=True)
        fake_score, fake_features = self.discriminator(fake, return_features=True)
        hinge = F.relu(1.0 - real_score).mean() + F.relu(1.0 + fake_score).mean()
        matching = sum(F.l1_loss(a, b.detach()) for a, b in zip(fake_features, real_features))
        return hinge + 0.1 * matching
