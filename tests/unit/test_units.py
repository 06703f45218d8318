"""Sizes, counts, times and rates: what is read, what is refused, and the exact text shown."""

from __future__ import annotations

import re
import string

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cudabw import units

MAX = 2**48
SUFFIXES = {
    "": 1,
    "B": 1,
    "K": 1024,
    "M": 1024**2,
    "G": 1024**3,
    "T": 1024**4,
    "KiB": 1024,
    "MiB": 1024**2,
    "GiB": 1024**3,
    "TiB": 1024**4,
    "KB": 1000,
    "MB": 1000**2,
    "GB": 1000**3,
    "TB": 1000**4,
}


@pytest.mark.parametrize(("suffix", "factor"), SUFFIXES.items())
def test_each_unit_is_read_in_any_case(suffix, factor):
    for written in (suffix, suffix.lower(), suffix.upper(), suffix.swapcase()):
        assert units.parse_size("3" + written) == 3 * factor


@pytest.mark.parametrize(
    ("text", "nbytes"), [("1", 1), ("007KiB", 7168), ("256TiB", MAX), (str(MAX), MAX), ("0" * 5000 + "1", 1)]
)
def test_sizes_are_read_up_to_their_bounds(text, nbytes):
    assert units.parse_size(text) == nbytes


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "KiB",
        "-1",
        "+1",
        "1.5GiB",
        "1,5",
        "1_000",
        "1 KiB",
        " 1",
        "1 ",
        "1\n",
        "1KiB\n",
        "1e3",
        "0x10",
        "1P",
        "1Ki",
        "1iB",
        "1BB",
        "1KKiB",
        "1bit",
        "1\u212a",  # Kelvin sign, which lowers to k
        "1\u212aiB",
        "1K\u0130B",  # capital I with dot
        "1k\u0131b",  # dotless i
        "\u0663",  # Arabic-Indic three
        "\uff11",  # full-width one
        "1\u00b2",
        "1\u00a0K",
    ],
)
def test_what_is_no_size_is_refused_with_the_text_and_an_example(text):
    with pytest.raises(ValueError, match="is not a size") as caught:
        units.parse_size(text)
    assert repr(text) in str(caught.value)
    assert "64KiB" in str(caught.value)


@pytest.mark.parametrize("text", ["0", "0KiB", "000"])
def test_nothing_is_below_the_smallest_size(text):
    with pytest.raises(ValueError, match="smallest is 1 byte") as caught:
        units.parse_size(text)
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize("text", [str(MAX + 1), "257TiB", "1000TB", "9" * 5000 + "T"])
def test_a_size_above_the_bound_is_refused_in_a_short_message(text):
    with pytest.raises(ValueError, match="largest is 256 TiB") as caught:
        units.parse_size(text)
    assert text[:15] in str(caught.value)
    assert len(str(caught.value)) < 200


@given(st.text(alphabet=string.printable + "\u212a\u0130\u0131\u0663", max_size=8))
def test_any_text_is_a_size_within_bounds_or_a_value_error(text):
    reason = ""
    try:
        size = units.parse_size(text)
    except ValueError as error:
        size, reason = 1, str(error)
    assert 1 <= size <= MAX
    assert repr(text) in reason or (text.isascii() and text[0] in string.digits)


@given(st.integers(1, MAX), st.sampled_from(sorted(SUFFIXES)))
def test_digits_and_unit_multiply_or_are_out_of_bounds(count, suffix):
    if count * SUFFIXES[suffix] <= MAX:
        assert units.parse_size(f"{count}{suffix}") == count * SUFFIXES[suffix]
    else:
        with pytest.raises(ValueError, match="too large"):
            units.parse_size(f"{count}{suffix}")


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("1MiB", (2**20,)),
        ("16MiB,1MiB,64K", (2**24, 2**20, 2**16)),
        ("1KiB,1024,1K,2K", (1024, 2048)),
        ("4KiB:64KiB:x4", (4096, 16384, 65536)),
        ("4KiB:65535:x4", (4096, 16384)),
        ("1:10:x3", (1, 3, 9)),
        ("5:5:x2", (5,)),
        ("1:2:x99999999999999999999", (1,)),
        ("1MiB:4MiB:+1MiB", (2**20, 2 * 2**20, 3 * 2**20, 4 * 2**20)),
        ("1:6:+2", (1, 3, 5)),
        ("5:5:+1", (5,)),
        ("8,1:8:x2,3", (8, 1, 2, 4, 3)),
        ("1B:256TiB:x2", tuple(2**power for power in range(49))),
        ("1:1000:+1", tuple(range(1, 1001))),
    ],
)
def test_lists_and_ranges_give_their_sizes_in_order_without_duplicates(text, sizes):
    assert units.parse_sizes(text) == sizes


