"""Run one command in a process of its own and report its time and memory on the error stream.

The time is that of the work clock, which compiling kernels pauses, less the time in which the main
thread waited for a core: other tests run beside this one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from threading import Event

REPORT = "limit-run:"
NUM_LOOKS, SECONDS_BETWEEN_LOOKS = 40, 0.05


@dataclass(frozen=True)
class Outcome:
    code: int
    seconds: float
    peak: int  # bytes
    out: str
    err: str
    is_alone: bool  # no process is left


def run_command(words: list[str], folder: Path, timeout: float) -> Outcome:
    """Run `lapis` with these words in a folder."""
    command = [sys.executable, __file__, *words]
    process = subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        out, err = process.communicate()
        return Outcome(-9, timeout, 0, out, err, False)
    lines = err.splitlines()
    report = next((line for line in reversed(lines) if line.startswith(REPORT)), None)
    seconds, peak = json.loads(report.removeprefix(REPORT)) if report else (0.0, 0)
    shown = "\n".join(line for line in lines if not line.startswith(REPORT))
    return Outcome(process.returncode, seconds, peak, out, shown, ends_alone(process.pid))


def ends_alone(group: int) -> bool:
    """Return whether all processes of the group end soon after their parent."""
    return any(
        not has_processes(group) or Event().wait(SECONDS_BETWEEN_LOOKS) for _ in range(NUM_LOOKS)
    )


def has_processes(group: int) -> bool:
    """Return whether a process of the group is alive; one that nothing waits for is not."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, own = path.read_text().rpartition(")")[2].split()[:3]
        except OSError:
            continue
        if int(own) == group and state != "Z":
            return True
    return False


def seconds_waited() -> float:
    """Return how long the main thread was ready to run and waited for a core."""
    try:
        return int(Path("/proc/self/schedstat").read_text().split()[1]) / 1e9
    except OSError:
        return 0.0


def peak_bytes() -> int:
    status = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in status if line.startswith("VmHWM")).split()[1])


def main() -> None:
    from lapis.cli.main import main as run
    from lapis.runtime.progress import work_clock

    began, waited = work_clock(), seconds_waited()
    try:
        run(sys.argv[1:])
    finally:
        seconds = work_clock() - began - (seconds_waited() - waited)
        print(f"\n{REPORT}{json.dumps([seconds, peak_bytes()])}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
