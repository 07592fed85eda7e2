"""Fixtures and parameters of the suite's own tests; `suite/conftest.py` brings them in."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from loaderproof.suite import article_rows, options, own_data, turns
from loaderproof.suite.judged import Judged, NotKept, repeat_command
from loaderproof.suite.session import Case, Session

if TYPE_CHECKING:
    from loaderproof.suite.gate.keeper import Gatekeeper

SESSION = pytest.StashKey[Session]()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out what has to be asked for and is not, and everything else if one request is tried."""
    if collection_path.suffix != ".py" or not collection_path.name.startswith("test_"):
        return None
    settings = options.read(config)
    name = collection_path.stem.removeprefix("test_")
    if settings.request:
        return None if name == "search" else True
    asked = {"search": bool(settings.search), "tune": settings.tune, "gate": bool(settings.gate)}
    asked |= {kind: kind in settings.profiles for kind in options.PROFILES}
    return None if asked.get(name, True) else True


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give every test that judges a loader each case in turn."""
    if "case" in metafunc.fixturenames:
        article = metafunc.definition.get_closest_marker("article")
        cases = _rows(metafunc.config) if article else session_of(metafunc.config).cases()
        metafunc.parametrize(
            "case", cases, ids=[case.label for case in cases], indirect=True, scope="session"
        )


def pytest_collection_modifyitems(config: pytest.Config) -> None:
    """Stop here if there is nothing to judge, and say why."""
    if config.stash.get(SESSION, None) and config.stash[SESSION].problem:
        raise pytest.UsageError(config.stash[SESSION].problem)


def session_of(config: pytest.Config) -> Session:
    """Return the session of this run."""
    if SESSION not in config.stash:
        config.stash[SESSION] = Session(options.read(config))
        config.add_cleanup(config.stash[SESSION].close)
    return config.stash[SESSION]


def _rows(config: pytest.Config) -> list[Case]:
    """Return the article's rows for those loaders that are judged in this run."""
    by_spec = {case.spec: case for case in session_of(config).cases()}
    rows = [row for row in article_rows.ROWS if row.spec in by_spec]
    return [replace(by_spec[row.spec], label=row.label, variant="", workers=row.workers) for row in rows]


@pytest.fixture(scope="session")
def case(request: pytest.FixtureRequest) -> Case:
    """Return the loader whose turn it is."""
    return cast("Case", request.param)


@pytest.fixture
def subject(request: pytest.FixtureRequest, case: Case) -> Judged:
    """Return one loader to be judged; skip what it does not promise, expect its known failures."""
    item = request.node
    needed = tuple(promise for mark in item.iter_markers("promises") for promise in mark.args)
    test = item.originalname
    kind = "article" if item.get_closest_marker("article") else "loader"
    item.user_properties += [(kind, case.label), ("phase", turns.phase_of(item))]
    lacking = case.lacks(needed)
    if lacking:
        pytest.skip(f"{case.description.name} does not promise {', '.join(lacking)}")
    session = session_of(request.config)
    truth = own_data.truth_of(case.description, session.settings.data, options.DATA)
    why = own_data.why_not(truth, test)
    if why:
        item.user_properties.append(("unchecked", why))
        pytest.skip(why)
    known = case.deviation(test)
    if known:
        reason = f"{known.reason} ({known.link})"
        item.add_marker(pytest.mark.xfail(strict=True, raises=NotKept, reason=reason))
    command = _command(request.config, item.name, case)
    return Judged(session, case, test, _rule(item), command, item.user_properties)


@pytest.fixture
def gatekeeper(request: pytest.FixtureRequest) -> Gatekeeper:
    """Return the gate of this run."""
    return cast("Gatekeeper", request.config.pluginmanager.get_plugin(turns.GATEKEEPER))


def _rule(item: pytest.Function) -> str:
    return " ".join((item.obj.__doc__ or item.name).split("\n\n")[0].split())


def _command(config: pytest.Config, item: str, case: Case) -> str:
    paths = (["--pyargs"] if config.option.pyargs else []) + [arg.split("::")[0] for arg in config.args]
    # What the gate decides, it has to measure first.
    name = re.sub(r"^test_gate_\w+", "test_gate ", item)
    return repeat_command(paths, options.given(config), name, case)
