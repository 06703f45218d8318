"""Suites: what is understood, and how everything else is refused."""

import tomllib
from functools import partial
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cudabw import units
from cudabw.benchmarks.suite import VOCABULARY
from cudabw.config.limits import KEYS
from cudabw.config.lookup import load_suite, suite_folder, suite_names
from cudabw.config.suite import Section, Suite, override, parse_suite
from cudabw.errors import ConfigurationError

NOT_THERE = "cannot be read: No such file or directory"
BANDWIDTH_KEYS = (
    "The keys of [[bandwidth]] are kinds, directions, engines, sizes, trials, effort, precision, time_budget, threads, "
    "slot, numa, first_touch, huge_pages, setup_cost."
)
SECTION = "version = 1\n[[bandwidth]]\n"

parse = partial(parse_suite, source="ci.toml", vocabulary=VOCABULARY)


def refusal(text):
    with pytest.raises(ConfigurationError) as caught:
        parse(text)
    assert caught.value.exit_code == 2
    return caught.value


def settings(text):
    (section,) = parse(SECTION + text).sections
    return section.settings


def test_a_whole_suite_is_read():
    text = """
        version = 1
        backend = "cuda"
        device = 3
        [[bandwidth]]
        kinds = ["pinned", "managed"]
        directions = ["d2h"]
        sizes = [4096, "1MiB", "1KiB:16KiB:x4"]
        trials = 7
        time_budget = "2min"
        [[bandwidth]]
    """
    assert parse(text) == Suite(
        source="ci.toml",
        backend="cuda",
        device=3,
        sections=(
            Section(
                "bandwidth",
                1,
                {
                    "kinds": ("pinned", "managed"),
                    "directions": ("d2h",),
                    "sizes": (4096, 1 << 20, 1024, 16384),
                    "trials": 7,
                    "time_budget": 120.0,
                },
            ),
            Section("bandwidth", 2, {}),
        ),
    )


def test_what_is_left_out_is_left_open():
    suite = parse(SECTION)
    assert (suite.backend, suite.device, suite.sections) == (None, None, (Section("bandwidth", 1, {}),))


@pytest.mark.parametrize(("text", "seconds"), [('"500ms"', 0.5), ("30", 30.0), ("2.5", 2.5), ('"1.5m"', 90.0)])
def test_a_time_is_a_text_or_a_number_of_seconds(text, seconds):
    assert settings(f"time_budget = {text}") == {"time_budget": seconds}


def test_all_kinds_stay_a_word_of_their_own_because_it_names_none():
    assert settings('kinds = "all"') == {"kinds": "all"}


