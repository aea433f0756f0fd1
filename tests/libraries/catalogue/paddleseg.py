"""Models of PaddleSeg for three classes, with small backbones."""

import paddle

from compare import Model

ON_RESNET50 = "ANN CCNet DNLNet EMANet GCNet ISANet PSPNet DeepLabV3 DeepLabV3P FastFCN GloRe GINet DMNet GSCNN ENCNet".split()
ALONE = "AttentionUNet UNet UNet3Plus BiSeNetV2 ENet ESPNetV2 FastSCNN HarDNet RTFormer SegNet SINet U2Net U2Netp".split()
BACKBONES = "UHRNet_W18_Small HRFormer_small GhostNet_x1_0 ShuffleNetV2_x1_0 Xception41_deeplab".split()


def models():
    from paddleseg import models as seg
    from paddleseg.models import backbones

    def resnet(kind="ResNet50_vd", stride=8):
        return getattr(backbones, kind)(output_stride=stride)

    made = {name: lambda name=name: getattr(seg, name)(3, backbone=resnet()) for name in ON_RESNET50}
    made.update({name: lambda name=name: getattr(seg, name)(3) for name in ALONE})
    made.update({name: getattr(backbones, name) for name in BACKBONES})
    made.update(
        {
            "UNetPlusPlus": lambda: seg.UNetPlusPlus(3, in_channels=3),
            "BiseNetV1": lambda: seg.BiseNetV1(3, resnet("ResNet18_vd", 32)),
            "FCN": lambda: seg.FCN(3, backbone=backbones.HRNet_W18()),
            "OCRNet": lambda: seg.OCRNet(3, backbone=backbones.HRNet_W18(), backbone_indices=[0]),
            "MscaleOCRNet": lambda: seg.MscaleOCRNet(3, backbones.HRNet_W18(), [0]),
            "LRASPP": lambda: seg.LRASPP(3, backbone=backbones.MobileNetV3_large_x1_0()),
            "PPLiteSeg": lambda: seg.PPLiteSeg(3, backbone=backbones.STDC1()),
            "STDCSeg": lambda: seg.STDCSeg(3, backbones.STDC1()),
            "PortraitNet": lambda: seg.PortraitNet(3, backbones.MobileNetV2_x1_0()),
            "PPHumanSegLite": lambda: seg.PPHumanSegLite(2),
            "SegFormer": lambda: seg.SegFormer(3, backbones.MixVisionTransformer_B0(), 256),
            "TopFormer": lambda: seg.TopFormer(3, backbones.TopTransformer_Tiny()),
            "UPerNet": lambda: seg.UPerNet(3, resnet(), [0, 1, 2, 3]),
        }
    )
    large = {"BiSeNetV2": 128, "FastSCNN": 128}

    def inputs(name):
        return lambda: ((paddle.randn([2, 3, large.get(name, 64), large.get(name, 64)]),), {})

    return {name: Model(make, inputs(name)) for name, make in made.items()}
