"""Backbones of PaddleDetection for a small picture."""

import paddle

from compare import Model

# The class of a backbone, and settings of its smallest or usual form. VGG and VisionTransformer need larger pictures.
SETTINGS = {
    "BlazeNet": {},
    "ConvNeXt, tiny": {"arch": "tiny"},
    "CSPDarkNet, X": {"arch": "X"},
    "CSPDarkNet, P5": {"arch": "P5", "width_mult": 0.25, "depth_mult": 0.33},
    "CSPDarkNet, P6": {"arch": "P6", "width_mult": 0.25, "depth_mult": 0.33, "return_idx": [2, 3, 4, 5]},
    "CSPResNet": {"width_mult": 0.5, "depth_mult": 0.33},
    "DarkNet": {},
    "DLA": {"depth": 34},
    "ESNet": {},
    "GhostNet": {},
    "HarDNet": {},
    "HRNet": {"width": 18},
    "LCNet": {},
    "LiteHRNet, lite_18": {"network_type": "lite_18"},
    "LiteHRNet, naive": {"network_type": "naive"},
    "MobileNet": {},
    "MobileNetV3": {},
    "Res2Net": {},
    "ResNet, 18": {"depth": 18},
    "ResNet, 50 with deformable convolutions": {"depth": 50, "variant": "d", "dcn_v2_stages": [3]},
    "SENet": {"depth": 50},
    "ShuffleNetV2": {"scale": 0.25, "feature_maps": [5, 13, 17]},
    "SwinTransformer": {},
}


def models():
    from ppdet.modeling import backbones

    def model(name, settings):
        kind = getattr(backbones, name.split(",")[0])
        return Model(lambda: kind(**settings), lambda: (({"image": paddle.randn([2, 3, 64, 64])},), {}))

    return {name: model(name, settings) for name, settings in SETTINGS.items()}
