"""``cudabw doctor``."""

from __future__ import annotations

from functools import partial

import click


@click.command(short_help="What is well with this machine and its GPUs, what is not, and what mends it.")
@click.option(
    "--backend",
    type=click.Choice(["auto", "cuda", "emulated"]),
    default="auto",
    help="auto and cuda look at the GPU; emulated says nothing of one.  [default: auto]",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(*, backend: str, as_json: bool) -> int:
    """Look at everything that a measurement depends on.

    Driver and libraries, device nodes, GPUs, links, NUMA, limits, modes, throttling, the environment: each check says
    what was seen and, where something is not well, why that matters and the command that would mend it. Nothing is
    changed; a short copy wakes each link, because an idle one runs slower.

    Exits with 0 if nothing is wrong, 1 if something is, and 5 without a usable driver or GPU.
    """
    from cudabw.benchmarks.link_under_load import link_under_load
    from cudabw.cli.main import notify, show_error
    from cudabw.cli.printing import rendered, write_result
    from cudabw.cli.signals import StopSignals
    from cudabw.report.doctor_table import print_diagnosis
    from cudabw.results.diagnosis import diagnosis_to_json
    from cudabw.system.doctor import examine

    with StopSignals(notify) as signals:
        diagnosis = examine(backend, notify=notify, check_interrupt=signals.check, link_under_load=link_under_load)
    if diagnosis.error is not None and as_json:  # the report says it itself
        show_error(diagnosis.error.message, diagnosis.error.hint)
    write_result(diagnosis_to_json(diagnosis) + "\n" if as_json else rendered(partial(print_diagnosis, diagnosis)))
    return diagnosis.exit_code
