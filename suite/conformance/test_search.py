"""The rules for any request: a search for the smallest one that breaks them."""

from __future__ import annotations

import hashlib
import shlex
import time
from dataclasses import replace
from pathlib import Path

import pytest

from loaderproof.suite.judged import Judged, NotKept
from loaderproof.suite.trial import Trial
from loaderproof.suite.trying import Failure, Trier, failure

# Once a loader has hung in a search, each further time would cost a whole time-out again: these are the
# share of it and the seconds that are waited at least.
HASTE, LEAST_S = 0.25, 5.0


def test_every_request_keeps_the_rules(subject: Judged, pytestconfig: pytest.Config) -> None:
    """Whatever the sizes, seed, ranks, workers and epochs, a request that can be answered breaks no rule.

    Run with `--loader-search`, or on one request with `--loader-request`.

    Why: the scenarios of the other tests are few. A loader that fails only if one sample is left over,
    in the fourth epoch, or with more workers than samples, passes them all.

    Reports: facebookresearch/detectron2 PR#5035, pytorch/pytorch#33413, tensorflow/tensorflow PR#34180

    Causes: an edge that nobody thought of: a rest of one, an empty share, a number that no longer fits
    its type.

    Remedy: repeat the smallest request that was found until it passes, and keep it as a test.
    """
    settings, trier = subject.session.settings, Trier.of(subject)
    if subject.case.description.batch_size:
        pytest.skip("it gives batches of one size, whatever is asked for")
    if settings.request:
        _expect_kept(subject, settings.request, failure(trier, settings.request))
    else:
        _search(subject, trier, pytestconfig)


def _search(subject: Judged, trier: Trier, config: pytest.Config) -> None:
    from loaderproof.suite import search  # noqa: PLC0415 - Hypothesis is needed for nothing else

    def tried(trial: Trial) -> Failure | None:
        subject.progress(f"request {len(attempts.known) + 1}")
        failed = any(attempts.known.values())
        return failure(replace(trier, patience=haste if failed else 1), trial)

    haste = min(1.0, max(HASTE, LEAST_S / subject.session.settings.timeout_s))
    examples = subject.session.settings.search or 1
    attempts = search.Attempts(tried, time.monotonic() + examples * search.SECONDS_EACH)
    found = search.smallest(attempts, subject.case, examples, subject.seed, _kept(config, subject))
    if found:
        _expect_kept(subject, found, attempts.known[found])


def _kept(config: pytest.Config, subject: Judged) -> Path | None:
    """Return the folder of the requests that failed before; None if pytest keeps nothing."""
    cache: pytest.Cache | None = getattr(config, "cache", None)
    name = hashlib.sha256(subject.case.label.encode()).hexdigest()[:16]
    return cache.mkdir("loaderproof-search") / name if cache else None


def _expect_kept(subject: Judged, trial: Trial, broken: Failure | None) -> None:
    if broken:
        command = f"{subject.command} --loader-request {shlex.quote(str(trial))}"
        report = broken.report.replace(subject.command, command)
        text = f"{report}\n\nThe smallest request that breaks it: {trial}"
        raise NotKept(text)
