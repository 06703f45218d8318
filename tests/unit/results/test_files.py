"""Results as one strict JSON document."""

import json
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cudabw.results.files import to_json
from cudabw.results.model import CaseResult, Clock, DeviceInfo, Hop, Link, Rate, RunError, RunResult, State, Trial

RESULT = RunResult(
    command=("bandwidth", "--pinned"),
    started="2026-01-02T03:04:05Z",
    tool_version="1.2",
    device=DeviceInfo(
        0,
        "Câblé",
        "GPU-1",
        "0000:17:00.0",
        emulated=False,
        memory_bytes=1 << 40,
        link=Link(5, 16, 63.0e9, "nvml", Hop("0000:00:01.0", 5, 16)),
        numa_node=1,
    ),
    environment={"cuda_driver": "13.0", "variables": {}},
    cases=(
        CaseResult(
            id="bandwidth/pinned/driver/h2d/4096",
            benchmark="bandwidth",
            kind="pinned",
            engine="driver",
            direction="h2d",
            size_bytes=4096,
            state=State.OK,
            named=True,
            clock=Clock.EVENT,
            gated=True,
            verified=True,
            rate_bytes_per_s=Rate(5e10, 4.5e10, 5.5e10, 4e10, 6e10, p5=4.1e10, p95=5.9e10, n=2, outliers=0),
            tick_s=3.2e-8,
            link_fraction=0.79,
            driver_says="page-locked",
            notes=("a note",),
            trials=(Trial(16, (8.2e-8, 8.1e-8), 1e-3, (9e-8,), 1, {"0": 3, "1": 61}, 1),),
            numa_node=1,
        ),
        CaseResult("i", "bandwidth", "mapped", "driver", "d2h", 1, State.REFUSED, "no room"),
    ),
    tags={"node": "a7"},
    warnings=("a warning",),
    finished="2026-01-02T03:04:06Z",
)

DOCUMENT = {
    "schema": 1,
    "tool": {"name": "cudabw", "version": "1.2"},
    "command": ["bandwidth", "--pinned"],
    "started": "2026-01-02T03:04:05Z",
    "finished": "2026-01-02T03:04:06Z",
    "tags": {"node": "a7"},
    "interrupted": False,
    "error": None,
    "device": {
        "ordinal": 0,
        "name": "Câblé",
        "uuid": "GPU-1",
        "pci": "0000:17:00.0",
        "emulated": False,
        "memory_bytes": 1 << 40,
        "link": {
            "generation": 5,
            "width": 16,
            "ceiling_bytes_per_s": 63.0e9,
            "source": "nvml",
            "narrowest_hop": {"pci": "0000:00:01.0", "generation": 5, "width": 16, "source": "sysfs"},
        },
        "max_link": {
            "generation": None,
            "width": None,
            "ceiling_bytes_per_s": None,
            "source": None,
            "narrowest_hop": None,
        },
        "numa_node": 1,
    },
    "environment": {"cuda_driver": "13.0", "variables": {}},
    "warnings": ["a warning"],
    "limits": [],
    "cases": [
        {
            "id": "bandwidth/pinned/driver/h2d/4096",
            "benchmark": "bandwidth",
            "kind": "pinned",
            "engine": "driver",
            "direction": "h2d",
            "size_bytes": 4096,
            "state": "ok",
            "reason": None,
            "named": True,
            "clock": "event",
            "gated": True,
            "host_held": None,
            "verified": True,
            "rate_bytes_per_s": {
                "median": 5e10,
                "low": 4.5e10,
                "high": 5.5e10,
                "min": 4e10,
                "max": 6e10,
                "p5": 4.1e10,
                "p95": 5.9e10,
                "n": 2,
                "outliers": 0,
            },
            "link_fraction": 0.79,
            "tick_s": 3.2e-8,
            "driver_says": "page-locked",
            "pages": "warm",
            "threads": None,
            "notes": ["a note"],
            "trials": [
                {
                    "copies_per_batch": 16,
                    "samples_s": [8.2e-8, 8.1e-8],
                    "allocation_s": 1e-3,
                    "repeated_s": [9e-8],
                    "throttled": 1,
                    "pages_on": {"0": 3, "1": 61},
                    "thread_node": 1,
                }
            ],
            "numa_node": 1,
        },
        {
            "id": "i",
            "benchmark": "bandwidth",
            "kind": "mapped",
            "engine": "driver",
            "direction": "d2h",
            "size_bytes": 1,
            "state": "refused",
            "reason": "no room",
            "named": False,
            "clock": None,
            "gated": None,
            "host_held": None,
            "verified": None,
            "rate_bytes_per_s": None,
            "link_fraction": None,
            "tick_s": None,
            "driver_says": None,
            "pages": "warm",
            "threads": None,
            "notes": [],
            "trials": [],
            "numa_node": None,
        },
    ],
}


def test_the_whole_document_in_the_order_a_reader_wants():
    text = to_json(RESULT)
    document = json.loads(text)
    assert document == DOCUMENT
    assert list(document) == list(DOCUMENT)
    assert text.isascii()


def test_a_run_that_never_began_is_a_document_with_its_error():
    error = RunError("NoDriverError", "no driver", "install it", 5)
    document = json.loads(to_json(RunResult((), "", "1", interrupted=True, error=error)))
    assert document["error"] == {"type": "NoDriverError", "message": "no driver", "hint": "install it", "exit_code": 5}
    assert (document["device"], document["cases"], document["interrupted"]) == (None, [], True)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1))
def test_every_sample_comes_back_exactly(samples):
    trial = Trial(1, tuple(samples))
    result = replace(RESULT, cases=(replace(RESULT.cases[0], trials=(trial,)),))
    assert json.loads(to_json(result))["cases"][0]["trials"][0]["samples_s"] == samples


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_refused_rather_than_written(number):
    result = replace(RESULT, cases=(replace(RESULT.cases[0], link_fraction=number),))
    with pytest.raises(ValueError, match="not JSON compliant"):
        to_json(result)
