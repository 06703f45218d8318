"""Results as rows."""

import csv
import io

from cudabw.report.csv_rows import run_to_csv
from cudabw.results.launch import Counts, Difference, LaunchCase, LaunchTrial, Mode, Seconds, Verdict
from cudabw.results.model import CaseResult, Clock, DeviceInfo, Link, Rate, RunResult, State, Trial

COPIES = CaseResult(
    "a", "bandwidth", "pinned", "driver", "h2d", 4096, State.OK,
    clock=Clock.EVENT, gated=True, verified=True, rate_bytes_per_s=Rate(5e10, None, 5.5e10, 4e10, 6e10),
    notes=("one, and", 'two "quoted"'), trials=(Trial(16, (8.2e-8,)), Trial(16, (8.1e-8,))),
)  # fmt: skip
REFUSED = CaseResult("b", "bandwidth", "mapped", "driver", "d2h", 1, State.REFUSED, "no\nroom")
LAUNCH = LaunchCase(
    "c", "launch_overhead", "buffer", 4, Mode.PREPARED, State.OK,
    submit_s=Seconds(1e-6, 9e-7, 2e-6, 5e-7, 3e-6),
    difference=Difference(Mode.BARE, 1e-7, None, None, Verdict.UNKNOWN, (1e-7,)),
    trials=(LaunchTrial(10, (1e-6,), (1e-6,), (1e-6,), None, Counts(10)),),
)  # fmt: skip
DEVICE = DeviceInfo(0, "Câblé", "GPU-1", None, emulated=False, link=Link(5, 16, 63.0e9, "nvml"))


def run_of(*cases, device=DEVICE):
    return RunResult(("bandwidth",), "2026-01-02T03:04:05Z", "1.2", device=device, cases=cases)


def rows_of(run):
    return list(csv.DictReader(io.StringIO(run_to_csv(run))))


def test_the_whole_text_of_a_case():
    header, row, rest = run_to_csv(run_of(COPIES)).split("\n")
    assert header == (
        "id,benchmark,kind,engine,direction,size_bytes,state,reason,named,clock,gated,host_held,verified,"
        "rate_bytes_per_s.median,rate_bytes_per_s.low,rate_bytes_per_s.high,rate_bytes_per_s.min,rate_bytes_per_s.max,"
        "rate_bytes_per_s.p5,rate_bytes_per_s.p95,rate_bytes_per_s.n,rate_bytes_per_s.outliers,"
        "link_fraction,tick_s,driver_says,pages,threads,notes,trials,numa_node,"
        "device.ordinal,device.name,device.uuid,device.pci,device.emulated,device.memory_bytes,"
        "device.link.generation,device.link.width,device.link.ceiling_bytes_per_s,device.link.source,"
        "device.link.narrowest_hop.pci,device.link.narrowest_hop.generation,device.link.narrowest_hop.width,"
        "device.link.narrowest_hop.source,"
        "device.max_link.generation,device.max_link.width,device.max_link.ceiling_bytes_per_s,device.max_link.source,"
        "device.max_link.narrowest_hop.pci,device.max_link.narrowest_hop.generation,"
        "device.max_link.narrowest_hop.width,device.max_link.narrowest_hop.source,"
        "device.numa_node,run.started,run.finished,run.tool_version"
    )
    assert row == (
        "a,bandwidth,pinned,driver,h2d,4096,ok,,false,event,true,,true,50000000000.0,,55000000000.0,40000000000.0,"
        '60000000000.0,,,,,,,,warm,,"one, and; two ""quoted""",2,,0,Câblé,GPU-1,,false,,5,16,63000000000.0,nvml,'
        ",,,,,,,,,,,,,2026-01-02T03:04:05Z,,1.2"
    )
    assert rest == ""


def test_benchmarks_share_a_header_and_leave_empty_what_they_have_no_such_thing_for():
    copies, refused, launch = rows_of(run_of(COPIES, REFUSED, LAUNCH))
    assert (copies["submit_s.median"], copies["mode"], copies["trials"]) == ("", "", "2")
    assert (refused["reason"], refused["rate_bytes_per_s.median"], refused["trials"]) == ("no\nroom", "", "0")
    assert (launch["submit_s.median"], launch["mode"], launch["size_bytes"]) == ("1e-06", "prepared", "")
    assert (launch["difference.over"], launch["difference.verdict"]) == ("bare", "not known from one trial")
    assert (launch["sustained_s.median"], launch["trials"]) == ("", "1")
    assert not any("samples" in column for column in launch)
    # The columns of the run are the last ones whatever came before.
    assert list(launch)[-1] == "run.tool_version"


def test_only_benchmarks_that_were_run_have_columns():
    assert "mode" not in rows_of(run_of(COPIES))[0]
    assert "size_bytes" not in rows_of(run_of(LAUNCH))[0]


def test_without_a_case_there_is_a_header_and_without_a_device_its_columns_are_empty():
    assert run_to_csv(run_of()).startswith("device.ordinal,device.name,")
    assert run_to_csv(run_of()).count("\n") == 1
    assert rows_of(run_of(REFUSED, device=None))[0]["device.emulated"] == ""
