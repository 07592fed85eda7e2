"""The article's network."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from loaderproof.model.cnn import ConvNet


def test_layers_are_the_articles():
    """On 28x28x1 images in ten classes the layers have the article's kinds, order and sizes."""
    layers = [
        (type(layer).__name__, *(tuple(p.shape) for p in layer.parameters()))
        for layer in ConvNet((28, 28, 1), 10)
    ]

    assert [
        ("Conv2d", (32, 1, 3, 3), (32,)),
        ("ReLU",),
        ("Conv2d", (64, 32, 3, 3), (64,)),
        ("MaxPool2d",),
        ("Flatten",),
        ("Linear", (128, 9216), (128,)),
        ("ReLU",),
        ("Linear", (10, 128), (10,)),
        ("LogSoftmax",),
    ] == layers


def test_convolutions_do_not_pad():
    """Each convolution takes a border of one pixel off, and the pool halves each side."""
    seen = []
    images = torch.zeros(2, 1, 28, 28)
    for layer in ConvNet((28, 28, 1), 10):
        images = layer(images)
        if isinstance(layer, nn.Conv2d | nn.MaxPool2d):
            seen.append(tuple(images.shape))

    assert [(2, 32, 26, 26), (2, 64, 24, 24), (2, 64, 12, 12)] == seen


@pytest.mark.parametrize(
    "shape", [(28, 28, 1), (6, 6, 1), (7, 6, 3), (12, 20, 3), (20, 12, 1), (9, 31, 4)], ids=str
)
def test_input_shape_follows_the_source(shape: tuple[int, int, int]):
    """Every image shape from 6x6 up gives one log-probability for each class."""
    height, width, channels = shape

    output = ConvNet(shape, 7)(torch.rand(3, channels, height, width))

    assert (3, 7) == tuple(output.shape)
    torch.testing.assert_close(output.exp().sum(dim=1), torch.ones(3))


@pytest.mark.parametrize(
    ("shape", "classes"),
    [((5, 28, 1), 10), ((28, 5, 1), 10), ((28, 28, 0), 10), ((28, 28, 1), 0)],
    ids=["low", "narrow", "no channel", "no class"],
)
def test_shape_that_does_not_fit_is_refused(shape: tuple[int, int, int], classes: int):
    """Images too small for the layers, or nothing to tell apart, raise an error that says what to do."""
    described = "x".join(map(str, shape))

    with pytest.raises(ValueError, match=f"{described} in {classes} classes .* --loader-data"):
        ConvNet(shape, classes)
