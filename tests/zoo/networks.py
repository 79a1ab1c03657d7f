"""The zoo: networks of today, each as small as it can be with all that is typical of it, by name."""

from __future__ import annotations

from collections.abc import Callable

import onnx

from zoo import classifiers, detectors, images, narrow, sounds

NETWORKS: dict[str, Callable[[], onnx.ModelProto]] = {
    "aspp": detectors.aspp,
    "convnext": classifiers.convnext,
    "crnn": detectors.crnn,
    "dynamic-int8": narrow.dynamic,
    "efficientnet": classifiers.efficientnet,
    "empty-detector": detectors.empty_detector,
    "espcn": images.espcn,
    "float16": narrow.float16,
    "googlenet": classifiers.googlenet,
    "hifi-gan": sounds.hifi_gan,
    "mamba": sounds.mamba,
    "mobilenet-v4": classifiers.mobilenet_v4,
    "qdq-int8": narrow.qdq,
    "replknet": classifiers.replknet,
    "sd-unet": images.sd_unet,
    "sd-vae": images.sd_vae,
    "shufflenet": classifiers.shufflenet,
    "siamfc": detectors.siamfc,
    "silero": sounds.silero,
    "stylegan2": images.stylegan2,
    "unet": images.unet,
    "video": images.video,
    "whisper-stem": sounds.whisper_stem,
    "yolo": detectors.yolo,
}
