"""What a suite's sections mean, and what the plans will need."""

import json
from dataclasses import replace

import pytest

from cudabw.benchmarks.bandwidth_plan import DEFAULT_KINDS, ENGINES, KINDS, BandwidthPlan, Staging
from cudabw.benchmarks.estimate import estimate_run
from cudabw.benchmarks.setup_cost import setup_plans
from cudabw.benchmarks.suite import VOCABULARY, plans_of
from cudabw.config.suite import override, parse_suite
from cudabw.errors import ConfigurationError
from cudabw.results.model import Pages
from cudabw.results.plan import plan_to_json

MIB = 1 << 20


def plans(text, **flags):
    suite = parse_suite(f"version = 1\n{text}", "ci.toml", VOCABULARY)
    return plans_of(override(suite, VOCABULARY, settings=flags))


def test_a_section_means_the_plan_that_it_spells():
    text = """
        [[bandwidth]]
        kinds = ["managed", "pinned"]
        directions = ["d2h"]
        sizes = ["1MiB"]
        trials = 2
        time_budget = 1.5
    """
    named = frozenset({"managed", "pinned"})
    assert plans(text) == (BandwidthPlan(("managed", "pinned"), ("d2h",), (MIB,), 2, 1.5, named),)


def test_an_empty_section_means_the_command_without_flags():
    assert plans("[[bandwidth]]") == (BandwidthPlan(),)


def test_engines_and_how_to_stage_are_the_plans():
    text = '[[bandwidth]]\nkinds = ["pageable"]\nengines = ["driver", "staged"]\nthreads = 4\nslot = "1MiB"'
    (plan,) = plans(text)
    assert (plan.engines, plan.staging) == (("driver", "staged"), Staging(4, MIB))
    assert plan.named == {"pageable", "driver", "staged"}
    (plan,) = plans('[[bandwidth]]\nengines = "all"')
    assert (plan.engines, plan.named) == (ENGINES, frozenset())


@pytest.mark.parametrize(("numa", "nodes"), [("1", (1,)), ('"auto"', ("auto",)), ('"all"', (0, 2))])
def test_a_numa_node_is_the_plans(monkeypatch, numa, nodes):
    monkeypatch.setattr("cudabw.benchmarks.places.memory_nodes", lambda **_: (0, 2))
    (plan,) = plans(f"[[bandwidth]]\nnuma = {numa}")
    assert (plan.nodes, plan.nodes_named) == (nodes, numa != '"all"')


@pytest.mark.parametrize(
    ("numa", "what"),
    [
        ('"both"', "'both' is no NUMA node: it is a number, auto or all; for example 0"),
        ("-1", "'-1' is no NUMA node: it is a number, auto or all; for example 0"),
        ("true", 'needs the number of a NUMA node, "auto" or "all", not true'),
        ("[0]", 'needs the number of a NUMA node, "auto" or "all", not a list'),
    ],
)
def test_what_is_no_numa_node_is_refused(numa, what):
    with pytest.raises(ConfigurationError) as caught:
        plans(f"[[bandwidth]]\nnuma = {numa}")
    assert caught.value.message == f"ci.toml: [[bandwidth]] section 1: numa: {what}"


def test_sections_on_different_nodes_go_together():
    assert len(plans("[[bandwidth]]\nnuma = 0\n[[bandwidth]]\nnuma = 1\n[[bandwidth]]\n[[bandwidth]]\nnuma = 1")) == 3


def test_states_of_pages_are_measured_where_a_section_says_so():
    (plan,) = plans("[[bandwidth]]\nfirst_touch = true\nhuge_pages = true")
    assert plan == BandwidthPlan(pages=(Pages.FIRST_TOUCH, Pages.HUGE))
    (plan,) = plans("[[bandwidth]]\nhuge_pages = true\nfirst_touch = false")
    assert plan == BandwidthPlan(pages=(Pages.HUGE,))
    with pytest.raises(ConfigurationError, match="section 1: huge-pages goes with none of the other choices"):
        plans('[[bandwidth]]\nkinds = ["pinned"]\nhuge_pages = true')


def test_fresh_pages_are_copied_into_once_in_a_batch():
    plan = BandwidthPlan(("pageable",), ("d2h",), (MIB,), 3, pages=(Pages.FIRST_TOUCH,))
    (warm, fresh) = estimate(plan).sections[0].cases
    assert (warm.pages, fresh.pages, fresh.copied_bytes) == (Pages.WARM, Pages.FIRST_TOUCH, 3 * 5 * MIB)


