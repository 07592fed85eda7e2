"""The article's mixture as it stood: the order of its operations, its len() and its epochs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from loaderproof.loaders._requests import options_of
from loaderproof.loaders._tensorflow import as_torch, batched
from loaderproof.loaders._tfds import FORMAT, TfdsAdapter, in_memory
from loaderproof.loaders.contract import Description, Deviation, Loader, Promise, Request, Source

if TYPE_CHECKING:
    from loaderproof.loaders.contract import Batch

LINK = "docs/article.md"
BLURRED = "repeat comes before shuffle, so that samples of later epochs take the place of some of this one"
CONTINUED = "the object is its own iterator: a new pass goes on where the last one stopped"
EPOCHS = 10


@dataclass(frozen=True)
class Options:
    """How much there is to come.

    Attributes:
        epochs: how often the samples are repeated; then the loader is empty for good.
    """

    epochs: int = EPOCHS


class TfdsArticle(TfdsAdapter):
    """Shuffles whether asked to or not, so that the source's order is not promised, nor drop_last."""

    description = Description(
        name="tfds_article",
        summary="the article's mixture as it stood, with epochs that blur and a len() in samples",
        promises=frozenset(
            {
                Promise.LENGTH,
                Promise.SHUFFLE,
                Promise.RESHUFFLING,
                Promise.SEEDED_ORDER,
                Promise.PRIVATE_RANDOMNESS,
            }
        ),
        requires=("tensorflow", "tensorflow_datasets", "torch"),
        extra="tf",
        deviations=(
            Deviation("test_every_sample_once", BLURRED, LINK),
            Deviation("test_every_sample_of_the_data_once", BLURRED, LINK),
            Deviation("test_second_epoch_is_complete", BLURRED, LINK),
            Deviation("test_new_pass_after_a_break_is_complete", CONTINUED, LINK),
            Deviation("test_len_counts_batches", "len() is the number of samples", LINK),
        ),
        on_disk=FORMAT,
    )

    def open(self, source: Source, directory: Path, request: Request) -> Loader:
        """Return one stream of all epochs: repeat, shuffle, batch, map, prefetch."""
        options, count = options_of(Options, request), len(source)
        samples = in_memory(directory).repeat(options.epochs)
        batches = batched(samples.shuffle(max(1, count), seed=request.seed), request)
        return Stream(as_torch(batches), count)


class Stream:
    """The article's object: its own iterator, whose length is the number of samples.

    The article's training loop left an epoch once more samples had come than there are; here a
    pass ends then. The next one goes on where it stopped, and behind the last repeat is nothing.
    """

    def __init__(self, batches: Iterable[Batch], samples: int) -> None:
        self._rest = iter(batches)
        self._samples = samples
        self._came = 0

    def __len__(self) -> int:
        return self._samples

    def __iter__(self) -> Iterator[Batch]:
        self._came = 0
        return self

    def __next__(self) -> Batch:
        if self._came > self._samples:
            raise StopIteration
        batch = next(self._rest)
        self._came += len(batch[0])
        return batch

    def close(self) -> None:
        """Let go of the stream, and with it of the threads of tf.data."""
        self._rest = iter(())
