"""Does the suite cry wolf? The built-in loaders, judged again and again on a busy machine.

    python tests/benchmarks/false_alarms.py [--times 20] [--busy 2] [-- OPTIONS OF pytest]

Each run has another seed, while other processes keep so many cores busy. A failure that no loader
declares is a false alarm, or a fault that nobody knew.
"""

from __future__ import annotations

import argparse
import multiprocessing
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from xml.etree import ElementTree as ET

CONFORMANCE = Path(__file__).parents[2] / "suite" / "conformance"


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--busy", type=int, default=2, help="cores that others keep busy")
    parser.add_argument("options", nargs="*", help="for pytest, behind two dashes")
    asked = parser.parse_args()
    judged, alarms = 0, Counter[str]()
    with busy(asked.busy):
        for seed in range(1, asked.times + 1):
            began = time.monotonic()
            passed, failed, text = judge(seed, asked.options)
            judged += passed + len(failed)
            alarms.update(failed)
            print(
                f"seed {seed}: {passed} passed, {len(failed)} failed in {time.monotonic() - began:.0f} s",
                flush=True,
            )
            if failed:
                print(text, flush=True)
    print(
        f"{sum(alarms.values())} false alarms in {judged} judgements, {asked.busy} cores kept busy by others"
    )
    for name, times in alarms.most_common():
        print(f"{times:>3} x {name}")


def judge(seed: int, options: list[str]) -> tuple[int, list[str], str]:
    """Run the conformance tests once; return how many passed, which failed, and what pytest printed of those."""
    with tempfile.TemporaryDirectory() as folder:
        junit = Path(folder) / "junit.xml"
        words = [CONFORMANCE, f"--loader-seed={seed}", f"--junitxml={junit}", "-q", "--tb=short", *options]
        done = subprocess.run(
            [sys.executable, "-P", "-m", "pytest", "-p", "no:cacheprovider", *words],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode not in {0, 1}:
            sys.exit(done.stdout + done.stderr)
        cases = list(ET.parse(junit).iter("testcase"))  # noqa: S314 - our own file
    ends = [{part.tag for part in case} & {"failure", "error", "skipped"} for case in cases]
    failed = [
        case.attrib["name"] for case, end in zip(cases, ends, strict=True) if end & {"failure", "error"}
    ]
    if ends.count(set()) == 0:
        sys.exit(done.stdout + "nothing was judged")
    return ends.count(set()), failed, done.stdout


@contextmanager
def busy(cores: int) -> Iterator[None]:
    """Keep cores busy meanwhile."""
    processes = [multiprocessing.Process(target=_spin, daemon=True) for _ in range(cores)]
    for process in processes:
        process.start()
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.join()


def _spin() -> None:
    while True:
        pass


if __name__ == "__main__":
    main()