def test_what_is_given_twice_is_taken_once():
    assert settings('kinds = ["pinned", "pinned"]\nsizes = ["1KiB", 1024]') == {"kinds": ("pinned",), "sizes": (1024,)}


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("", "ci.toml: the key version is missing", "Begin with: version = 1"),
        (
            "version = 2\nfoo = 1",
            "ci.toml: version: the number 2 is not a version that this program reads",
            "This program reads version 1.",
        ),
        (
            "version = true",
            "ci.toml: version: true is not a version that this program reads",
            "This program reads version 1.",
        ),
        (
            "version = 1.0",
            "ci.toml: version: the number 1.0 is not a version that this program reads",
            "This program reads version 1.",
        ),
        (
            "version = 1",
            "ci.toml: nothing to run: the suite has no section",
            "Add one of [[bandwidth]], [[latency]], [[launch_overhead]].",
        ),
        (
            "version = 1\nbandwidth = []",
            "ci.toml: nothing to run: the suite has no section",
            "Add one of [[bandwidth]], [[latency]], [[launch_overhead]].",
        ),
        (
            "version = 1\n[[bandwith]]",
            "ci.toml: unknown key 'bandwith' (did you mean 'bandwidth'?)",
            "The keys of a suite are version, backend, device, bandwidth, latency, launch_overhead, limits.",
        ),
        (
            SECTION + "[[bandwidth]]\nkind = 1",
            "ci.toml: [[bandwidth]] section 2: unknown key 'kind' (did you mean 'kinds'?)",
            BANDWIDTH_KEYS,
        ),
        (
            SECTION + '"a\\nb" = 1',
            "ci.toml: [[bandwidth]] section 1: unknown key 'a\\nb'",
            BANDWIDTH_KEYS,
        ),
    ],
)
def test_what_is_not_known_is_named_with_what_is(text, message, hint):
    error = refusal(text)
    assert (error.message, error.hint) == (message, hint)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("backend = 1", "backend: needs a text, not the number 1"),
        ('backend = "gpu"', "backend: 'gpu' is not known: it is one of auto, cuda, emulated"),
        ("device = -1", "device: '-1' is not a number: write digits alone, for example 0"),
        ("device = true", "device: needs a whole number, not true"),
        (
            "[bandwidth]",
            "bandwidth: needs sections, each under a line [[bandwidth]] of its own, not a table",
        ),
        (
            "bandwidth = [{}, 1]",
            "bandwidth: needs sections, each under a line [[bandwidth]] of its own, not the number 1",
        ),
    ],
)
def test_what_is_wrong_at_the_top_is_said_with_the_key(text, problem):
    assert refusal(f"version = 1\n{text}").message == f"ci.toml: {problem}"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('kinds = "pinned"', "kinds: needs a list of texts such as [\"pageable\"], not the text 'pinned'"),
        ("kinds = [1]", "kinds: needs a text, not the number 1"),
        (
            'directions = ["h2h"]',
            "directions: 'h2h' is not known (did you mean 'h2d'?): it is one of h2d, d2h, bidirectional, d2d",
        ),
        ("directions = []", 'directions: the list is empty: write texts such as ["h2d"], or leave the key out'),
        (
            'sizes = "1MiB"',
            'sizes: needs a list of sizes such as ["1MiB", "4KiB:256MiB:x4"], not the text \'1MiB\'',
        ),
        ("sizes = [1.5]", 'sizes: needs bytes or a size such as "16MiB", not the number 1.5'),
        ("sizes = [0]", "sizes: size '0' is too small: the smallest is 1 byte, for example 1B or 4KiB"),
        (
            'sizes = ["8MiB:1MiB:x2"]',
            (
                "sizes: range '8MiB:1MiB:x2' starts above its end: write start:end:step, "
                "for example 4KiB:256MiB:x4 or 1MiB:8MiB:+1MiB"
            ),
        ),
        ('trials = "3"', "trials: needs a whole number, not the text '3'"),
        ("trials = 0", "trials: count '0' is out of range: write 1 to 1000000000, for example 10"),
        ("trials = {}", "trials: needs a whole number, not a table"),
        ("trials = 2000-01-01", "trials: needs a whole number, not a date or time"),
        ("time_budget = false", 'time_budget: needs seconds or a time such as "30s", not false'),
        ("time_budget = []", 'time_budget: needs seconds or a time such as "30s", not a list'),
        (
            "time_budget = nan",
            "time_budget: 'nan' is not a time: write digits and at most one unit, for example 2.5s or 500ms",
        ),
    ],
)
def test_what_is_wrong_in_a_section_is_said_with_the_section_and_the_key(text, problem):
    assert refusal(SECTION + text).message == f"ci.toml: [[bandwidth]] section 1: {problem}"


def test_the_bound_on_the_number_of_sizes_holds_for_all_members_together():
    error = refusal(SECTION + 'sizes = ["1B:600B:+1B", "1KB:2KB:+2B"]')
    assert f"is more than {units.MAX_SIZES} sizes" in error.message


@pytest.mark.parametrize(
    "value", ["0x" + "f" * 5000, "9" * 5000, "[" * 5000, '"' + "x" * 5000 + '"', "-0x1", '"\\u0000"']
)
def test_what_python_cannot_convert_is_refused_like_anything_else(value):
    assert len(refusal(f"{SECTION}trials = {value}").message) < 250


@pytest.mark.parametrize("text", ["version = {}", "version = 1\nbackend = {}", SECTION + "sizes = [{}]"])
def test_a_number_too_long_for_python_to_write_is_still_quoted(text):
    assert "0xfffffff" in refusal(text.format("0x" + "f" * 5000)).message


