"""What is well and what is not with a machine: the data of ``cudabw doctor``."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from cudabw.results.model import SCHEMA_VERSION

if TYPE_CHECKING:
    from cudabw.results.model import RunError

HEALTHY = 0
SOMETHING_WRONG = 1


class Verdict(StrEnum):
    """What a check comes to: nothing to do; worth knowing; to be mended; or it could not be found out."""

    OK = "ok"
    ATTENTION = "attention"
    WRONG = "wrong"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found on the machine, or on one GPU of it.

    Attributes:
        check: The check's name, as ``docs/doctor.md`` lists it.
        device: The GPU's number; null for the machine, and for a GPU that CUDA does not show.
        verdict: What it comes to.
        seen: What was seen.
        why: Why it matters.
        fix: The command that would mend it, or show more; advice, which ends with a full stop, where no command can;
            empty where there is nothing to do.
    """

    check: str
    device: int | None
    verdict: Verdict
    seen: str
    why: str
    fix: str = ""

    @property
    def is_advice(self) -> bool:
        """Whether the fix is a sentence and not a command."""
        return self.fix.endswith(".")


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """All that was looked at; nothing was changed.

    Attributes:
        emulated: Whether host memory played the device, so that nothing is said of a GPU.
        interrupted: Whether a signal ended the look early.
        error: Why there is no driver or GPU to look at, or what ended the look.
    """

    tool_version: str
    emulated: bool
    findings: tuple[Finding, ...] = ()
    interrupted: bool = False
    error: RunError | None = None

    def count(self, verdict: Verdict) -> int:
        """How many findings come to a verdict."""
        return sum(finding.verdict is verdict for finding in self.findings)

    @property
    def exit_code(self) -> int:
        """The error's own; else 1 if anything is wrong; else 0."""
        if self.error is not None:
            return self.error.exit_code
        return SOMETHING_WRONG if self.count(Verdict.WRONG) else HEALTHY


def diagnosis_to_json(diagnosis: Diagnosis) -> str:
    """The diagnosis as one JSON document."""
    document = {
        "schema": SCHEMA_VERSION,
        "tool": {"name": "cudabw", "version": diagnosis.tool_version},
        "interrupted": diagnosis.interrupted,
        "error": None if diagnosis.error is None else asdict(diagnosis.error),
        "emulated": diagnosis.emulated,
        "summary": {str(verdict): diagnosis.count(verdict) for verdict in Verdict},
        "findings": [asdict(finding) for finding in diagnosis.findings],
    }
    return json.dumps(document, indent=2, allow_nan=False)
