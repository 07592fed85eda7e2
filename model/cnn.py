"""The network that every loader feeds: two convolutions, one pool, two linear layers."""

from __future__ import annotations

from torch import nn

SMALLEST_SIDE = 6


class ConvNet(nn.Sequential):
    """Classify images; shapes below are those of 28x28 images.

    Called with float32 images of shape (N, C, H, W), it returns float32 log-probabilities of
    shape (N, num_classes).
    """

    def __init__(self, image_shape: tuple[int, int, int], num_classes: int) -> None:
        """Make the layers and draw their weights from torch's default generator.

        Args:
            image_shape: height, width, channels, as a source states them; sides from 6 pixels.
            num_classes: width of the output, at least 1.

        Raises:
            ValueError: the images are too small for the layers, or there is no channel or class.
        """
        features = _flat_features(image_shape, num_classes)
        super().__init__(
            nn.Conv2d(image_shape[2], 32, kernel_size=3),  # (N, C, 28, 28) -> (N, 32, 26, 26)
            nn.ReLU(),
            nn.Conv2d(32, 64, kernel_size=3),  # -> (N, 64, 24, 24)
            nn.MaxPool2d(2),  # -> (N, 64, 12, 12)
            nn.Flatten(),  # -> (N, 9216)
            nn.Linear(features, 128),  # -> (N, 128)
            nn.ReLU(),
            nn.Linear(128, num_classes),  # -> (N, num_classes)
            nn.LogSoftmax(dim=1),
        )


def _flat_features(image_shape: tuple[int, int, int], num_classes: int) -> int:
    """Return how many values of each image reach the first linear layer."""
    height, width, channels = image_shape
    if min(height, width) < SMALLEST_SIDE or channels < 1 or num_classes < 1:
        msg = (
            f"images of {height}x{width}x{channels} in {num_classes} classes do not fit the network: two 3x3"
            f" convolutions and a 2x2 pool need sides of at least {SMALLEST_SIDE} pixels, one channel and one"
            " class; resize the images, or choose another source with --loader-data"
        )
        raise ValueError(msg)
    return 64 * ((height - 4) // 2) * ((width - 4) // 2)