@pytest.mark.parametrize("text", ["", ",", "1,", ",1", "1,,2"])
def test_an_empty_member_is_refused(text):
    with pytest.raises(ValueError, match="empty member") as caught:
        units.parse_sizes(text)
    assert repr(text) in str(caught.value)
    assert "1MiB,16MiB" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("1:2", "is not a range"),
        ("1:2:", "is not a range"),
        ("1:2:3", "is not a range"),
        ("1:2:X2", "is not a range"),
        ("1:2:x2:x2", "is not a range"),
        (":", "is not a range"),
        ("2:1:x2", "starts above its end"),
        ("2:1:+1", "starts above its end"),
        ("1:2:x1", "factor of at least 2"),
        ("1:2:x0", "factor of at least 2"),
        ("1:2:x", "factor of at least 2"),
        ("1:2:x2.5", "factor of at least 2"),
        ("1:2:x2K", "factor of at least 2"),
        ("1:2:x-2", "factor of at least 2"),
        ("1:2:x\u0663", "factor of at least 2"),
        ("1:2:+", "is not a size"),
        ("1:2:+0", "too small"),
        ("1:2:++1", "is not a size"),
        ("0:2:x2", "too small"),
        ("1:257TiB:x2", "too large"),
        (":2:x2", "is not a size"),
        ("1: 2:x2", "is not a size"),
    ],
)
def test_a_range_that_cannot_be_meant_is_refused_with_its_text_and_an_example(text, reason):
    with pytest.raises(ValueError, match=reason) as caught:
        units.parse_sizes("1MiB," + text)
    assert repr(text) in str(caught.value)
    assert "for example" in str(caught.value)


@pytest.mark.parametrize("text", ["1:1001:+1", "1:256TiB:+1", "1:600:+1,601:1200:+1", ",".join(["1"] * 1001)])
def test_too_many_sizes_are_refused_before_they_are_made(text):
    with pytest.raises(ValueError, match="more than 1000 sizes"):
        units.parse_sizes(text)


@given(st.integers(1, MAX), st.integers(1, MAX), st.integers(2, 50))
def test_a_multiplied_range_ends_at_the_last_size_that_fits(one, other, factor):
    start, end = sorted((one, other))
    sizes = units.parse_sizes(f"{start}:{end}:x{factor}")
    assert sizes == tuple(start * factor**power for power in range(len(sizes)))
    assert sizes[-1] <= end < sizes[-1] * factor


@given(st.integers(1, MAX // 2), st.integers(1, MAX // 2000), st.integers(0, 999), st.data())
def test_an_added_range_ends_at_the_last_size_that_fits(start, step, steps, data):
    end = start + steps * step + data.draw(st.integers(0, step - 1))
    sizes = units.parse_sizes(f"{start}:{end}:+{step}")
    assert sizes == tuple(start + index * step for index in range(steps + 1))


@pytest.mark.parametrize(
    ("nbytes", "shown"),
    [
        (0, "0 B"),
        (0.26, "0.26 B"),
        (999.4, "1000 B"),
        (1024, "1 KiB"),
        (87014.7, "85 KiB"),
        (5.23e6, "5 MiB"),
        (2**20 * 1.25, "1.2 MiB"),
        (2**50, "1000 TiB"),
    ],
)
def test_an_estimated_size_has_two_figures(nbytes, shown):
    assert units.format_about_size(nbytes) == shown


@pytest.mark.parametrize("nbytes", [-1, float("inf"), float("nan")])
def test_an_estimated_size_that_is_none_is_refused(nbytes):
    with pytest.raises(ValueError, match="finite and not negative"):
        units.format_about_size(nbytes)


@given(st.lists(st.integers(1, 20), min_size=1, max_size=30))
def test_a_list_keeps_first_mentions_in_order(numbers):
    assert units.parse_sizes(",".join(map(str, numbers))) == tuple(dict.fromkeys(numbers))


@pytest.mark.parametrize(("text", "count"), [("1", 1), ("010", 10), ("1000000000", 10**9)])
def test_counts_are_read_up_to_their_bounds(text, count):
    assert units.parse_count(text) == count


@pytest.mark.parametrize("text", ["", "-1", "+1", "1.0", "1e3", "1_0", " 1", "1\n", "1K", "\u0663"])
def test_what_is_no_count_is_refused(text):
    with pytest.raises(ValueError, match=r"is not a count.*for example 10") as caught:
        units.parse_count(text)
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize("text", ["0", "00", "1000000001", "9" * 5000])
def test_a_count_out_of_bounds_is_refused(text):
    with pytest.raises(ValueError, match=r"out of range: write 1 to 1000000000, for example 10"):
        units.parse_count(text)


def test_ordinals_are_counts_from_zero():
    assert [units.parse_ordinal(text) for text in ("0", "007", "1000000000")] == [0, 7, 10**9]
    for text in ("", "-1", "+0", "0.0", "\u0660"):
        with pytest.raises(ValueError, match=r"is not a number.*for example 0") as caught:
            units.parse_ordinal(text)
        assert repr(text) in str(caught.value)
    with pytest.raises(ValueError, match="out of range: write 0 to 1000000000, for example 0"):
        units.parse_ordinal("1000000001")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1", 1.0),
        ("2.5s", 2.5),
        ("0.25", 0.25),
        ("500ms", 0.5),
        ("9ms", 0.009),
        ("2m", 120.0),
        ("1.5min", 90.0),
        ("1000000000", 1e9),
    ],
)
def test_times_are_read_exactly(text, seconds):
    assert units.parse_seconds(text) == seconds


