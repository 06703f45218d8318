"""What every check does, whatever it looks at."""

from dataclasses import replace

import pytest

from cudabw.errors import Interrupted
from cudabw.system.checks.check import Check, attention, each_gpu, ok
from cudabw.system.checks.machine import Gpu
from cudabw.system.link import LinkReader

NOTHING = LinkReader(None)


def failing(*_):
    raise OSError("no such thing")


def test_a_look_that_raises_is_unknown_with_the_reason_after_what_it_saw(make_machine):
    def look(_machine):
        yield ok("fine so far")
        raise OSError("no such thing")

    findings = Check("some", "It matters.", look).run(make_machine())
    assert [(finding.verdict, finding.seen) for finding in findings] == [
        ("ok", "fine so far"),
        ("unknown", "the look failed with OSError: no such thing"),
    ]


def test_an_interruption_is_not_held_for_a_failure(make_machine):
    def look(_machine):
        raise Interrupted(2)

    with pytest.raises(Interrupted):
        Check("some", "It matters.", look).run(make_machine())


def test_a_gpu_that_cannot_be_looked_at_hides_nothing_of_the_others(make_machine):
    def look(_machine, gpu):
        return attention("hot", "cool it") if gpu.ordinal else failing()

    first, second = Check("heat", "It matters.", each_gpu(look)).run(make_machine(gpus=2))
    assert (first.device, first.verdict) == (0, "unknown")
    assert (second.device, second.verdict, second.seen, second.fix) == (1, "attention", "hot", "cool it")


def test_a_gpu_that_cuda_does_not_show_is_named_by_its_address(make_machine):
    machine = replace(make_machine(), gpus=(Gpu(None, "NVIDIA H200", "0000:17:00.0", None, NOTHING),))
    (finding,) = Check("heat", "It matters.", each_gpu(lambda *_: ok("cool"))).run(machine)
    assert (finding.device, finding.seen) == (None, "0000:17:00.0: cool")


def test_without_a_gpu_nothing_is_known_of_one(make_machine):
    (finding,) = Check("heat", "It matters.", each_gpu(failing)).run(make_machine(gpus=0))
    assert (finding.verdict, finding.seen) == ("unknown", "no GPU to look at")


def test_of_an_emulated_device_no_hardware_is_looked_at(make_machine):
    machine = make_machine(emulated=True)
    (finding,) = Check("heat", "It matters.", failing, hardware=True).run(machine)
    assert (finding.verdict, finding.seen) == ("unknown", "not looked at: the device is emulated")
    (finding,) = Check("host", "It matters.", lambda _: [ok("seen")]).run(machine)
    assert finding.verdict == "ok"
