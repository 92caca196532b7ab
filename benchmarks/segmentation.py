"""Segmentation heads against torchgeo-bench's, end to end: time, memory and mean IoU on aerial chips.

    python benchmarks/segmentation.py --data DIR --weights FILE [--peers .peers] [--full]

DIR holds dubai_seg; FILE is a checkpoint of timm's mobilenetv2_100; --peers is a virtual environment with
torchgeo-bench. Both sides take the same chips of 256 px, pixels, weights, four layers, epochs and batch, on
one thread. The peer runs once per head and seed, each time from the images, with its cache of features; ours
prepares and extracts once, then runs one process per head and seed. Times of processes hold their start-up.

Without --full a subset is run, whose mean IoU says little; "at full size" is computed from its phases, each
scaled by the chips and epochs it stands for. --full runs all 580/145/145 chips, 10 epochs and batch 64: hours
per run of fpn, days and some 100 GB for the peer's dpt, so name the --heads that you mean. Memory is
measured at full size in any case: few epochs of the linear head, its maps streamed as if none were free.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from _segmentation_project import LAYERS, Project, Size, write_chips, write_request, write_weights
from _timing import print_table, run_worker, venv_python

HEADS = ("linear", "conv_block", "fpn", "dpt")
FULL = Size(580, 10, 64)
#: the peer's dpt works on maps of 512 px: 20 s and over 1 GB per chip, so it gets few
SUBSET = {head: Size(48, 2, 16) for head in HEADS} | {"dpt": Size(4, 1, 4)}
QUICK = {head: Size(8, 1, 4) for head in HEADS} | {"dpt": Size(2, 1, 2)}
SEEDS_COUNTED = 3
HEADER = [
    "backbone", "head", "chips x epochs, batch", "ours CPU s", "peer CPU s", "ratio", "ours wall s",
    "peer wall s", "without start-up", "at full size", "ours MB", "peer MB", "ours mIoU", "peer mIoU",
    "peer inside",
]  # fmt: skip


class Runs:
    """Runs requests as processes and keeps their reports."""

    def __init__(self, folder: Path, peers: Path | None) -> None:
        self.folder = folder
        self.pythons = {"ours": sys.executable}
        if peers is not None:
            self.pythons["peer"] = str(venv_python(peers))
        self.worker = str(Path(__file__).parent / "_segmentation_worker.py")

    def __call__(self, request: dict, label: str) -> dict:
        print(f"  {label}", file=sys.stderr, flush=True)
        path = write_request(request, self.folder / "request.json")
        report = run_worker([self.pythons[request["side"]], self.worker, str(path)])
        with (self.folder / "reports.jsonl").open("a") as file:
            file.write(json.dumps({"job": label, **report}) + "\n")
        return report


def total(reports: list[dict], kind: str, *, start_up: bool = True) -> float:
    """Seconds over all phases: the median over `reports`, which are repeats of one job."""
    return statistics.median(
        sum(
            phase[kind]
            for name, phase in report["phases"].items()
            if start_up or name != "start-up"
        )
        for report in reports
    )


def at_full_size(reports: list[dict], size: Size) -> float:
    """CPU seconds of a job at full size: what grows with chips and epochs, times what there is more of."""
    images = FULL.total / size.total
    factors = {"start-up": 1, "rest": 1, "train": images * FULL.epochs / size.epochs}
    return statistics.median(
        sum(phase["cpu_s"] * factors.get(name, images) for name, phase in report["phases"].items())
        for report in reports
    )


class Case:
    """One backbone on one size: the heads that are run at this size, and their reports."""

    def __init__(self, project: Project, runs: Runs, heads: list[str], options) -> None:
        self.project, self.runs, self.heads, self.options = project, runs, heads, options
        self.shared: dict[str, list[dict]] = {}
        self.ours: dict[str, list[dict]] = {head: [] for head in heads}
        self.peer: dict[str, list[dict]] = {head: [] for head in heads}

    @property
    def size(self) -> Size:
        return self.project.size

    def run(self) -> None:
        """Both sides in turn, so that drifts of the machine hit both."""
        project, name = self.project, self.project.backbone
        for turn in range(self.options.repeats):
            for stage in ("prepare", "extract"):
                report = self.runs(getattr(project, stage)(), f"{name}: ours, {stage}")
                self.shared.setdefault(stage, []).append(report)
            for head in self.heads:
                for seed in self.options.seeds:
                    label = f"{name}, {head}, seed {seed}, run {turn + 1}"
                    self.ours[head].append(self.runs(project.head(head, seed), f"{label}: ours"))
                    if "peer" in self.runs.pythons:
                        self.peer[head].append(
                            self.runs(project.peer(head, seed), f"{label}: peer")
                        )

    def seconds_shared(self, measure) -> float:
        return sum(measure(reports) for reports in self.shared.values())

    def row(self, head: str) -> list[object]:
        size, ours, peer = self.size, self.ours[head], self.peer[head]
        counts = "/".join(str(count) for count in size.counts.values())
        row = [self.project.backbone, head, f"{counts} x {size.epochs}, {size.batch}"]
        cpu, wall, work, full = (self._both(head, measure) for measure in MEASURES.values())
        row += [f"{cpu[0]:.1f}", _number(cpu[1], ".1f"), _ratio(cpu)]
        row += [f"{wall[0]:.1f}", _number(wall[1], ".1f"), _ratio(work), _ratio(full)]
        jobs = [*self.shared.values(), ours]
        row += [f"{max(map(peak, jobs)):.0f}", _number(peak(peer) if peer else None, ".0f")]
        return row + self._mean_iou(head)

    def _both(self, head: str, measure) -> tuple[float, float | None]:
        """(ours, peer's): one head from the images on."""

        def of(reports):
            return measure(reports, self.size)

        peer = of(self.peer[head]) if self.peer[head] else None
        return self.seconds_shared(of) + of(self.ours[head]), peer

    def _mean_iou(self, head: str) -> list[str]:
        """Means over seeds of ours with its bounds and of the peer's, and whether the latter lies inside."""
        rows = [self.project.score(head, seed) for seed in self.options.seeds]
        value, lower, upper = (
            statistics.mean(row[key] for row in rows) for key in ("value", "lower", "upper")
        )
        ours = f"{value:.4f} [{lower:.4f}, {upper:.4f}]"
        if not self.peer[head]:
            return [ours, "-", "-"]
        peer = statistics.mean(report["mean_iou"] for report in self.peer[head])
        return [ours, f"{peer:.4f}", "yes" if lower <= peer <= upper else "no"]


MEASURES = {
    "CPU": lambda reports, size: total(reports, "cpu_s"),
    "wall": lambda reports, size: total(reports, "wall_s"),
    "CPU without start-up": lambda reports, size: total(reports, "cpu_s", start_up=False),
    "CPU at full size": at_full_size,
}


def peak(reports: list[dict]) -> float:
    return max(report["peak_mb"] for report in reports)


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def _ratio(pair: tuple[float, float | None]) -> str:
    return "-" if pair[1] is None else f"{pair[1] / pair[0]:.2f}"


def totals(cases: list[Case]) -> list[list[object]]:
    """Seconds for all heads of a backbone and three seeds: ours prepares and extracts once."""
    rows = []
    for backbone in dict.fromkeys(case.project.backbone for case in cases):
        of_backbone = [case for case in cases if case.project.backbone == backbone]
        heads = [head for case in of_backbone for head in case.heads]
        kinds = [heads] if heads == ["dpt"] or "dpt" not in heads else [heads, heads[:-1]]
        for kept in kinds:
            for title, measure in MEASURES.items():
                pair = _total(of_backbone, kept, measure, once=title == "CPU at full size")
                shown = [f"{pair[0]:.0f}", _number(pair[1], ".0f"), _ratio(pair)]
                rows.append([backbone, ", ".join(kept), title, *shown])
    return rows


def _total(cases: list[Case], heads: list[str], measure, *, once: bool):
    """(ours, peer's) for three seeds; `once`: sizes are made one, so the first case extracts for all."""
    ours, peer, shared = 0.0, 0.0, False
    for case in cases:
        kept = [head for head in case.heads if head in heads]
        if kept and not (once and shared):
            ours += case.seconds_shared(lambda reports, case=case: measure(reports, case.size))
            shared = True
        for head in kept:
            ours += SEEDS_COUNTED * measure(case.ours[head], case.size)
            if case.peer[head]:
                peer += SEEDS_COUNTED * measure(case.peer[head], case.size)
    return ours, peer or None


def memory(arguments, runs: Runs, folder: Path) -> list[list[object]]:
    """Peak memory of our jobs with all chips and with four times as many; the peer's with --full."""
    backbone = arguments.backbones[0]
    weights = write_weights(backbone, arguments.weights, folder)
    columns = []
    for copies in (1, 4):
        # as many steps in both, since the allocator's waste grows with the steps
        size = Size(arguments.memory_chips, 4 // copies, 16)
        place = folder / f"memory-{copies}"
        write_chips(arguments.data / "dubai_seg", place, size.counts, copies)
        project = Project(place, size, backbone, weights, heads=["linear"], seeds=[0])
        label = f"memory, {copies} x {size.total} chips"
        jobs = {"ours, prepare": project.prepare(), "ours, extract": project.extract()}
        jobs["ours, linear, streamed"] = project.head("linear", 0, stream=True)
        if arguments.full:
            jobs["ours, linear, kept where it fits"] = project.head("linear", 0)
        if arguments.full and "peer" in runs.pythons:
            jobs["peer, linear"] = project.peer("linear", 0)
        columns.append({n: runs(job, f"{label}: {n}")["peak_mb"] for n, job in jobs.items()})
    one, four = columns
    return [[n, f"{one[n]:.0f}", f"{four[n]:.0f}", f"{four[n] / one[n]:.3f}"] for n in one]


def cases_of(arguments, runs: Runs, folder: Path):
    """A case per backbone and size; heads of one size share what ours extracts."""
    sizes = {head: chosen_size(arguments, head) for head in arguments.heads}
    for backbone in arguments.backbones:
        weights = write_weights(backbone, arguments.weights, folder)
        for size in dict.fromkeys(sizes.values()):
            heads = [head for head in arguments.heads if sizes[head] == size]
            place = folder / f"{size.chips}-{size.epochs}-{size.batch}"
            if not (place / "chips.csv").exists():
                write_chips(arguments.data / "dubai_seg", place, size.counts)
            project = Project(place, size, backbone, weights, heads=heads, seeds=arguments.seeds)
            yield Case(project, runs, heads, arguments)


def chosen_size(arguments, head: str) -> Size:
    size = FULL if arguments.full else (QUICK if arguments.quick else SUBSET)[head]
    given = {"chips": arguments.chips, "epochs": arguments.epochs, "batch": arguments.batch_size}
    return replace(size, **{key: value for key, value in given.items() if value is not None})


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--peers", type=Path, help="virtual environment with torchgeo-bench")
    extent = parser.add_mutually_exclusive_group()
    extent.add_argument("--full", action="store_true", help="all chips, 10 epochs, batch 64")
    extent.add_argument("--quick", action="store_true", help="a few chips, to see that it runs")
    parser.add_argument("--chips", type=int, help="chips of train, for every head")
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--batch-size", type=int)
    parser.add_argument("--heads", nargs="+", choices=HEADS, default=list(HEADS))
    parser.add_argument("--backbones", nargs="+", choices=list(LAYERS), default=list(LAYERS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--memory-chips", type=int, help="chips of train at 1 x; 0 leaves it out")
    parser.add_argument("--folder", type=Path, help="keep all files here, for a look at them")
    arguments = parser.parse_args()
    arguments.heads = [head for head in HEADS if head in arguments.heads]
    if arguments.memory_chips is None:
        arguments.memory_chips = 16 if arguments.quick else FULL.chips
    return arguments


def main() -> None:
    arguments = parse()
    with tempfile.TemporaryDirectory() as temporary:
        folder = (arguments.folder or Path(temporary)).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        runs = Runs(folder, arguments.peers)
        cases = list(cases_of(arguments, runs, folder))
        for case in cases:
            case.run()
        print(
            "One head, from the images to its test score; a ratio above 1 means that ours is faster\n"
        )
        print_table(HEADER, [case.row(head) for case in cases for head in case.heads])
        print(f"\nAll heads x {SEEDS_COUNTED} seeds, from the images on\n")
        print_table(["backbone", "heads", "seconds", "ours", "peer", "ratio"], totals(cases))
        if arguments.memory_chips:
            rows = memory(arguments, runs, folder)
            print("\nPeak memory in MB as the chips grow\n")
            print_table(["job", "1 x", "4 x", "ratio"], rows)


if __name__ == "__main__":
    main()
