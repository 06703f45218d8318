"""How far whole default runs on one machine differ: the same measurement again and again, each in a fresh process.

Run on a machine with a GPU, from the root of the checkout:

    PYTHONPATH=. python3 tests/gpu/a_a_runs.py [--bandwidth 10] [--launch-overhead 10] [--seconds 200]
        [--out FILE] [--keep FOLDER]

The two benchmarks take turns, and with --keep their results are kept as files, for cudabw compare. No run is begun
that would not end within --seconds, as far as those before it tell.
For each case it prints, in percent of the median of the runs' medians:

* between runs: standard deviation of the medians of the runs, and the farthest one;
* between trials: standard deviation of the trials' medians within a run, the median over runs;
* within trials: standard deviation of the samples of a trial, the median over all trials;
* trials: the fewest and the most that a run took; and the states other than ok.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from itertools import cycle
from pathlib import Path

BENCHMARKS = ("bandwidth", "launch-overhead")


def run_once(benchmark, arguments):
    """One whole run in a process of its own: its document and the seconds it took."""
    start = time.monotonic()
    command = [sys.executable, "-m", "cudabw", benchmark, *arguments, "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    seconds = time.monotonic() - start
    document = json.loads(done.stdout)
    if document["error"] is not None:
        sys.exit(f"{' '.join(command)}: {document['error']['message']}")
    return document, seconds


def take_turns(wanted, most_seconds, arguments, folder):
    """The runs of each benchmark, until there are as many as wanted or the time is used up."""
    runs = {benchmark: [] for benchmark in BENCHMARKS}
    end = time.monotonic() + most_seconds
    for benchmark in cycle(BENCHMARKS):
        open_ones = [name for name in BENCHMARKS if len(runs[name]) < wanted[name] and fits(runs[name], end)]
        if not open_ones:
            return runs
        if benchmark in open_ones:
            runs[benchmark].append(run_once(benchmark, arguments))
            if folder:
                kept = folder / f"{benchmark}-{len(runs[benchmark]):02}.json"
                kept.write_text(json.dumps(runs[benchmark][-1][0]))
            print(f"{benchmark} {len(runs[benchmark])}: {runs[benchmark][-1][1]:.1f} s", file=sys.stderr)
    return runs


def fits(runs, end):
    return time.monotonic() + max((seconds for _, seconds in runs), default=0.0) <= end


def trials_of(case):
    """The samples of each trial: seconds of one copy, or of one call of a launch."""
    return [trial["samples_s" if case["benchmark"] == "bandwidth" else "submit_s"] for trial in case["trials"]]


def median_of(case):
    """The figure as seconds or a rate; None where the case has none."""
    figure = case["rate_bytes_per_s" if case["benchmark"] == "bandwidth" else "submit_s"]
    return None if figure is None else figure["median"]


def spread(values):
    """Standard deviation in percent of the median; None for fewer than two values."""
    return 100 * statistics.stdev(values) / statistics.median(values) if len(values) > 1 else None


def middle(spreads):
    known = [value for value in spreads if value is not None]
    return statistics.median(known) if known else None


def describe_case(name, cases):
    """What the runs say of one case."""
    medians = [median for case in cases if (median := median_of(case)) is not None]
    trials = [trials_of(case) for case in cases]
    overall = statistics.median(medians) if medians else None
    counts = [len(each) for each in trials]
    return {
        "case": name,
        "runs": len(medians),
        "median": overall,
        "between_runs_percent": spread(medians),
        "farthest_percent": max((100 * abs(median / overall - 1) for median in medians), default=None),
        "between_trials_percent": middle(spread([statistics.median(samples) for samples in each]) for each in trials),
        "within_trials_percent": middle(spread(samples) for each in trials for samples in each),
        "fewest_trials": min(counts),
        "most_trials": max(counts),
        "medians": medians,
        "states": {state: sum(case["state"] == state for case in cases) for state in {case["state"] for case in cases}},
    }


def describe(benchmark, runs):
    documents = [document for document, _ in runs]
    by_case = {}
    for document in documents:
        for case in document["cases"]:
            by_case.setdefault(case["id"], []).append(case)
    return {
        "benchmark": benchmark,
        "runs": len(runs),
        "run_seconds": [round(seconds, 2) for _, seconds in runs],
        "device": documents[0]["device"]["name"],
        "environment": documents[0]["environment"],
        "cases": [describe_case(name, cases) for name, cases in by_case.items()],
    }


def show(report):
    seconds = report["run_seconds"]
    print(f"\n{report['benchmark']}, {report['device']}: {report['runs']} runs of {min(seconds)} to {max(seconds)} s")
    print(f"{'case':44}{'between runs':>13}{'farthest':>10}{'between':>9}{'within':>8}{'trials':>9}  not ok")
    for case in report["cases"]:
        figures = ("between_runs_percent", "farthest_percent", "between_trials_percent", "within_trials_percent")
        runs, farthest, between, within = ("-" if case[key] is None else f"{case[key]:.3f}" for key in figures)
        trials = f"{case['fewest_trials']}-{case['most_trials']}"
        others = ", ".join(f"{count} {state}" for state, count in sorted(case["states"].items()) if state != "ok")
        print(f"{case['case']:44}{runs:>13}{farthest:>10}{between:>9}{within:>8}{trials:>9}  {others}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bandwidth", type=int, default=10, metavar="N", help="runs of cudabw bandwidth")
    parser.add_argument("--launch-overhead", type=int, default=10, metavar="N", help="runs of cudabw launch-overhead")
    parser.add_argument("--seconds", type=float, default=200.0, help="begin no run that would not end within this time")
    parser.add_argument("--backend", default="cuda", help="as of cudabw; the emulated one only tries out this script")
    parser.add_argument("--quick", action="store_true", help="quick runs instead of default ones")
    parser.add_argument("--out", type=Path, help="write the figures to this file as JSON")
    parser.add_argument("--keep", type=Path, help="an existing folder that every run's results are written to")
    options = parser.parse_args()
    wanted = {"bandwidth": options.bandwidth, "launch-overhead": options.launch_overhead}
    arguments = ["--backend", options.backend, *(["--quick"] if options.quick else [])]
    runs = take_turns(wanted, options.seconds, arguments, options.keep)
    reports = [describe(benchmark, taken) for benchmark, taken in runs.items() if taken]
    for report in reports:
        show(report)
    if options.out:
        options.out.write_text(json.dumps(reports, indent=1) + "\n")
    short = {name: count for name, count in wanted.items() if len(runs[name]) < count}
    for name, count in short.items():
        print(f"{name}: {len(runs[name])} of {count} runs in the time", file=sys.stderr)
    return 1 if short else 0


if __name__ == "__main__":
    sys.exit(main())