@pytest.mark.parametrize(
    "text",
    ["", "s", ".5", "5.", "-1", "+1", "1e3", "inf", "nan", "1 s", "1\n", "1S", "1h", "1us", "1_0", "1,5", "\u0663"],
)
def test_what_is_no_time_is_refused(text):
    with pytest.raises(ValueError, match=r"is not a time.*500ms") as caught:
        units.parse_seconds(text)
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize("text", ["0", "0.0ms", "0." + "0" * 400 + "1"])
def test_no_time_at_all_is_refused(text):
    with pytest.raises(ValueError, match=r"too short.*for example"):
        units.parse_seconds(text)


@pytest.mark.parametrize("text", ["1000000001", "9" * 400, "9" * 308 + "m"])
def test_a_time_no_wait_can_take_is_refused(text):
    with pytest.raises(ValueError, match=r"too long: write at most 1000000000 seconds, for example"):
        units.parse_seconds(text)


@pytest.mark.parametrize(
    ("nbytes", "shown"),
    [
        (0, "0 B"),
        (1, "1 B"),
        (1000, "1000 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (4095, "4095 B"),
        (99_999, "99999 B"),
        (100_001, "97.66 KiB"),
        (1537 * 1024, "1537 KiB"),
        (64 * 2**20, "64 MiB"),
        (2**30, "1 GiB"),
        (3 * 2**29, "1536 MiB"),
        (3 * 2**29 + 1, "1.50 GiB"),
        (2**20 - 1, "1.00 MiB"),
        (2**30 + 1, "1.00 GiB"),
        (2**48, "256 TiB"),
        (2**48 - 1, "256.00 TiB"),
        (2**60, "1048576.00 TiB"),
    ],
)
def test_sizes_are_shown_whole_where_five_digits_do(nbytes, shown):
    assert units.format_size(nbytes) == shown


def test_a_negative_size_is_not_shown():
    with pytest.raises(ValueError, match="cannot be negative: -1 bytes"):
        units.format_size(-1)


SIZES = st.one_of(
    st.integers(1, MAX),
    st.builds(lambda count, power: count * 1024**power, st.integers(1, 2**18), st.integers(0, 3)),
)


@given(SIZES)
@example(100_000)
def test_a_shown_size_reads_back_exactly_or_has_decimals_and_is_near(nbytes):
    number, _, unit = units.format_size(nbytes).partition(" ")
    if "." in number:
        assert len(number.partition(".")[2]) == 2
        assert 1 <= float(number) < 1024
        assert abs(float(number) * SUFFIXES[unit] - nbytes) <= 0.005001 * SUFFIXES[unit]
    else:
        assert len(number) <= 5
        assert units.parse_size(number + unit) == nbytes


@given(SIZES)
def test_decimals_and_small_units_are_shown_only_where_nothing_better_is_exact(nbytes):
    number, _, unit = units.format_size(nbytes).partition(" ")
    exact = [name for name in ("TiB", "GiB", "MiB", "KiB", "B") if nbytes % SUFFIXES[name] == 0]
    readable = [name for name in exact if nbytes // SUFFIXES[name] <= 99_999]
    assert ("." in number) == (not readable)
    if readable:
        assert unit == readable[0]


@pytest.mark.parametrize(
    ("bytes_per_s", "shown"),
    [
        (55.4e9, "55.4"),
        (8.91e9, "8.91"),
        (0.123e9, "0.123"),
        (2092e9, "2092"),
        (390e9, "390"),
        (63e9, "63.0"),
        (9.996e9, "10.0"),
        (99.96e9, "100"),
        (999.6e9, "1000"),
        (12345.6e9, "12346"),
        (1e6, "0.00100"),
        (1234.0, "0.00000123"),
        (1.0, "1.00e-09"),
        (0.0, "0"),
        (-0.0, "0"),
        (-1.5e9, "-1.50"),
    ],
)
def test_rates_are_shown_with_three_figures(bytes_per_s, shown):
    assert units.format_rate(bytes_per_s) == shown


@given(st.floats(1e-3, 1e15))
def test_a_shown_rate_is_within_half_a_percent(bytes_per_s):
    shown = float(units.format_rate(bytes_per_s)) * 1e9
    assert shown == pytest.approx(bytes_per_s, rel=0.00501)


@given(st.floats(-1e15, 1e15), st.floats(-1e15, 1e15))
def test_shown_rates_keep_their_order(one, other):
    low, high = sorted((one, other))
    assert float(units.format_rate(low)) <= float(units.format_rate(high))


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.0, "0 s"),
        (5e-10, "0.500 ns"),
        (32e-9, "32.0 ns"),
        (999.4e-9, "999 ns"),
        (999.6e-9, "1.00 \u00b5s"),
        (1.23e-6, "1.23 \u00b5s"),
        (0.0456, "45.6 ms"),
        (0.9996, "1.00 s"),
        (2.1, "2.10 s"),
        (1234.5, "1234 s"),
        (-1.5e-6, "-1.50 \u00b5s"),
    ],
)
def test_times_are_shown_with_three_figures_in_the_unit_that_fits(seconds, shown):
    assert units.format_seconds(seconds) == shown
    assert units.format_seconds(seconds, ascii=True) == shown.replace("\u00b5", "u")


