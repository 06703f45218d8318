"""The data of the doctor: what it comes to, and its document."""

import json

import pytest

from cudabw.results.diagnosis import Diagnosis, Finding, Verdict, diagnosis_to_json
from cudabw.results.model import RunError


def finding(verdict, fix=""):
    return Finding("link", 0, verdict, "seen", "why", fix)


@pytest.mark.parametrize(
    ("verdicts", "error", "code"),
    [
        ([], None, 0),
        (["ok", "attention", "unknown"], None, 0),
        (["ok", "wrong", "ok"], None, 1),
        (["wrong"], RunError("NoDriverError", "m", "h", 5), 5),
        ([], RunError("Interrupted", "m", "h", 130), 130),
    ],
)
def test_the_exit_code_is_the_errors_else_whether_anything_is_wrong(verdicts, error, code):
    findings = tuple(finding(Verdict(verdict)) for verdict in verdicts)
    assert Diagnosis("0", False, findings, error=error).exit_code == code


@pytest.mark.parametrize(("fix", "advice"), [("sudo reboot", False), ("Replace the card.", True), ("", False)])
def test_advice_is_told_from_a_command(fix, advice):
    assert finding(Verdict.WRONG, fix).is_advice is advice


def test_the_document_has_every_finding_and_how_many_there_are_of_each_verdict():
    findings = (finding(Verdict.OK), finding(Verdict.WRONG, "sudo reboot"))
    document = json.loads(diagnosis_to_json(Diagnosis("1.2", False, findings)))
    assert document == {
        "schema": 1,
        "tool": {"name": "cudabw", "version": "1.2"},
        "interrupted": False,
        "error": None,
        "emulated": False,
        "summary": {"ok": 1, "attention": 0, "wrong": 1, "unknown": 0},
        "findings": [
            {"check": "link", "device": 0, "verdict": "ok", "seen": "seen", "why": "why", "fix": ""},
            {"check": "link", "device": 0, "verdict": "wrong", "seen": "seen", "why": "why", "fix": "sudo reboot"},
        ],
    }
