import pytest

from cudabw.driver.emulated.ptx import Entry, Parameter, parse
from cudabw.driver.emulated.refusals import Refusal

HEADER = ".version 6.4\n.target sm_50\n.address_size 64\n"


def test_entries_are_read_with_their_parameters_and_limits():
    text = (
        "// a module\n"
        + HEADER
        + """
        /* .entry commented(.param .u64 x) { */
        .visible .entry first(
            .param .u64 .ptr .global .align 16 pointer, // a pointer
            .param .u32 count
        )
        .maxntid 32, 4, 1
        { .reg .b32 %r<3>; { ret; } }
        .entry second
        { ret; }
        .visible .entry third(.param .align 8 .b8 block[24], .param .f64 x, .param .s16 y[3]) .reqntid 64 { ret; }
        """
    )
    assert parse(text) == {
        "first": Entry("first", (Parameter(0, 8), Parameter(8, 4)), 128),
        "second": Entry("second", (), None),
        "third": Entry("third", (Parameter(0, 24), Parameter(24, 8), Parameter(32, 6)), 64),
    }


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello",
        ".target sm_50 .entry k() { ret; }",
        ".version 6.4\n.entry k() { ret; }",
        HEADER + ".entry k() { ret;",
        HEADER + ".entry k(.param .u64) { ret; }",
        HEADER + ".entry k(.param .u63 x) { ret; }",
        HEADER + ".entry k(.param .u64 x { ret; }",
        HEADER + ".entry k();",
    ],
)
def test_anything_else_is_refused_as_invalid_ptx(text):
    with pytest.raises(Refusal) as refused:
        parse(text)
    assert refused.value.status == 218


def test_a_module_without_entries_is_one():
    assert parse(HEADER) == {}
