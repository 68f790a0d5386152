"""Progress of a run: one line for each job that ends, with what runs now and about how long the rest takes."""

from lib.reproduce.jobs import Job
from lib.reproduce.record import Result
from lib.reproduce.side_by_side import Running

# Seconds on one of two quiet cores, until a run has measured them on this machine.
TYPICAL = {"00_": 120, "01_": 15, "02_": 15, "03_": 30, "04_": 25, "04b_": 25, "05_": 20, "06_": 45, "07_": 30,
           "08_": 35, "09_": 8, "10_": 60}  # fmt: skip
UNKNOWN = 30  # seconds, for any other notebook


class Progress:
    """How long jobs take, from the last run where there was one, and the lines that say how far a run has come.

    processes: how many jobs run at once.
    """

    def __init__(self, jobs: list[Job], record: dict[str, Result], processes: int):
        self.processes, self.number, self.ended = processes, len(jobs), 0
        self.seconds = {job.name: TYPICAL.get(job.number, UNKNOWN) for job in jobs}
        self.seconds |= {name: result.seconds for name, result in record.items() if result.seconds}

    def longest_first(self, jobs: list[Job]) -> list[Job]:
        return sorted(jobs, key=lambda job: -self.seconds[job.name])

    def tell(self, job: Job, result: Result, waiting: list[Job], running: list[Running]) -> None:
        """Print the line of a job that has ended."""
        self.ended += 1
        how = f"{result.seconds:.0f} s" if result.status == "run" else result.status
        line = f"[{self.ended}/{self.number}] {job.name}: {how}{f': {result.cause}' if result.cause else ''}"
        if result.status in ("run", "failed") and (waiting or running):
            beside = f"{', '.join(one.job.name for one in running)} running, " if running else ""
            line += f"  ({beside}{len(waiting)} waiting, {self.left(waiting, running)})"
        print(line, flush=True)

    def left(self, waiting: list[Job], running: list[Running]) -> str:
        """About how long the rest takes if none of it is unchanged."""
        seconds = sum(max(self.seconds[one.job.name] - one.seconds, 0) for one in running) / self.processes
        seconds += sum(self.seconds[job.name] / (1 if job.alone else self.processes) for job in waiting)
        return f"about {seconds / 60:.0f} min left" if seconds >= 90 else f"about {seconds:.0f} s left"
