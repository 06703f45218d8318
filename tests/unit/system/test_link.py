from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cudabw.driver.identity import Identity
from cudabw.driver.nvml import NvmlDevice
from cudabw.results.model import Hop, Link
from cudabw.system.link import LinkReader, LinkSampler, ceiling_bytes_per_s, link_reader

if TYPE_CHECKING:
    from pathlib import Path

PCI = "0000:17:00.0"
GEN5_X16 = 32e9 * 16 / 8 * 128 / 130


class Card:
    """A card in NVML whose link a test sets, and which counts how often it was read."""

    def __init__(self, generation: int | None, width: int | None) -> None:
        self.generation, self.width, self.reads = generation, width, 0

    @property
    def device(self) -> NvmlDevice:
        bindings = SimpleNamespace(
            device_get_curr_pcie_link_generation=self._read_generation,
            device_get_curr_pcie_link_width=lambda _: self.width,
        )
        return NvmlDevice(bindings, 1)

    def _read_generation(self, _handle: int) -> int | None:
        self.reads += 1
        return self.generation


class ManualClock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def make_sysfs(root: Path, speed: str | None, width: str | None, address: str = PCI) -> Path:
    folder = root / "sys" / "bus" / "pci" / "devices" / address
    folder.mkdir(parents=True)
    for name, text in (("current_link_speed", speed), ("current_link_width", width)):
        if text is not None:
            (folder / name).write_text(text)
    return root


