"""Whole measurements on an emulated device that misbehaves while it is measured."""

import json
import os
from types import SimpleNamespace

import pytest

from cudabw.cli.main import run

MIB = 1 << 20
# So slow that a batch is one copy; each comes with one before it that wakes the engine.
SLOW = {"h2d": 1e9, "d2h": 1e9}
# Copies of a case's first trial, which are those of 2 + 5 batches, and of each further trial.
FIRST, TRIAL = 14, 10
FAST = {"h2d": 50e9, "d2h": 25e9}
TITLE = "Host ↔ device bandwidth · device 0: EMULATED, not a GPU (host memory)\n\n"


@pytest.fixture
def measure(monkeypatch, capsys):
    """Runs ``cudabw bandwidth`` on a device with a fault, as a table or with its document."""
    for name in list(os.environ):
        if name.startswith("CUDA") or name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LD_PRELOAD"):
            monkeypatch.delenv(name)

    def run_command(*arguments, fault, clock=FAST, json_too=False):
        monkeypatch.setenv("CUDABW_EMULATED", json.dumps({"clock": clock, "faults": [fault]}))
        code = run(["bandwidth", "--backend", "emulated", *arguments, *(["--json"] if json_too else [])])
        out, err = capsys.readouterr()
        done = SimpleNamespace(code=code, out=out, err=err)
        if json_too:
            done.json = json.loads(out, parse_constant=pytest.fail)
            done.cases = {(case["kind"], case["direction"]): case for case in done.json["cases"]}
        return done

    return run_command


def states(done):
    return {key: case["state"] for key, case in done.cases.items()}


# Wrong data


# Only the measured copies are of this size; what fills and checks device memory passes in pieces of 16 MiB.
ONLY_MEASURED = {"at_least_bytes": 32 * MIB}
NOTHING_MOVED = "byte 0 of the destination holds 0x00 where the source holds 0x01"
ONE_BYTE_WRONG = "byte 16777216 of the destination holds 0x02 where the source holds 0x01"


def test_the_row_of_a_copy_that_moves_nothing_has_no_number(measure):
    arguments = ("--size", "32MiB", "--trials", "1", "--pageable", "--pinned", "--mapped", "--engine", "driver")
    done = measure(*arguments, fault={"copy": "drop", "direction": "h2d"} | ONLY_MEASURED, clock=SLOW)
    assert done.code == 1
    assert done.out == TITLE + (
        "Memory      Size    h2d GB/s  ±  d2h GB/s  ±  Clock  Note\n"
        "──────────────────────────────────────────────────────────\n"
        "pageable  32 MiB  wrong data  \u2013      1.00  \u2013  host   1\n"
        "pinned    32 MiB  wrong data  \u2013      1.00  \u2013  event  1\n"
        "mapped    32 MiB  wrong data  \u2013      1.00  \u2013  event  1\n"
        "\n"
        "One trial.\n"
        f"[1] wrong data: the copy succeeded, but {NOTHING_MOVED}\n"
    )


@pytest.mark.parametrize("direction", ["h2d", "d2h"])
@pytest.mark.parametrize(("copy", "what"), [("drop", NOTHING_MOVED), ("corrupt", ONE_BYTE_WRONG)])
def test_a_direction_that_carries_wrong_data_has_no_rate_and_the_other_keeps_its_own(measure, copy, what, direction):
    fault = {"copy": copy, "direction": direction} | ONLY_MEASURED
    done = measure("--size", "32MiB", "--trials", "1", fault=fault, clock=SLOW, json_too=True)
    assert done.code == 1
    assert len(done.cases) == 6
    for (_, way), case in done.cases.items():
        if way == direction:
            assert (case["state"], case["reason"]) == ("wrong_data", f"the copy succeeded, but {what}")
            assert (case["rate_bytes_per_s"], case["link_fraction"], case["verified"]) == (None, None, False)
        else:
            assert (case["state"], case["verified"]) == ("ok", True)
            assert case["rate_bytes_per_s"]["median"] == pytest.approx(1e9, rel=1e-6)


def test_wrong_data_in_a_later_trial_takes_the_earlier_figures_back(measure):
    fault = {"copy": "corrupt", "direction": "h2d", "nth": FIRST + TRIAL} | ONLY_MEASURED
    arguments = ("--pageable", "--direction", "h2d", "--size", "32MiB", "--trials", "3")
    (case,) = measure(*arguments, fault=fault, clock=SLOW, json_too=True).cases.values()
    assert (case["state"], case["verified"], case["rate_bytes_per_s"]) == ("wrong_data", False, None)
    assert len(case["trials"]) == 1