def test_what_memory_costs_is_measured_where_a_section_says_so():
    (plan,) = plans("[[bandwidth]]\nsetup_cost = true")
    assert plan == BandwidthPlan(setup_kinds=DEFAULT_KINDS)
    assert plans("[[bandwidth]]\nsetup_cost = false") == (BandwidthPlan(),)
    for value, what in (("1", "the number 1"), ('"yes"', "the text 'yes'")):
        with pytest.raises(ConfigurationError, match=f"setup_cost: needs true or false, not {what}"):
            plans(f"[[bandwidth]]\nsetup_cost = {value}")


def test_an_engine_that_goes_with_nothing_else_is_refused_with_its_section():
    with pytest.raises(ConfigurationError) as caught:
        plans('[[bandwidth]]\n[[bandwidth]]\nkinds = ["pinned"]\nengines = ["kernel"]')
    assert caught.value.message == (
        "ci.toml: [[bandwidth]] section 2: kernel goes with none of the other choices: "
        "it copies mapped memory (h2d, d2h)"
    )


def test_all_kinds_are_planned_and_none_is_named():
    (plan,) = plans('[[bandwidth]]\nkinds = "all"')
    assert (plan.kinds, plan.named) == (KINDS, frozenset())


def test_the_cases_of_a_named_kind_are_named():
    assert all(case.named for case in plans('[[bandwidth]]\nkinds = ["pinned"]')[0].cases())


def test_a_kind_that_an_earlier_section_measures_completely_is_left_out():
    text = """
        [[bandwidth]]
        kinds = ["pageable", "pinned"]
        sizes = ["1MiB"]
        trials = 3
        [[bandwidth]]
        kinds = ["pinned", "mapped"]
        sizes = ["2MiB"]
        [[bandwidth]]
        kinds = ["mapped"]
        sizes = ["1MiB"]
    """
    assert [plan.kinds for plan in plans(text)] == [("pageable", "pinned"), ("pinned", "mapped"), ("mapped",)]
    assert [plan.kinds for plan in plans(text, sizes=(4096,))] == [("pageable", "pinned"), ("mapped",)]


def test_a_kind_that_is_left_out_keeps_what_its_memory_costs():
    text = """
        [[bandwidth]]
        kinds = ["pinned"]
        sizes = ["1MiB"]
        [[bandwidth]]
        kinds = ["pinned", "mapped"]
        sizes = ["1MiB"]
        setup_cost = true
        [[bandwidth]]
        kinds = ["mapped"]
        sizes = ["1MiB"]
        setup_cost = true
    """
    found = plans(text)
    assert [plan.kinds for plan in found] == [("pinned",), ("mapped",), ()]
    assert [[setup.kind for setup in plan.setups] for plan in setup_plans(found)] == [[], ["pinned", "mapped"], []]
    alone = plans(text.replace('"pinned", "mapped"', '"pinned"'))
    first, costs, *_ = estimate(*alone).sections
    assert (len(first.cases), [case.id for case in costs.cases]) == (2, ["setup-cost/pinned/1048576"])
    assert costs.precision is None, "what memory costs has as many trials as it has"


def test_local_copies_that_an_earlier_section_measures_are_left_out():
    text = """
        [[bandwidth]]
        directions = ["d2d"]
        [[bandwidth]]
        kinds = ["pinned"]
        directions = ["h2d", "d2d"]
    """
    assert [[case.id for case in plan.cases()] for plan in plans(text)] == [
        ["bandwidth/device/driver/d2d/67108864"],
        ["bandwidth/pinned/driver/h2d/67108864"],
    ]


def test_sections_that_share_some_cases_of_a_kind_are_refused():
    with pytest.raises(ConfigurationError) as caught:
        plans('[[bandwidth]]\nsizes = ["1MiB"]\n[[bandwidth]]\nsizes = ["1KiB", "1MiB"]')
    assert caught.value.message == (
        "ci.toml: [[bandwidth]] section 2 measures pageable h2d 1 MiB again, as [[bandwidth]] section 1 does"
    )


def estimate(*plans, backend="auto"):
    return estimate_run("ci", plans, backend=backend, device=0)


def test_peaks_are_those_of_one_trial_at_a_time():
    run = estimate(BandwidthPlan(sizes=(MIB, 64 * MIB)), BandwidthPlan(kinds=("write-combined",), sizes=(64 * MIB,)))
    # The buffer and the 16 MiB through which device memory is checked; write-combined memory needs them there as well.
    assert (run.peak_host_bytes, run.peak_device_bytes) == (80 * MIB, 80 * MIB)
    assert run.peak_emulated_bytes == 160 * MIB


