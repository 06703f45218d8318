from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cudabw.driver.nvml import NvmlDevice
from cudabw.results.model import Link
from cudabw.system.link import LinkSampler, ceiling_bytes_per_s, read_link

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
    folder = root / "bus" / "pci" / "devices" / address
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
    sysfs = make_sysfs(tmp_path, "2.5 GT/s PCIe\n", "8\n")
    assert read_link(PCI, Card(5, 16).device, sysfs=sysfs) == Link(5, 16, pytest.approx(GEN5_X16), "nvml")


@pytest.mark.parametrize("card", [None, Card(None, None), Card(5, None), Card(None, 16), Card(5, 63)])
def test_sysfs_is_asked_where_nvml_has_no_whole_answer(tmp_path: Path, card: Card | None) -> None:
    sysfs = make_sysfs(tmp_path, "16.0 GT/s PCIe\n", "8\n")
    device = None if card is None else card.device
    assert read_link(PCI, device, sysfs=sysfs) == Link(4, 8, pytest.approx(16e9 * 8 / 8 * 128 / 130), "sysfs")


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
    link = read_link(PCI, None, sysfs=make_sysfs(tmp_path, speed, "16\n"))
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
    assert read_link(PCI, None, sysfs=make_sysfs(tmp_path, speed, width)) == Link(None, None, None, None)


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
    sysfs = make_sysfs(tmp_path, "32.0 GT/s PCIe\n", "16\n", folder)
    assert read_link(pci, None, sysfs=sysfs).generation == 5


@pytest.mark.parametrize("pci", [None, "", "nonsense", "../../..", "0000:17:00.9", "0000:17:00.0/..", "0000:18:00.0"])
def test_an_address_that_is_none_or_not_there_gives_nothing(tmp_path: Path, pci: str | None) -> None:
    assert read_link(pci, None, sysfs=make_sysfs(tmp_path, "32.0 GT/s PCIe\n", "16\n")) == Link()


def test_an_integrated_device_has_no_link(tmp_path: Path) -> None:
    sysfs = make_sysfs(tmp_path, "32.0 GT/s PCIe\n", "16\n")
    assert read_link(PCI, Card(5, 16).device, integrated=True, sysfs=sysfs) == Link(None, None, None, None)


def test_a_generation_later_than_those_known_is_shown_without_a_ceiling() -> None:
    assert read_link(None, Card(8, 16).device) == Link(8, 16, None, "nvml")


@given(speed=st.text(max_size=40), width=st.text(max_size=20), pci=st.text(max_size=20))
def test_no_text_makes_a_reading_raise(
    tmp_path_factory: pytest.TempPathFactory, speed: str, width: str, pci: str
) -> None:
    encodable = speed.encode("utf-8", "replace").decode()
    sysfs = make_sysfs(tmp_path_factory.mktemp("sys"), encodable, width.encode("utf-8", "replace").decode())
    read_link(PCI, None, sysfs=sysfs)
    assert read_link(pci, None, sysfs=sysfs / "missing") == Link()


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
    sysfs = make_sysfs(tmp_path_factory.mktemp("sys"), f"{speed} GT/s PCIe\n", f"{width}\n")
    from_sysfs, from_nvml = read_link(PCI, None, sysfs=sysfs), read_link(PCI, Card(number, width).device)
    assert from_sysfs.ceiling_bytes_per_s == from_nvml.ceiling_bytes_per_s == ceiling_bytes_per_s(number, width)
    assert (from_sysfs.source, from_nvml.source) == ("sysfs", "nvml")


def test_the_sampler_keeps_the_fastest_link_that_it_saw() -> None:
    card, clock = Card(1, 16), ManualClock()
    sampler = LinkSampler(None, card.device, clock=clock, interval_s=0.05)
    for card.generation, card.width in ((1, 16), (5, 8), (5, 16), (5, 4), (1, 16), (None, 16)):
        sampler.sample()
        clock.now_s += 0.1
    assert sampler.best() == Link(5, 16, pytest.approx(GEN5_X16), "nvml")


def test_lanes_and_generation_are_weighed_together() -> None:
    card, clock = Card(1, 16), ManualClock()
    sampler = LinkSampler(None, card.device, clock=clock, interval_s=0.05)
    for card.generation, card.width in ((1, 16), (2, 4)):
        sampler.sample()
        clock.now_s += 0.1
    assert sampler.best() == Link(1, 16, 4e9, "nvml")


def test_a_later_generation_than_those_known_beats_the_idle_link() -> None:
    card, clock = Card(1, 16), ManualClock()
    sampler = LinkSampler(None, card.device, clock=clock, interval_s=0.05)
    for card.generation in (1, 8, 1):
        sampler.sample()
        clock.now_s += 0.1
    assert sampler.best() == Link(8, 16, None, "nvml")


def test_the_sampler_reads_at_once_and_then_not_before_the_interval_is_over() -> None:
    card, clock = Card(5, 16), ManualClock()
    sampler = LinkSampler(None, card.device, clock=clock, interval_s=0.5)
    reads = []
    for clock.now_s in (0.0, 0.0, 0.25, 0.499, 0.5, 0.75, 1.0):
        sampler.sample()
        reads.append(card.reads)
    assert reads == [1, 1, 1, 1, 2, 2, 3]


def test_the_interval_is_50_milliseconds_unless_told_otherwise() -> None:
    card, clock = Card(5, 16), ManualClock()
    sampler = LinkSampler(None, card.device, clock=clock)
    reads = []
    for clock.now_s in (0.0, 0.049, 0.05):
        sampler.sample()
        reads.append(card.reads)
    assert reads == [1, 1, 2]


def test_a_sampler_that_read_nothing_has_nothing() -> None:
    sampler = LinkSampler(None, Card(5, 16).device)
    assert sampler.best() == Link()


def test_a_sampler_of_an_integrated_device_has_nothing() -> None:
    card = Card(5, 16)
    sampler = LinkSampler(PCI, card.device, integrated=True)
    sampler.sample()
    assert (sampler.best(), card.reads) == (Link(), 0)


def test_the_sampler_reads_the_sysfs_that_it_was_given(tmp_path: Path) -> None:
    sampler = LinkSampler(PCI, None, sysfs=make_sysfs(tmp_path, "32.0 GT/s PCIe\n", "16\n"))
    sampler.sample()
    assert sampler.best() == Link(5, 16, pytest.approx(GEN5_X16), "sysfs")
