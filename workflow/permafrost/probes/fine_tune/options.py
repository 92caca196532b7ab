"""The options of `fine_tune`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from permafrost.core.options import Above0, AtLeast0, Options, Positive, ShareOrAll, Two
from permafrost.probes.dense.choice import Layers, OfMasks
from permafrost.probes.options import Rates
from permafrost.probes.segmentation.heads import HeadName
from permafrost.probes.segmentation.options import Head


@dataclass(frozen=True, kw_only=True)
class AugmentationOptions(Options):
    """Augmentation of training images, and of their masks with them. Values of pixels are never changed."""

    flip: bool = True
    """Mirror left and right, and top and bottom."""
    rotate: bool = True
    """Rotate by multiples of 90 degrees; images that are not square, by 180 degrees."""
    crop: Two[ShareOrAll] | None = None
    """Smallest and largest share of the area of a crop, which is enlarged; not for images with masks."""


@dataclass(frozen=True, kw_only=True)
class FineTuneOptions(OfMasks, Head):
    """Trains the backbone on images together with a head: a linear layer on the pooled
    features, or a segmentation head on maps. The same head on the frozen backbone is also scored.
    """

    epochs: Positive = 10
    """Passes over the training images."""
    batch_size: Positive = 32
    """Images per training step."""
    learning_rate: Rates = 1e-4
    """Learning rate of the backbone, with AdamW. Of a list, the best on validation is used."""
    layer_decay: ShareOrAll = 1.0
    """Learning rate of a layer of the backbone as a share of the next layer's, from the head (1) towards the
    input; 0.65 to 0.75 is usual for transformers of 12 blocks, 1 gives all layers the same rate."""
    head_learning_rate: Rates = field(default_factory=lambda: [1e-3, 1e-2])
    """Learning rate of the head. Of a list, the best on validation with the frozen backbone is used, also for
    fine-tuning."""
    head_epochs: Positive = 20
    """Epochs of the head on the frozen backbone."""
    start: Literal["probe", "random"] = "probe"
    """Initial head of fine-tuning: the one trained on the frozen backbone, or a random one."""
    weight_decay: AtLeast0 = 0.05
    """Weight decay of AdamW; biases, scales and shifts have none."""
    schedule: Literal["cosine", "constant"] = "cosine"
    """Schedule of the learning rate over steps after the warm-up; cosine ends at 0."""
    warmup_epochs: AtLeast0 = 1
    """Epochs over which the learning rate rises."""
    clip_norm: Above0 | None = 1.0
    """Largest norm of the gradients of a step; null does not clip them."""
    batch_norm: Literal["frozen", "trained"] = "frozen"
    """Statistics of the backbone's batch normalisation: those of the pretrained weights, or of each batch. Its scale
    and shift are learned in either case."""
    augmentation: AugmentationOptions = field(default_factory=AugmentationOptions)
    """Augmentation of training images, and of their masks with them. Values of pixels are never changed."""
    select: Literal["last", "best"] = "best"
    """The epoch that is scored: the last, or the best on validation."""
    precision: Literal["fp32", "bf16"] = "fp32"
    """Precision of the forward pass."""
    head: HeadName = "linear"
    """Head for segmentation, as in the segmentation probe; so are layers, hidden, loss, resolution, boundary."""
    layers: Layers = None
    """Layers of the backbone to use, coarse to fine; null uses its default layers."""
