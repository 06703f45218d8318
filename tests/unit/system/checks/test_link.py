"""The link of each GPU: never judged at rest."""

import pytest

from cudabw.errors import CudabwError, DriverError, Interrupted
from cudabw.results.model import Hop, Link
from cudabw.system.checks.link import LINK
from cudabw.system.link import LinkReader

PCI = "0000:17:00.0"
DRIVER = object()
BETTER_SLOT = "Move the card to a slot whose way to the processor is as good as the card; lspci -tv shows the ways."
GEN5 = {"max_pcie_link_generation": 5, "max_pcie_link_width": 16}


def under_load(link):
    def read(driver, ordinal, reader):
        assert (driver, ordinal, reader.pci) == (DRIVER, 0, PCI)
        if isinstance(link, Exception):
            raise link
        return link

    return {"driver": DRIVER, "link_under_load": read}


def test_a_link_at_its_best_is_well(look):
    found = look(LINK, nvml=GEN5, **under_load(Link(5, 16, 63e9, "nvml")))
    assert found == [("ok", "PCIe Gen5 x16 under load (nvml)", "")]


@pytest.mark.parametrize("link", [Link(5, 8, None, "nvml"), Link(3, 16, None, "nvml")])
def test_a_link_that_trained_below_what_slot_and_card_can_do_is_wrong(look, link):
    ((verdict, seen, fix),) = look(LINK, nvml=GEN5, **under_load(link))
    assert (verdict, fix) == ("wrong", f"lspci -vv -s {PCI}")
    assert seen.startswith(f"The PCIe link of {PCI} ran at Gen{link.generation} x{link.width} under load, below the ")


def test_a_slot_that_offers_less_than_the_card_can_do_is_worth_knowing(look):
    nvml = {"max_pcie_link_generation": 4, "max_pcie_link_width": 16, "gpu_max_pcie_link_generation": 5}
    ((verdict, seen, fix),) = look(LINK, nvml=nvml, **under_load(Link(4, 16, None, "nvml")))
    assert (verdict, fix) == ("attention", BETTER_SLOT)
    assert seen.endswith(": this slot or processor offers Gen4 at most.")


def test_a_narrower_bridge_is_named(look):
    link = Link(5, 16, 15.8e9, "nvml", Hop("0000:00:01.0", 4, 8))
    ((verdict, seen, fix),) = look(LINK, nvml=GEN5, **under_load(link))
    assert verdict == "attention"
    assert seen == "PCIe Gen5 x16 under load, but the bridge 0000:00:01.0 above it has Gen4 x8"
    assert fix == BETTER_SLOT


@pytest.mark.parametrize(
    ("settings", "why_not"),
    [
        ({}, "no driver to copy with"),
        (under_load(DriverError("cuCtx", 46, "CUDA_ERROR_X")), "the copy failed: cuCtx failed with CUDA_ERROR_X (46)"),
    ],
)
def test_an_idle_link_is_never_called_wrong(look, settings, why_not):
    idle = {"curr_pcie_link_generation": 1, "curr_pcie_link_width": 4}
    found = look(LINK, nvml=GEN5 | idle, **settings)
    seen = f"PCIe Gen1 x4 at rest, which tells nothing of the link under load ({why_not})"
    assert found == [("unknown", seen, "")]


def test_a_link_that_nothing_tells_is_unknown(look):
    assert look(LINK, **under_load(Link())) == [("unknown", "neither NVML nor sysfs tells the link", "")]
    found = look(LINK, **under_load(CudabwError("lost")))
    assert found == [("unknown", "neither NVML nor sysfs tells the link (the copy failed: lost)", "")]


@pytest.mark.parametrize("instead", ["integrated", "nvlink-c2c", "coherent"])
def test_a_device_without_pcie_needs_no_copy(look, instead):
    found = look(LINK, link=LinkReader(PCI, instead=instead), **under_load(CudabwError("must not run")))
    assert found == [("ok", f"no PCIe link between host and device ({instead})", "")]


def test_a_signal_during_the_copy_ends_the_look(look):
    with pytest.raises(Interrupted):
        look(LINK, **under_load(Interrupted(2)))