def test_copies_and_time_follow_from_the_rates_that_are_assumed():
    # 64 MiB at 25 GB/s are 2.7 ms: two copies make a batch of 4 ms, and a trial has five batches.
    size = 64 * MIB
    run = estimate(BandwidthPlan(kinds=("pinned",), directions=("h2d",), sizes=(size,), trials=3))
    assert run.copied_bytes == 3 * 5 * 2 * size
    assert run.seconds == pytest.approx(3 * (5 * 4e-3 + 11 * size / 4e9))


def test_both_directions_at_once_need_and_copy_twice_as_much():
    one, two = (
        estimate(BandwidthPlan(kinds=("pinned",), directions=(way,), sizes=(64 * MIB,), trials=3))
        for way in ("h2d", "bidirectional")
    )
    assert two.copied_bytes == 2 * one.copied_bytes
    assert (two.peak_host_bytes, two.peak_device_bytes) == (144 * MIB, 128 * MIB)


def test_managed_pages_move_once_in_a_batch():
    run = estimate(BandwidthPlan(kinds=("managed",), directions=("h2d",), sizes=(MIB,), trials=3))
    assert run.copied_bytes == 3 * 5 * MIB


def test_a_time_budget_bounds_the_time_but_for_the_first_trials():
    plan = BandwidthPlan(kinds=("pinned",), directions=("h2d",), sizes=(4096,), trials=1000, time_budget_s=2.0)
    assert estimate(plan).seconds == 2.0
    assert estimate(BandwidthPlan(sizes=(1 << 33,), time_budget_s=0.1)).seconds > 6 * 11 * (1 << 33) / 4e9


def test_a_case_on_a_node_says_which():
    run = estimate(BandwidthPlan(kinds=("pinned",), directions=("h2d",), sizes=(MIB,), nodes=(0, "auto")))
    assert [(case.id, case.node) for case in run.cases] == [
        ("bandwidth/pinned/driver/h2d/1048576/node0", 0),
        ("bandwidth/pinned/driver/h2d/1048576/node-auto", "auto"),
    ]


def test_what_memory_costs_is_planned_beside_its_copies():
    copies = BandwidthPlan(kinds=("pinned", "managed"), directions=("h2d",), sizes=(MIB,), trials=3)
    setups = replace(copies, setup_kinds=copies.kinds, time_budget_s=1e-6)
    (section,) = estimate(setups).sections
    assert [(case.id, case.trials, case.host_bytes, case.device_bytes) for case in section.cases[2:]] == [
        (f"setup-cost/pinned/{MIB}", 3, MIB, 0),
        (f"setup-cost/managed/{MIB}", 3, MIB, MIB),
    ]
    (alone,) = estimate(replace(copies, time_budget_s=1e-6)).sections
    # Allocating, touching and freeing both kinds once, though the time is up.
    assert section.seconds - alone.seconds == pytest.approx(2 * 3 * MIB / 4e9)
    assert estimate(setups).copied_bytes == estimate(copies).copied_bytes


def test_the_document_holds_every_case():
    run = estimate(BandwidthPlan(kinds=("pinned",), directions=("h2d",), sizes=(MIB,), trials=3), backend="cuda")
    document = json.loads(plan_to_json(run))
    assert document["dry_run"] is True
    assert (document["suite"], document["backend"], document["device"]) == ("ci", "cuda", 0)
    assert document["totals"] == {"cases": 1, "trials": 3}
    assert document["peak"] == {"host_bytes": 17 * MIB, "device_bytes": MIB, "host_bytes_if_emulated": 18 * MIB}
    assert document["estimate"]["assumes"] == {"copy_bytes_per_s": 25e9, "touch_bytes_per_s": 4e9}
    assert document["sections"][0]["cases"] == [
        {
            "id": "bandwidth/pinned/driver/h2d/1048576",
            "benchmark": "bandwidth",
            "kind": "pinned",
            "engine": "driver",
            "direction": "h2d",
            "size_bytes": MIB,
            "trials": 3,
            "named": False,
            "host_bytes": 17 * MIB,
            "device_bytes": MIB,
            "copied_bytes": 3 * 5 * 96 * MIB,
            "node": None,
            "pages": "warm",
        }
    ]
