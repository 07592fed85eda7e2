"""Whether a series of figures rises."""

from __future__ import annotations

from collections.abc import Sequence

# The first epochs fill pools and caches.
WARM_UP = 8
PAIRS = 32
EPOCHS = WARM_UP + 2 * PAIRS


def rises(values: Sequence[float], least: float) -> bool:
    """Tell whether figures of successive epochs rise.

    Each figure of the first half is compared with the one as far into the second half. If the figures
    are noise around a level, in whatever order, so that each is as likely to be the larger, all of the
    32 pairs rise with a probability of 2**-32, 2e-10.

    Args:
        values: one for each of EPOCHS epochs.
        least: by so much each pair has to rise; against a drift that is too small to matter.
    """
    first, second = values[WARM_UP:][:PAIRS], values[WARM_UP:][PAIRS:]
    return all(later - earlier >= least for earlier, later in zip(first, second, strict=True))
