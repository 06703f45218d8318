"""Reports as Markdown."""
# ruff: noqa: RUF001 - tables use the typographic dash

from dataclasses import replace

from rich.text import Text

from cudabw.report.console import new_table, print_whole, symbols_for
from cudabw.report.markdown import markdown_of, run_to_markdown
from cudabw.results.model import CaseResult, DeviceInfo, RunError, RunResult, State

RUN = RunResult(
    ("bandwidth",),
    "2026-01-02T03:04:05Z",
    "1.2",
    device=DeviceInfo(0, "GPU <1>", None, None, emulated=False),
    environment={
        "cpu": {"model": "CPU *9*"},
        "software": {"nvidia_driver": "580.1", "cuda_bindings": "13.0"},
    },
    cases=(CaseResult("i", "bandwidth", "mapped", "driver", "d2h", 4096, State.REFUSED, "no `room` | none"),),
    finished="2026-01-02T03:04:06Z",
)


def report(console):
    table = new_table(symbols_for(console))
    table.add_column("Name")
    table.add_column("Figure\nGB/s", justify="right")
    table.add_row("a|b", Text("1"))
    table.add_section()
    table.add_row("", "<2>")
    console.print(Text("Title", style="bold"))
    console.print(Text("said first", style="bold"))
    console.print()
    print_whole(table, console)
    console.print(Text("± 1 *", style="dim"))
    console.print(Text("Next title", style="bold"), soft_wrap=True)


def test_tables_headings_and_paragraphs_are_those_of_the_report():
    assert (
        markdown_of(report)
        == """\
### Title

**said first**

| Name | Figure GB/s |
| --- | ---: |
| a\\|b | 1 |
|  | \\<2> |

± 1 \\*

### Next title
"""
    )


def test_a_run_is_its_tables_and_where_they_come_from():
    assert (
        run_to_markdown(RUN)
        == """\
### Host ↔ device bandwidth · device 0: GPU \\<1>

| Memory | Size | d2h GB/s | ± | Clock | Note |
| --- | ---: | ---: | ---: | --- | --- |
| mapped | 4 KiB | refused | – | – | 1 |

[1] refused: no \\`room\\` \\| none

GPU \\<1>; CPU CPU \\*9\\*; NVIDIA driver 580.1; cuda-bindings 13.0; cudabw 1.2, 2026-01-02T03:04:05Z.
"""
    )


def test_where_there_is_nothing_but_ascii_symbols_are_folded():
    assert run_to_markdown(RUN, "ascii").startswith("### Host \\<-> device bandwidth \\| device 0: GPU \\<1>\n")
    assert run_to_markdown(RUN, "ascii").isascii()


def test_a_run_that_did_not_end_as_it_should_says_so_first():
    assert run_to_markdown(replace(RUN, finished=None)).startswith("The run had not finished when this was written.\n")
    failed = replace(RUN, error=RunError("NoDriverError", "no driver", "install it", 5))
    assert run_to_markdown(failed).startswith("The run ended early: no driver\n")