@pytest.mark.parametrize(
    ("generation", "width", "expected"),
    [
        (1, 1, 0.25e9),
        (1, 16, 4.0e9),
        (2, 16, 8.0e9),
        (3, 16, 15.7538461538e9),
        (4, 16, 31.5076923077e9),
        (4, 8, 15.7538461538e9),
        (5, 16, 63.0153846154e9),
        (5, 1, 3.9384615385e9),
        (6, 16, 121.0e9),
        (7, 16, 242.0e9),
    ],
)
def test_the_ceiling_is_line_rate_times_lanes_after_coding(generation: int, width: int, expected: float) -> None:
    assert ceiling_bytes_per_s(generation, width) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize(
    ("generation", "width", "message"),
    [
        (0, 16, "PCIe generation 0 is not known: 1 to 7"),
        (8, 16, "PCIe generation 8 is not known: 1 to 7"),
        (5, 0, "a PCIe link cannot have 0 lanes: 1, 2, 4, 8, 12, 16 or 32"),
        (5, 63, "a PCIe link cannot have 63 lanes: 1, 2, 4, 8, 12, 16 or 32"),
    ],
)
def test_an_impossible_link_has_no_ceiling(generation: int, width: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ceiling_bytes_per_s(generation, width)


def test_nvml_is_asked_before_sysfs(tmp_path: Path) -> None:
    root = make_sysfs(tmp_path, "2.5 GT/s PCIe\n", "8\n")
    assert LinkReader(PCI, Card(5, 16).device, root=root).read() == Link(5, 16, pytest.approx(GEN5_X16), "nvml")


@pytest.mark.parametrize("card", [None, Card(None, None), Card(5, None), Card(None, 16), Card(5, 63)])
def test_sysfs_is_asked_where_nvml_has_no_whole_answer(tmp_path: Path, card: Card | None) -> None:
    root = make_sysfs(tmp_path, "16.0 GT/s PCIe\n", "8\n")
    device = None if card is None else card.device
    assert LinkReader(PCI, device, root=root).read() == Link(4, 8, pytest.approx(16e9 * 8 / 8 * 128 / 130), "sysfs")


@pytest.mark.parametrize(
    ("speed", "generation"),
    [
        ("2.5 GT/s PCIe\n", 1),
        ("5.0 GT/s PCIe\n", 2),
        ("5 GT/s\n", 2),
        ("8 GT/s\n", 3),
        ("8.0 GT/s PCIe\n", 3),
        ("16.0 GT/s PCIe\n", 4),
        ("32.0 GT/s PCIe\n", 5),
        ("64.0 GT/s PCIe\n", 6),
        ("128.0 GT/s PCIe\n", 7),
    ],
)
def test_each_speed_that_linux_writes_is_a_generation(tmp_path: Path, speed: str, generation: int) -> None:
    link = LinkReader(PCI, root=make_sysfs(tmp_path, speed, "16\n")).read()
    assert link == Link(generation, 16, ceiling_bytes_per_s(generation, 16), "sysfs")


@pytest.mark.parametrize(
    ("speed", "width"),
    [
        ("Unknown\n", "16\n"),
        ("Unknown speed\n", "16\n"),
        ("3.0 GT/s PCIe\n", "16\n"),
        ("GT/s PCIe\n", "16\n"),
        ("", ""),
        (None, "16\n"),
        ("32.0 GT/s PCIe\n", None),
        ("32.0 GT/s PCIe\n", "0\n"),
        ("32.0 GT/s PCIe\n", "63\n"),
        ("32.0 GT/s PCIe\n", "255\n"),
        ("32.0 GT/s PCIe\n", "x16\n"),
    ],
)
def test_a_sysfs_without_a_whole_answer_gives_nothing(tmp_path: Path, speed: str | None, width: str | None) -> None:
    assert LinkReader(PCI, root=make_sysfs(tmp_path, speed, width)).read() == Link(None, None, None, None)


@pytest.mark.parametrize(
    ("pci", "folder"),
    [
        ("0000:C1:00.0", "0000:c1:00.0"),
        ("00000000:C1:00.0", "0000:c1:00.0"),
        ("c1:00.0", "0000:c1:00.0"),
        ("0000:c1:00", "0000:c1:00.0"),
        ("0:1:2.3", "0000:01:02.3"),
        ("00010000:01:00.0", "10000:01:00.0"),
    ],
)
def test_an_address_is_found_however_it_is_written(tmp_path: Path, pci: str, folder: str) -> None:
    root = make_sysfs(tmp_path, "32.0 GT/s PCIe\n", "16\n", folder)
    assert LinkReader(pci, root=root).read().generation == 5


@pytest.mark.parametrize("pci", [None, "", "nonsense", "../../..", "0000:17:00.9", "0000:17:00.0/..", "0000:18:00.0"])
def test_an_address_that_is_none_or_not_there_gives_nothing(tmp_path: Path, pci: str | None) -> None:
    assert LinkReader(pci, root=make_sysfs(tmp_path, "32.0 GT/s PCIe\n", "16\n")).read() == Link()


def test_a_generation_later_than_those_known_is_shown_without_a_ceiling() -> None:
    assert LinkReader(None, Card(8, 16).device).read() == Link(8, 16, None, "nvml")


@given(speed=st.text(max_size=40), width=st.text(max_size=20), pci=st.text(max_size=20))
def test_no_text_makes_a_reading_raise(
    tmp_path_factory: pytest.TempPathFactory, speed: str, width: str, pci: str
) -> None:
    encodable = speed.encode("utf-8", "replace").decode()
    root = make_sysfs(tmp_path_factory.mktemp("sys"), encodable, width.encode("utf-8", "replace").decode())
    LinkReader(PCI, root=root).read()
    assert LinkReader(pci, root=root / "missing").read() == Link()


@given(
    generation=st.sampled_from(
        [(1, "2.5"), (2, "5.0"), (3, "8.0"), (4, "16.0"), (5, "32.0"), (6, "64.0"), (7, "128.0")]
    ),
    width=st.sampled_from([1, 2, 4, 8, 12, 16, 32]),
)
def test_sysfs_and_nvml_agree_on_every_link(
    tmp_path_factory: pytest.TempPathFactory, generation: tuple[int, str], width: int
) -> None:
    number, speed = generation
    root = make_sysfs(tmp_path_factory.mktemp("sys"), f"{speed} GT/s PCIe\n", f"{width}\n")
    from_sysfs, from_nvml = (
        LinkReader(PCI, root=root).read(),
        LinkReader(PCI, Card(number, width).device, root=root).read(),
    )
    assert from_sysfs.ceiling_bytes_per_s == from_nvml.ceiling_bytes_per_s == ceiling_bytes_per_s(number, width)
    assert (from_sysfs.source, from_nvml.source) == ("sysfs", "nvml")


def test_the_sampler_keeps_the_fastest_link_that_it_saw() -> None:
    card, clock = Card(1, 16), ManualClock()
    sampler = LinkSampler(LinkReader(None, card.device), clock=clock, interval_s=0.05)
    for card.generation, card.width in ((1, 16), (5, 8), (5, 16), (5, 4), (1, 16), (None, 16)):
        sampler.sample()
        clock.now_s += 0.1
    assert sampler.best() == Link(5, 16, pytest.approx(GEN5_X16), "nvml")


def test_lanes_and_generation_are_weighed_together() -> None:
    card, clock = Card(1, 16), ManualClock()
    sampler = LinkSampler(LinkReader(None, card.device), clock=clock, interval_s=0.05)
    for card.generation, card.width in ((1, 16), (2, 4)):
        sampler.sample()
        clock.now_s += 0.1
    assert sampler.best() == Link(1, 16, 4e9, "nvml")


def test_a_later_generation_than_those_known_beats_the_idle_link() -> None:
    card, clock = Card(1, 16), ManualClock()
    sampler = LinkSampler(LinkReader(None, card.device), clock=clock, interval_s=0.05)
    for card.generation in (1, 8, 1):
        sampler.sample()
        clock.now_s += 0.1
    assert sampler.best() == Link(8, 16, None, "nvml")


def test_the_sampler_reads_at_once_and_then_not_before_the_interval_is_over() -> None:
    card, clock = Card(5, 16), ManualClock()
    sampler = LinkSampler(LinkReader(None, card.device), clock=clock, interval_s=0.5)
    reads = []
    for clock.now_s in (0.0, 0.0, 0.25, 0.499, 0.5, 0.75, 1.0):
        sampler.sample()
        reads.append(card.reads)
    assert reads == [1, 1, 1, 1, 2, 2, 3]


def test_the_interval_is_50_milliseconds_unless_told_otherwise() -> None:
    card, clock = Card(5, 16), ManualClock()
    sampler = LinkSampler(LinkReader(None, card.device), clock=clock)
    reads = []
    for clock.now_s in (0.0, 0.049, 0.05):
        sampler.sample()
        reads.append(card.reads)
    assert reads == [1, 1, 2]


def test_a_sampler_that_read_nothing_has_nothing() -> None:
    sampler = LinkSampler(LinkReader(None, Card(5, 16).device))
    assert sampler.best() == Link()


def test_a_sampler_of_a_device_without_pcie_knows_what_is_there_instead() -> None:
    card = Card(5, 16)
    sampler = LinkSampler(LinkReader(PCI, card.device, "integrated"))
    assert sampler.best() == Link(source="integrated")
    sampler.sample()
    assert (sampler.best(), card.reads) == (Link(source="integrated"), 0)


def test_the_sampler_reads_the_sysfs_that_it_was_given(tmp_path: Path) -> None:
    sampler = LinkSampler(LinkReader(PCI, root=make_sysfs(tmp_path, "32.0 GT/s PCIe\n", "16\n")))
    sampler.sample()
    assert sampler.best() == Link(5, 16, pytest.approx(GEN5_X16), "sysfs")


# The bridges above


def make_tree(
    root: Path, *bridges: tuple[str, str], card: tuple[str, str] = ("32.0", "16"), which: str = "current"
) -> Path:
    """A sysfs in which a card sits below bridges, the one at the processor first; each is (speed, lanes)."""
    folder = root / "sys" / "devices" / "pci0000:00"
    for number, (speed, lanes) in enumerate([*bridges, card]):
        last = number == len(bridges)
        folder = folder / (PCI if last else f"0000:{number:02x}:01.0")
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in (("speed", f"{speed} GT/s PCIe\n"), ("width", f"{lanes}\n")):
            if speed:
                (folder / f"{which}_link_{name}").write_text(text)
    link = root / "sys" / "bus" / "pci" / "devices" / PCI
    if not link.is_symlink():
        link.parent.mkdir(parents=True)
        link.symlink_to(folder)
    return root


def test_a_narrower_bridge_above_sets_the_ceiling_and_is_named(tmp_path: Path) -> None:
    root = make_tree(tmp_path, ("16.0", "8"), ("32.0", "16"), ("32.0", "16"))
    narrowed = Link(5, 16, ceiling_bytes_per_s(4, 8), "sysfs", Hop("0000:00:01.0", 4, 8))
    assert LinkReader(PCI, root=root).read() == narrowed
    from_nvml = Link(5, 16, ceiling_bytes_per_s(4, 8), "nvml", Hop("0000:00:01.0", 4, 8))
    assert LinkReader(PCI, Card(5, 16).device, root=root).read() == from_nvml


def test_of_several_narrower_bridges_the_narrowest_sets_the_ceiling(tmp_path: Path) -> None:
    root = make_tree(tmp_path, ("16.0", "16"), ("8.0", "16"), ("32.0", "8"))
    assert LinkReader(PCI, root=root).read().narrowest_hop == Hop("0000:01:01.0", 3, 16)


@pytest.mark.parametrize(
    "bridge", [("32.0", "16"), ("64.0", "16"), ("", ""), ("Unknown", "16"), ("16.0", "0"), ("16.0", "63")]
)
def test_a_bridge_that_carries_as_much_or_is_not_known_changes_nothing(tmp_path: Path, bridge: tuple[str, str]) -> None:
    assert LinkReader(PCI, root=make_tree(tmp_path, bridge)).read() == Link(5, 16, pytest.approx(GEN5_X16), "sysfs")


def test_an_idle_card_is_not_held_for_the_narrowest(tmp_path: Path) -> None:
    root = make_tree(tmp_path, ("16.0", "8"), card=("2.5", "16"))
    make_tree(tmp_path, ("16.0", "8"), card=("32.0", "16"), which="max")
    reader = LinkReader(PCI, root=root)
    assert reader.read() == Link(1, 16, 4e9, "sysfs")
    assert reader.read_max() == Link(5, 16, ceiling_bytes_per_s(4, 8), "sysfs", Hop("0000:00:01.0", 4, 8))


def test_a_card_that_cannot_be_read_has_no_ceiling_although_a_bridge_has_one(tmp_path: Path) -> None:
    assert LinkReader(PCI, root=make_tree(tmp_path, ("16.0", "8"), card=("", ""))).read() == Link()


def test_a_bridge_bounds_also_a_card_of_a_later_generation_than_those_known(tmp_path: Path) -> None:
    link = LinkReader(PCI, Card(8, 16).device, root=make_tree(tmp_path, ("32.0", "16"))).read()
    assert link == Link(8, 16, pytest.approx(GEN5_X16), "nvml", Hop("0000:00:01.0", 5, 16))


def test_in_a_virtual_machine_the_bridges_are_made_up_and_nothing_is_claimed_of_them(tmp_path: Path) -> None:
    root = make_tree(tmp_path, ("2.5", "1"))
    (root / "proc").mkdir()
    (root / "proc" / "cpuinfo").write_text("flags\t\t: fpu hypervisor\n")
    assert LinkReader(PCI, root=root).read() == Link(5, 16, pytest.approx(GEN5_X16), "sysfs")


def test_a_link_that_leads_in_a_circle_has_no_bridges(tmp_path: Path) -> None:
    (tmp_path / "sys" / "bus" / "pci" / "devices").mkdir(parents=True)
    (tmp_path / "sys" / "bus" / "pci" / "devices" / PCI).symlink_to(PCI)
    assert LinkReader(PCI, Card(5, 16).device, root=tmp_path).read().narrowest_hop is None


# What is there instead of PCI Express


def c2c(enabled: object) -> NvmlDevice:
    mode = SimpleNamespace(is_c2c_enabled=enabled)
    return NvmlDevice(SimpleNamespace(device_get_c2c_mode_info_v=lambda _: mode), 1)


@pytest.mark.parametrize(
    ("integrated", "coherent", "nvml", "instead"),
    [
        (False, False, None, None),
        (True, True, None, "integrated"),
        (False, True, None, "coherent"),
        (False, True, c2c(1), "nvlink-c2c"),
        (False, False, c2c(1), "nvlink-c2c"),
        (False, False, c2c(0), None),
        (False, True, c2c("?"), "coherent"),
    ],
)
def test_a_way_that_is_not_pcie_is_recognised_and_has_no_ceiling(
    tmp_path: Path, integrated: bool, coherent: bool, nvml: NvmlDevice | None, instead: str | None
) -> None:
    identity = Identity(0, "GPU", "GPU-0", PCI, 1, integrated, coherent)
    reader = link_reader(identity, nvml, emulated=False, root=make_tree(tmp_path))
    assert reader.instead == instead
    if instead is not None:
        assert reader.read() == reader.read_max() == Link(source=instead)
        assert reader.shortfall(Link(1, 1, 1.0, "sysfs")) is None


def test_the_emulated_device_has_no_link_whatever_sits_at_its_address(tmp_path: Path) -> None:
    identity = Identity(0, "GPU", "GPU-0", PCI, 1, integrated=False)
    reader = link_reader(identity, None, emulated=True, root=make_tree(tmp_path))
    assert reader.read() == reader.read_max() == Link()


# A link below what the card can do


def able(generation: int | None, width: int | None, card: int | None = None) -> NvmlDevice:
    answers = {
        "device_get_max_pcie_link_generation": generation,
        "device_get_max_pcie_link_width": width,
        "device_get_gpu_max_pcie_link_generation": card,
    }
    return NvmlDevice(SimpleNamespace(**{name: lambda _, value=value: value for name, value in answers.items()}), 1)


RAN = f"The PCIe link of {PCI} ran at"
SLOT = ": this slot or processor offers Gen4 at most."
CHECK = (
    "Check that the card sits firmly in a slot wired for x16, its riser or cable, and the slot's speed in the firmware "
    f"settings; `lspci -vv -s {PCI}` shows both as LnkSta and LnkCap."
)


@pytest.mark.parametrize(
    ("link", "nvml", "sentence"),
    [
        ((5, 8), able(5, 16), f"{RAN} Gen5 x8 under load, below the Gen5 x16 that the card can do. {CHECK}"),
        ((3, 16), able(5, 16, 5), f"{RAN} Gen3 x16 under load, below the Gen5 x16 that the card can do. {CHECK}"),
        (
            (4, 16),
            able(4, 16, 5),
            f"{RAN} Gen4 x16 under load, below the Gen5 x16 that the card can do{SLOT}",
        ),
        ((5, 16), able(5, 16, 5), None),
        ((5, 16), able(4, 8), None),
        ((None, None), able(5, 16), None),
        ((1, 1), able(None, 16), None),
        ((1, 1), None, None),
    ],
)
def test_a_link_below_what_the_card_can_do_is_said_with_both_and_what_to_check(
    tmp_path: Path, link: tuple[int | None, int | None], nvml: NvmlDevice | None, sentence: str | None
) -> None:
    assert LinkReader(PCI, nvml, root=tmp_path).shortfall(Link(*link)) == sentence


def test_sysfs_too_tells_what_the_card_can_do(tmp_path: Path) -> None:
    root = make_tree(tmp_path, which="max")
    found = LinkReader(PCI, root=root).shortfall(Link(4, 4, None, "sysfs"))
    assert found == f"{RAN} Gen4 x4 under load, below the Gen5 x16 that the card can do. {CHECK}"
