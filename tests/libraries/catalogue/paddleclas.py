"""Backbones of PaddleClas: one of each family, with the size of image that it needs."""

import importlib.util
import logging
import pathlib
import sys

import paddle

from compare import Model

SIZES = {
    64: """DenseNet121 DLA34 DPN68 EfficientNetB0_small EfficientNetB0 EfficientNetB3_watermark EfficientNetV2_S ESNet_x0_25
        GhostNet_x0_5 HRNet_W18_C MicroNet_M0 MobileNeXt_x0_35 MobileNetV1_x0_25 MobileNetV2_x0_25 MobileNetV3_small_x0_35
        MobileNetV4_conv_small PPHGNet_tiny PPHGNetV2_B0 PPLCNet_x0_25 PPLCNet_x2_5_Tanh PPLCNetV2_base PeleeNet RedNet26
        RegNetX_200MF RepVGG_A0 Res2Net50_26w_4s Res2Net50_vd_26w_4s ResNeSt50_fast_1s1x64d ResNet18 ResNet18_vd ResNet50_vc
        ResNet50_last_stage_stride1 ResNet50_adaptive_max_pool2d ResNeXt50_32x4d ResNeXt50_vd_32x4d ResNeXt101_32x8d_wsl
        ReXNet_1_0 SE_ResNet18_vd SE_ResNeXt50_32x4d SE_ResNeXt50_vd_32x4d ShuffleNetV2_x0_25 StarNet_S1 TinyNet_E VAN_B0
        FasterNet_T0 HarDNet39_ds ConvNeXt_tiny CSPDarkNet53""".split(),
    112: "MobileFaceNet AdaFace_IR_18".split(),
    128: "DarkNet53 InceptionV3 InceptionV4 Xception41 Xception41_deeplab".split(),
    224: """AlexNet GoogLeNet SqueezeNet1_0 LeViT_128S NextViT_small_224 PVT_V2_B0 SwinTransformer_tiny_patch4_window7_224
        TNT_small alt_gvt_small pcpvt_small ViT_small_patch16_224 CSWinTransformer_tiny_224 CvT_13_224 DeiT_tiny_patch16_224
        DeiT_tiny_distilled_patch16_224 DSNet_tiny BEiTv2_vit_base_patch16_224 CLIP_vit_base_patch16_224""".split(),
    256: "MobileViT_XXS MobileViTV2_x0_5 MobileViTV3_XXS".split(),
}


def models():
    # The package imports what it serves models with; its training part alone is a package of its own.
    sys.path.insert(0, str(pathlib.Path(importlib.util.find_spec("paddleclas").origin).parent))
    from ppcls.arch import backbone
    from ppcls.utils import logger

    logger._logger = logging.getLogger("ppcls")

    def model(name, size):
        return Model(getattr(backbone, name), lambda: ((paddle.randn([2, 3, size, size]),), {}))

    return {name: model(name, size) for size, names in SIZES.items() for name in names}
