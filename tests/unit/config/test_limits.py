"""The ``[[limits]]`` sections of suites: what is understood, and how everything else is refused."""

from fnmatch import fnmatchcase
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cudabw.benchmarks.suite import VOCABULARY, limits_of, plans_of, result_ids
from cudabw.config.lookup import load_suite
from cudabw.config.suite import parse_suite
from cudabw.errors import ConfigurationError
from cudabw.results.limits import Bound, Limit

SUITE = "version = 1\n[[bandwidth]]\n[[limits]]\n"
KEYS = "cases, min_gb_per_s, min_link_percent, max_us, max_ns_per_argument"

parse = partial(parse_suite, source="ci.toml", vocabulary=VOCABULARY)


def test_a_section_sets_each_limit_that_it_names_in_the_unit_of_results():
    text = 'cases = "*/h2d/*"\nmax_ns_per_argument = 250\nmin_gb_per_s = 50\nmin_link_percent = 82.5\nmax_us = 7.5\n'
    assert limits_of(parse(f'{SUITE}{text}[[limits]]\ncases = "b*"\nmax_us = 8')) == (
        Limit("*/h2d/*", Bound.MIN_RATE, 50e9),
        Limit("*/h2d/*", Bound.MIN_LINK, 0.825),
        Limit("*/h2d/*", Bound.MAX_TIME, 7.5e-6),
        Limit("*/h2d/*", Bound.MAX_PER_ARGUMENT, 250e-9),
        Limit("b*", Bound.MAX_TIME, 8e-6),
    )


def test_a_suite_without_limits_has_none():
    assert limits_of(parse("version = 1\n[[bandwidth]]")) == ()


def test_limits_alone_are_nothing_to_run():
    with pytest.raises(ConfigurationError, match="nothing to run"):
        parse('version = 1\n[[limits]]\ncases = "*"\nmin_gb_per_s = 1')


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "min_gb_per_s = 50",
            'the key cases is missing: it says which cases are meant, such as "bandwidth/pinned/*"',
        ),
        (
            'cases = "*"',
            "there is no limit in it: write one of min_gb_per_s, min_link_percent, max_us, max_ns_per_argument",
        ),
        ("cases = 1", 'cases: needs a pattern such as "bandwidth/pinned/*/h2d/*", not the number 1'),
        ('cases = ["*"]', 'cases: needs a pattern such as "bandwidth/pinned/*/h2d/*", not a list'),
        ('cases = ""', 'cases: needs a pattern such as "bandwidth/pinned/*/h2d/*", not an empty text'),
        ('min_gb_per_s = "50"', "min_gb_per_s: needs a number, not the text '50'"),
        ("min_gb_per_s = true", "min_gb_per_s: needs a number, not true"),
        ("min_gb_per_s = 0", "min_gb_per_s: 0 is out of range: write a number above 0"),
        ("max_us = -1.5", "max_us: -1.5 is out of range: write a number above 0"),
        ("max_us = inf", "max_us: inf is out of range: write a number above 0"),
        ("max_ns_per_argument = nan", "max_ns_per_argument: nan is out of range: write a number above 0"),
        (
            "min_link_percent = 101",
            "min_link_percent: 101 is out of range: write a number above 0 and up to 100",
        ),
        ("min_gbps = 1", "unknown key 'min_gbps' (did you mean 'min_gb_per_s'?)"),
    ],
)
def test_what_is_wrong_is_said_with_the_section_and_the_key(text, problem):
    with pytest.raises(ConfigurationError) as caught:
        parse(f'{SUITE}cases = "*"\nmax_us = 1\n[[limits]]\n{text}')
    assert caught.value.message == f"ci.toml: [[limits]] section 2: {problem}"
    assert caught.value.hint == (f"The keys of [[limits]] are {KEYS}." if "unknown" in problem else "")


@pytest.mark.parametrize("number", ["0x" + "f" * 5000, "1e999", "-" + "9" * 400])
def test_a_number_beyond_all_measure_is_refused_like_anything_else(number):
    with pytest.raises(ConfigurationError, match=r"section 1: max_us: .{1,60} is out of range"):
        parse(f'{SUITE}cases = "*"\nmax_us = {number}')


@given(st.sampled_from(KEYS.split(", ")[1:]), st.floats(min_value=1e-3, max_value=100))
def test_every_number_within_the_bounds_becomes_one_positive_limit(key, number):
    (limit,) = limits_of(parse(f'{SUITE}cases = "*"\n{key} = {number!r}'))
    assert 0 < limit.limit < float("inf")


@given(st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1))
def test_every_text_is_a_pattern(pattern):
    quoted = pattern.replace("\\", "\\\\").replace('"', '\\"')
    (limit,) = limits_of(parse(f'{SUITE}cases = "{quoted}"\nmax_us = 1'))
    assert limit.cases == pattern


def test_the_ids_of_results_are_known_before_they_are_measured():
    suite = parse(
        'version = 1\n[[bandwidth]]\nkinds = ["pinned"]\ndirections = ["h2d", "bidirectional"]\nsizes = [4096]\n'
        '[[launch_overhead]]\nargs = [1]\narg_types = ["int32"]'
    )
    bandwidth = "bandwidth/pinned/driver"
    modes = ("bare", "prepared", "packed", "converted", "specialised", "rebound")
    assert set(result_ids(plans_of(suite))) == {
        *(f"{bandwidth}/{way}/4096" for way in ("h2d", *(f"bidirectional-{end}" for end in ("total", "h2d", "d2h")))),
        *(f"launch_overhead/int32/1/{mode}" for mode in modes),
    }


def test_the_smoke_suite_has_no_limits_because_the_emulated_device_meets_none():
    assert load_suite("smoke", VOCABULARY).limits == ()


def test_the_acceptance_suite_bounds_every_transfer_and_never_the_emulated_device():
    suite = load_suite("acceptance-pcie5-x16", VOCABULARY)
    assert suite.backend == "cuda"
    patterns = [limit.cases for limit in limits_of(suite)]
    ids = list(result_ids(plans_of(suite)))
    assert [pattern for pattern in patterns if not any(fnmatchcase(one, pattern) for one in ids)] == []
    transfers = (one for one in ids if one.startswith("bandwidth/"))
    unbounded = [one for one in transfers if not any(fnmatchcase(one, pattern) for pattern in patterns)]
    assert unbounded == ["bandwidth/pinned/driver/bidirectional-total/268435456"]