def test_a_single_wrong_byte_in_any_batch_is_found(measure):
    for nth in range(6, FIRST + 1, 2):
        fault = {"copy": "corrupt", "direction": "h2d", "nth": nth} | ONLY_MEASURED
        arguments = ("--pageable", "--direction", "h2d", "--size", "32MiB", "--trials", "1")
        assert measure(*arguments, fault=fault, clock=SLOW).code == 1, f"copy {nth}"


# Memory that is refused


def refused(kind, held=0):
    return (
        f"65536 bytes of host {kind} memory were refused (cuMemHostAlloc: CUDA_ERROR_OUT_OF_MEMORY, 2); this process "
        f"holds {held} bytes of page-locked host memory. Host pinned memory was refused, not device memory: "
    )


NO_PINNING = {"function": "cuMemHostAlloc", "status": 2, "at_least_bytes": 65536}


def test_memory_that_cannot_be_pinned_is_said_in_its_rows_and_the_others_are_measured(measure):
    done = measure("--engine", "driver", "--size", "32KiB,64KiB", "--trials", "1", fault=NO_PINNING)
    assert (done.code, done.err) == (0, "")
    head, _, notes = done.out.removeprefix(TITLE).partition("[1] ")
    assert head == (
        "Memory      Size  h2d GB/s  ±  d2h GB/s  ±  Clock  Note\n"
        "────────────────────────────────────────────────────────\n"
        "pageable  32 KiB      50.0  \u2013      25.0  \u2013  host\n"
        "pageable  64 KiB      50.0  \u2013      25.0  \u2013  host\n"
        "pinned    32 KiB      50.0  \u2013      25.0  \u2013  event\n"
        "pinned    64 KiB   refused  \u2013   refused  \u2013  \u2013      1\n"
        "mapped    32 KiB      50.0  \u2013      25.0  \u2013  event\n"
        "mapped    64 KiB   refused  \u2013   refused  \u2013  \u2013      2\n"
        "\n"
        "One trial.\n"
    )
    first, second = notes.splitlines()
    assert first.startswith("refused: " + refused("pinned"))
    assert second.startswith("[2] refused: " + refused("mapped"))
    assert "GPU out of memory" not in notes


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ([], 0),
        (["--all"], 0),
        (["--all", "--pageable"], 0),
        (["--pageable", "--pinned"], 4),
        (["--all", "--pinned"], 4),
        (["--pinned"], 4),
    ],
)
def test_what_is_refused_fails_the_run_only_where_it_was_asked_for_by_name(measure, arguments, code):
    done = measure("--size", "64KiB", "--trials", "1", *arguments, fault=NO_PINNING, json_too=True)
    assert done.code == code
    assert done.cases["pinned", "h2d"]["state"] == "refused"
    assert done.json["error"] is None


def test_if_everything_is_refused_nothing_was_measured(measure):
    fault = {"function": "cuMemAlloc", "status": 2, "at_least_bytes": 65536}
    done = measure("--size", "64KiB", "--trials", "1", fault=fault, json_too=True)
    assert done.code == 4
    assert set(states(done).values()) == {"refused"}
    (reason,) = {case["reason"] for case in done.cases.values()}
    assert reason.startswith("65536 bytes of device memory were refused (cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY, 2); ")


def test_memory_that_is_refused_later_keeps_what_was_measured_and_says_so(measure):
    fault = {"function": "cuMemHostAlloc", "status": 2, "at_least_bytes": 65536, "nth": 2}
    arguments = ("--pinned", "--direction", "h2d", "--size", "64KiB", "--trials", "3")
    (case,) = measure(*arguments, fault=fault, json_too=True).cases.values()
    assert (case["state"], len(case["trials"])) == ("ok", 1)
    assert case["notes"][0].startswith("1 of 3 trials: " + refused("pinned"))


# What a device cannot do


@pytest.mark.parametrize("status", [801, 1])
def test_a_device_that_cannot_wait_for_a_value_measures_without_a_gate_and_says_so(measure, status):
    fault = {"function": "cuStreamWaitValue32", "status": status}
    done = measure("--size", "64KiB", "--trials", "1", "--pageable", "--pinned", fault=fault)
    assert (done.code, done.err) == (0, "")
    assert done.out == TITLE + (
        "Memory      Size  h2d GB/s  ±  d2h GB/s  ±  Clock  Note\n"
        "────────────────────────────────────────────────────────\n"
        "pageable  64 KiB      50.0  \u2013      25.0  \u2013  host\n"
        "pinned    64 KiB      50.0  \u2013      25.0  \u2013  event  1\n"
        "\n"
        "One trial.\n"
        "[1] no gate on this device: the time to queue may be in the figure\n"
    )