def test_text_that_is_no_toml_is_refused_with_its_place():
    assert refusal("version").message.startswith("ci.toml: not TOML: Expected '=' after a key")


toml_values = st.recursive(
    st.sampled_from(
        ["1", "0", "-7", "1.5", "inf", "nan", "true", "1979-05-27", "'pinned'", "'all'", "'1MiB'", "'1:2:x2'", "'3s'"]
    )
    | st.integers().map(str)
    | st.integers(min_value=0).map(hex)
    | st.text(st.characters(exclude_characters="'", exclude_categories=["Cc", "Cs"]), max_size=20).map("'{}'".format),
    lambda inner: st.lists(inner, max_size=4).map(lambda members: f"[{', '.join(members)}]"),
    max_leaves=8,
)
toml_keys = st.sampled_from(["kinds", "directions", "sizes", "trials", "time_budget", "backend", "device", "x"])
toml_tables = st.dictionaries(toml_keys, toml_values, max_size=3).map(
    lambda table: "".join(f"{key} = {value}\n" for key, value in table.items())
)


@given(top=toml_tables, sections=st.lists(toml_tables, max_size=3))
@example(top="", sections=["kinds = 'all'\nsizes = [1, '4KiB:1MiB:x4']\n"])
def test_any_toml_is_a_suite_or_a_configuration_error(top, sections):
    try:
        suite = parse("version = 1\n" + top + "".join(f"[[bandwidth]]\n{table}" for table in sections))
    except ConfigurationError as error:
        message = error.message
    else:
        assert len(suite.sections) == len(sections) > 0
        return
    assert message.startswith("ci.toml: ")


@given(st.text())
def test_any_text_is_a_suite_or_a_configuration_error(text):
    with pytest.raises(ConfigurationError, match=r"^ci\.toml: "):
        parse(text)


def test_flags_stand_above_the_suite_in_every_section_that_knows_the_key():
    suite = parse(SECTION + "trials = 3\nsizes = [1]\n[[bandwidth]]\ntrials = 4\n")
    flags = {"trials": 9, "sizes": None, "nobody_knows": 1}
    changed = override(suite, VOCABULARY, backend="emulated", device=0, settings=flags)
    assert (changed.backend, changed.device) == ("emulated", 0)
    assert [section.settings for section in changed.sections] == [{"trials": 9, "sizes": (1,)}, {"trials": 9}]


def test_without_flags_a_suite_stays_as_it_is():
    suite = parse('version = 1\nbackend = "cuda"\ndevice = 2\n[[bandwidth]]\ntrials = 3')
    assert override(suite, VOCABULARY, settings={"trials": None}) == suite


@pytest.fixture(params=["installed", "checkout"])
def package(request, tmp_path):
    """A package folder with the built-in suites where an installed wheel or a checkout has them."""
    package = tmp_path / "cudabw"
    configs = package / "configs" if request.param == "installed" else tmp_path / "configs"
    package.mkdir()
    configs.mkdir()
    (configs / "mine.toml").write_text(SECTION)
    (configs / "notes.md").write_text("no suite")
    return package


def test_a_built_in_suite_is_found_by_name_in_a_wheel_and_in_a_checkout(package):
    assert suite_names(package) == ("mine",)
    assert load_suite("mine", VOCABULARY, package=package).source == str(suite_folder(package) / "mine.toml")


def test_a_wheel_does_not_look_beside_itself(tmp_path):
    (tmp_path / "cudabw" / "configs").mkdir(parents=True)
    (tmp_path / "configs").mkdir()
    assert suite_folder(tmp_path / "cudabw") == tmp_path / "cudabw" / "configs"


def test_an_unknown_name_lists_the_known_ones(package):
    with pytest.raises(ConfigurationError) as caught:
        load_suite("mone", VOCABULARY, package=package)
    assert caught.value.message == "there is no built-in suite 'mone' (did you mean 'mine'?)"
    assert caught.value.hint == "There are mine. A file is given by a path that ends in .toml."


