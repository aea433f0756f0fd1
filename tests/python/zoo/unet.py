"""U-Net: double convolutions, skip connections kept in a list, padding by what sizes differ."""

import paddle
import paddle.nn.functional as F
from paddle import nn

from . import Task, task


class DoubleConv(nn.Layer):
    def __init__(self, in_channels, out_channels, mid_channels=None):
        super().__init__()
        if not mid_channels:
            mid_channels = out_channels
        self.double_conv = nn.Sequential(
            nn.Conv2D(in_channels, mid_channels, kernel_size=3, padding=1, bias_attr=False),
            nn.BatchNorm2D(mid_channels),
            nn.ReLU(),
            nn.Conv2D(mid_channels, out_channels, kernel_size=3, padding=1, bias_attr=False),
            nn.BatchNorm2D(out_channels),
            nn.ReLU(),
        )

    def forward(self, x):
        return self.double_conv(x)


class Up(nn.Layer):
    def __init__(self, in_channels, out_channels, bilinear=True):
        super().__init__()
        if bilinear:
            self.up = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)
            self.conv = DoubleConv(in_channels, out_channels, in_channels // 2)
        else:
            self.up = nn.Conv2DTranspose(in_channels // 2, in_channels // 2, kernel_size=2, stride=2)
            self.conv = DoubleConv(in_channels, out_channels)

    def forward(self, x1, x2):
        x1 = self.up(x1)
        diff_y = x2.shape[2] - x1.shape[2]
        diff_x = x2.shape[3] - x1.shape[3]
        x1 = F.pad(x1, [diff_x // 2, diff_x - diff_x // 2, diff_y // 2, diff_y - diff_y // 2])
        return self.conv(paddle.concat([x2, x1], axis=1))


class UNet(nn.Layer):
    def __init__(self, n_channels=1, n_classes=2, width=4, bilinear=True):
        super().__init__()
        self.n_classes = n_classes
        self.inc = DoubleConv(n_channels, width)
        self.down = nn.LayerList(
            [nn.Sequential(nn.MaxPool2D(2), DoubleConv(w, 2 * w)) for w in (width, 2 * width)]
        )
        self.up = nn.LayerList([Up(6 * width, 2 * width, bilinear), Up(3 * width, width, bilinear)])
        self.outc = nn.Conv2D(width, n_classes, kernel_size=1)

    def forward(self, x):
        skips = [self.inc(x)]
        for down in self.down:
            skips.append(down(skips[-1]))
        x = skips.pop()
        for up in self.up:
            x = up(x, skips.pop())
        return self.outc(x)


def dice_coeff(input, target, reduce_batch_first=False, epsilon=1e-6):
    assert input.shape == target.shape
    sum_dim = (-1, -2) if input.dim() == 2 or not reduce_batch_first else (-1, -2, -3)
    inter = 2 * (input * target).sum(axis=sum_dim)
    sets_sum = input.sum(axis=sum_dim) + target.sum(axis=sum_dim)
    sets_sum = paddle.where(sets_sum == 0, inter, sets_sum)
    return ((inter + epsilon) / (sets_sum + epsilon)).mean()


@task
class Segmentation(Task):
    title = "U-Net"
    shows = "skips pushed to and popped from a list, `F.pad` by differing sizes, dice loss with `paddle.where`"
    rtol, atol = 1e-4, 1e-5

    def __init__(self):
        self.model = UNet()

    def batch(self, step):
        return paddle.randn([2, 1, 10, 14]), paddle.randint(0, 2, [2, 10, 14])

    def predict(self, images, masks):
        logits = self.model(images)
        return F.softmax(logits, axis=1), logits.argmax(axis=1)

    def loss(self, images, masks):
        logits = self.model(images)
        loss = F.cross_entropy(logits.transpose([0, 2, 3, 1]), masks)
        one_hot = F.one_hot(masks, self.model.n_classes).transpose([0, 3, 1, 2]).astype("float32")
        return loss + 1 - dice_coeff(F.softmax(logits, axis=1), one_hot, reduce_batch_first=True)