def test_without_a_gate_batches_are_longer(measure):
    arguments = ("--size", "1MiB", "--trials", "1", "--pinned", "--direction", "h2d")
    counts = []
    for fault in ({"function": "cuInit", "delay_s": 0}, {"function": "cuStreamWaitValue32", "status": 801}):
        (case,) = measure(*arguments, fault=fault, json_too=True).cases.values()
        counts.append((case["gated"], case["trials"][0]["copies_per_batch"]))
    assert counts == [(True, 191), (False, 256)]  # 4 ms of 50 GB/s; the most that a queue surely holds


def test_a_function_that_is_not_supported_leaves_the_other_kinds(measure):
    fault = {"function": "cuMemHostRegister", "status": 801}
    done = measure("--all", "--size", "4KiB", "--trials", "1", fault=fault, json_too=True)
    assert done.code == 0
    expected = {key: "unsupported" if key[0] == "registered" else "ok" for key in done.cases}
    assert states(done) == expected
    assert done.cases["registered", "h2d"]["reason"].startswith("cuMemHostRegister is not supported here ")


def test_a_kind_that_fails_leaves_the_others_and_the_run_fails(measure):
    done = measure("--size", "4KiB", "--trials", "1", fault={"function": "cuMemcpyDtoHAsync", "status": 700, "nth": 1})
    assert done.code == 1
    assert "CUDA_ERROR_ILLEGAL_ADDRESS (700)" in done.out


# A device that is lost

LOST = "device 0 was lost: cuMemcpyHtoDAsync failed with CUDA_ERROR_LAUNCH_FAILED (719)"
THREE_KINDS = ("--pinned", "--registered", "--write-combined", "--direction", "h2d", "--size", "4KiB")


def lost_at(nth):
    return {"function": "cuMemcpyHtoDAsync", "lose_device": True, "nth": nth}


def test_when_the_device_is_lost_finished_rows_stay_and_the_rest_failed(measure):
    done = measure(*THREE_KINDS, "--trials", "1", fault=lost_at(FIRST + 5), clock={"h2d": 1e6}, json_too=True)
    assert done.code == 1
    assert sorted(states(done).values()) == ["failed", "failed", "ok"]
    (finished,) = (case for case in done.cases.values() if case["state"] == "ok")
    assert finished["rate_bytes_per_s"]["median"] == pytest.approx(1e6, rel=1e-6)
    reasons = sorted(case["reason"] for case in done.cases.values() if case["state"] == "failed")
    assert reasons[0].startswith("cuMemcpyHtoDAsync failed with CUDA_ERROR_LAUNCH_FAILED (719). ")
    assert reasons[1] == LOST
    error = done.json["error"]
    assert (error["message"], error["exit_code"], done.json["interrupted"]) == (LOST, 1, False)
    assert done.err == f"cudabw: error: {LOST}\ncudabw: hint: {error['hint']}\n"


def test_when_the_device_is_lost_later_every_row_keeps_its_finished_trials(measure):
    fault = lost_at(3 * FIRST + TRIAL + 5)
    done = measure(*THREE_KINDS, "--trials", "3", fault=fault, clock={"h2d": 1e6}, json_too=True)
    assert done.code == 1
    assert set(states(done).values()) == {"ok"}
    assert sorted(len(case["trials"]) for case in done.cases.values()) == [1, 1, 2]
    assert all(case["notes"][0].startswith(f"{len(case['trials'])} of 3 trials: ") for case in done.cases.values())
    assert done.json["error"]["message"] == LOST


def test_a_device_that_is_lost_before_the_first_copy_is_one_document(measure):
    fault = {"function": "cuStreamCreate", "lose_device": True}
    done = measure("--size", "4KiB", "--trials", "1", fault=fault, json_too=True)
    assert done.code == 1
    assert set(states(done).values()) == {"failed"}
    assert done.json["error"]["message"] == "cuStreamCreate failed with CUDA_ERROR_LAUNCH_FAILED (719)"
    assert done.json["device"]["emulated"] is True


def test_the_table_of_a_lost_device_shows_what_was_finished_and_why_it_ended(measure):
    done = measure(*THREE_KINDS, "--trials", "1", fault=lost_at(FIRST + 5), clock={"h2d": 1e6})
    assert done.out.count("failed  ") == 2
    assert f"] failed: {LOST}\n" in done.out
    assert "One trial.\n" in done.out