def test_what_ends_in_toml_or_has_a_separator_is_a_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("mine.toml").write_text(SECTION)
    Path("folder").mkdir()
    Path("folder/suite").write_text(SECTION)
    assert load_suite("mine.toml", VOCABULARY).source == "mine.toml"
    assert load_suite("folder/suite", VOCABULARY).source == "folder/suite"
    assert load_suite(f"{tmp_path}/folder/suite", VOCABULARY).source == f"{tmp_path}/folder/suite"


@pytest.mark.parametrize(
    ("name", "reason", "hint"),
    [
        ("smoke.toml", NOT_THERE, "The built-in suite is called smoke, without .toml."),
        ("missing/x.toml", NOT_THERE, ""),
        ("a\0.toml", "cannot be read: embedded null byte", ""),
        ("latin.toml", "not TOML: byte 4 is not UTF-8", ""),
        ("folder.toml", "cannot be read: Is a directory", ""),
    ],
)
def test_a_file_that_cannot_be_read_is_named_with_the_reason(tmp_path, monkeypatch, name, reason, hint):
    monkeypatch.chdir(tmp_path)
    Path("latin.toml").write_bytes(b"# gr\xfc\xdfe\n")
    Path("folder.toml").mkdir()
    with pytest.raises(ConfigurationError) as caught:
        load_suite(name, VOCABULARY)
    assert (caught.value.message, caught.value.hint) == (f"{name}: {reason}", hint)


def test_the_suites_of_this_repository_are_all_good_and_found():
    assert suite_names() == ("acceptance-pcie5-x16", "full", "quick", "smoke")
    for name in suite_names():
        assert load_suite(name, VOCABULARY).sections


def test_the_smoke_suite_pins_the_emulated_device():
    assert load_suite("smoke", VOCABULARY).backend == "emulated"


def test_the_manual_states_every_key_and_its_example_is_good():
    manual = (Path(__file__).parents[2] / "docs" / "suites.md").read_text()
    (text,) = [block.removeprefix("toml\n") for block in manual.split("```") if block.startswith("toml\n")]
    assert parse(text).sections
    keys = {"version", "backend", "device", *(key for keys in (*VOCABULARY.values(), KEYS) for key in keys)}
    assert [key for key in sorted(keys) if f"| `{key}` |" not in manual] == []
    assert tomllib.loads(text)["version"] == 1


@pytest.mark.parametrize(
    ("flags", "settings"),
    [
        ({"effort": "quick"}, {"sizes": (1,), "effort": "quick"}),
        ({"effort": "rigorous", "precision": 0.5}, {"sizes": (1,), "effort": "rigorous", "precision": 0.5}),
        ({"precision": 0.5}, {"sizes": (1,), "trials": 3, "precision": 0.5, "time_budget": 9.0}),
    ],
)
def test_a_flag_takes_the_place_of_what_it_contradicts(flags, settings):
    suite = parse(SECTION + "sizes = [1]\ntrials = 3\nprecision = 0.2\ntime_budget = 9")
    (section,) = override(suite, VOCABULARY, settings=flags).sections
    assert section.settings == settings


def test_a_number_of_trials_takes_the_place_of_an_effort():
    (section,) = override(parse(SECTION + "effort = 'rigorous'"), VOCABULARY, settings={"trials": 4}).sections
    assert section.settings == {"trials": 4}


def test_effort_and_trials_contradict_each_other():
    assert refusal(SECTION + "trials = 3\neffort = 'quick'").message == (
        "ci.toml: [[bandwidth]] section 1: effort and trials contradict each other"
    )


@pytest.mark.parametrize("value", ["0.5", '"0.5%"', '"0.5"'])
def test_a_precision_is_in_percent(value):
    (section,) = parse(SECTION + f"precision = {value}").sections
    assert section.settings == {"precision": 0.005}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "precision = 0",
            "precision: percentage '0' is out of range: write more than 0 and up to 100, for example 0.5%",
        ),
        ("precision = true", 'precision: needs percent such as "0.5%", not true'),
        ("effort = 'fast'", "effort: 'fast' is not known: it is one of quick, default, rigorous"),
    ],
)
def test_an_effort_that_cannot_be_meant_is_refused(line, said):
    assert refusal(SECTION + line).message == f"ci.toml: [[bandwidth]] section 1: {said}"