@given(st.floats(1e-12, 1e6), st.booleans())
def test_a_shown_time_is_within_half_a_percent_and_below_a_thousand(seconds, plain):
    number, _, unit = units.format_seconds(seconds, ascii=plain).partition(" ")
    factor = {"ns": 1e-9, "us": 1e-6, "\u00b5s": 1e-6, "ms": 1e-3, "s": 1.0}[unit]
    assert float(number) * factor == pytest.approx(seconds, rel=0.00501)
    assert unit == "s" or float(number) < 1000
    assert unit == "ns" or float(number) >= 1
    assert unit.isascii() or not plain


@pytest.mark.parametrize(
    ("fraction", "shown"),
    [
        (0.88, "88 %"),
        (1.0, "100 %"),
        (1.254, "125 %"),
        (0.001, "0.1 %"),
        (0.00095, "0.1 %"),
        (0.0009, "0.09 %"),
        (0.0003, "0.03 %"),
        (0.055, "5.5 %"),
        (0.0994, "9.9 %"),
        (0.0996, "10 %"),
        (1e-9, "<0.01 %"),
        (-1e-9, ">-0.01 %"),
        (-0.032, "-3.2 %"),
        (0.0, "0 %"),
    ],
)
def test_fractions_are_shown_in_percent(fraction, shown):
    assert units.format_percent(fraction) == shown


@given(st.floats(-2, 2), st.floats(-2, 2))
def test_shown_percents_keep_their_order(one, other):
    low, high = (float(units.format_percent(value).strip("<> %")) for value in sorted((one, other)))
    # "<0.01 %" stands for less than it says, so it may stand beside "0.01 %" and no higher.
    assert low <= high


@pytest.mark.parametrize(
    ("number", "words", "shown"),
    [
        (1, ("trial",), "1 trial"),
        (0, ("trial",), "0 trials"),
        (12, ("trial",), "12 trials"),
        (1, ("copy", "copies"), "1 copy"),
        (2, ("copy", "copies"), "2 copies"),
        (1, ("trial was", "trials were"), "1 trial was"),
    ],
)
def test_things_are_counted_in_singular_and_plural(number, words, shown):
    assert units.format_count(number, *words) == shown


@pytest.mark.parametrize("show", [units.format_rate, units.format_seconds, units.format_percent])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_what_is_not_finite_is_not_shown(show, value):
    with pytest.raises(ValueError, match=r"must be finite to be shown, not -?(nan|inf)"):
        show(value)


@pytest.mark.parametrize(
    ("text", "share"), [("0.5%", 0.005), ("0.5", 0.005), ("100", 1.0), ("12%", 0.12), ("0.001%", 1e-5)]
)
def test_percentages_are_shares(text, share):
    assert units.parse_percent(text) == pytest.approx(share, rel=1e-15)


@pytest.mark.parametrize("text", ["", "%", "-1", "+1", "0.5 %", "1e-3", ".5", "5.", "0,5", "nan", "half", "\u0665"])
def test_what_is_no_percentage_is_refused_with_the_text(text):
    with pytest.raises(ValueError, match=re.escape(f"{text!r} is not a percentage")):
        units.parse_percent(text)


@pytest.mark.parametrize("text", ["0", "0.0%", "100.1", "9" * 400])
def test_percentages_out_of_range_are_refused(text):
    with pytest.raises(ValueError, match="is out of range: write more than 0 and up to 100"):
        units.parse_percent(text)
