"""What does not fit is refused before anything is allocated, with the numbers."""

import pytest

from cudabw.benchmarks import space
from cudabw.benchmarks.bandwidth_plan import Staging
from cudabw.benchmarks.space import HOST_RESERVE_BYTES, device_bytes, host_bytes, require_space, staging_bytes
from cudabw.benchmarks.transfers import HOST_BUFFERS, SCRATCH_BYTES
from cudabw.driver.emulated import Shape
from cudabw.errors import RefusedError
from cudabw.runtime.memory import DeviceBuffer
from cudabw.system.host_memory import HostMemory
from cudabw.system.numa import NumaNode

MIB = 1 << 20
KINDS = tuple(HOST_BUFFERS)
CGROUP = "cgroup limit 4 GiB"


@pytest.fixture
def host(monkeypatch):
    """Sets how many bytes of host memory there seem to be."""

    def give(available, source=CGROUP):
        monkeypatch.setattr(space, "host_memory", lambda: HostMemory(available, available, source))

    give(1 << 50)
    return give


@pytest.fixture
def roomy(make_device):
    """A device with far more memory than the host seems to have."""
    return make_device(shape=Shape(memory=1 << 40))


def refusal_of(device, kind, nbytes):
    with pytest.raises(RefusedError) as refusal:
        require_space(device, kind, nbytes)
    return refusal.value


@pytest.mark.parametrize("kind", KINDS)
def test_a_trial_on_a_gpu_needs_its_buffer_and_the_scratch_memory_of_the_host(kind):
    assert host_bytes(kind, 100 * MIB, emulated=False) == 100 * MIB + SCRATCH_BYTES


@pytest.mark.parametrize(
    ("kind", "on_device"), [("pinned", 100 * MIB), ("write-combined", 116 * MIB), ("managed", 100 * MIB)]
)
def test_the_memory_of_an_emulated_device_is_the_hosts_as_well(kind, on_device):
    assert device_bytes(kind, 100 * MIB) == on_device
    assert host_bytes(kind, 100 * MIB, emulated=True) == 100 * MIB + SCRATCH_BYTES + on_device


def test_a_local_copy_needs_twice_its_size_on_the_device_and_none_of_the_host():
    assert device_bytes("device", 100 * MIB) == 200 * MIB
    assert host_bytes("device", 100 * MIB, emulated=False) == SCRATCH_BYTES


def test_a_small_write_combined_trial_needs_twice_its_size_on_the_device():
    assert device_bytes("write-combined", 4096) == 8192


@pytest.mark.parametrize("kind", KINDS)
def test_what_just_fits_the_host_is_measured_and_a_byte_less_is_refused(roomy, host, kind):
    needed = host_bytes(kind, 64 * MIB, emulated=True) + HOST_RESERVE_BYTES
    host(needed)
    require_space(roomy, kind, 64 * MIB)
    host(needed - 1)
    with pytest.raises(RefusedError):
        require_space(roomy, kind, 64 * MIB)


def test_the_refusal_of_host_memory_has_the_numbers_and_what_limits_it(roomy, host):
    host(1024 * MIB)
    refusal = refusal_of(roomy, "pinned", 512 * MIB)
    assert refusal.message == "pinned needs 1040 MiB of host memory, and 768 MiB can be used (cgroup limit 4 GiB)"
    assert refusal.hint == "Choose a smaller --size."
    assert refusal.exit_code == 4


def test_the_same_size_fits_where_the_device_has_memory_of_its_own(roomy, host, monkeypatch):
    host(1024 * MIB)
    monkeypatch.setattr(roomy.driver, "emulated", False)
    require_space(roomy, "pinned", 512 * MIB)
    assert refusal_of(roomy, "pinned", 753 * MIB).message == (
        "pinned needs 769 MiB of host memory, and 768 MiB can be used (cgroup limit 4 GiB)"
    )


def test_less_than_the_reserve_is_nothing_that_can_be_used(roomy, host):
    host(100 * MIB, "system memory 1 GiB")
    assert refusal_of(roomy, "pageable", 1).message.endswith(
        " of host memory, and 0 B can be used (system memory 1 GiB)"
    )


def test_an_unknown_amount_of_host_memory_refuses_nothing(roomy, host):
    host(None, None)
    require_space(roomy, "pinned", 1 << 39)


def test_what_a_node_has_no_room_for_is_refused_because_the_system_would_end_the_process(roomy, host):
    host(None, None)
    needed = host_bytes("pinned", 64 * MIB, emulated=True) + HOST_RESERVE_BYTES
    require_space(roomy, "pinned", 64 * MIB, node=NumaNode(1, available_bytes=needed))
    require_space(roomy, "pinned", 64 * MIB, node=NumaNode(1, available_bytes=None))
    with pytest.raises(RefusedError) as raised:
        require_space(roomy, "pinned", 64 * MIB, node=NumaNode(1, available_bytes=needed - 1))
    assert raised.value.message == ("pinned needs 144 MiB of host memory, and 143 MiB can be used (NUMA node 1)")


@pytest.mark.parametrize("kind", ["pageable", "pinned", "mapped", "registered"])
def test_what_just_fits_the_device_is_measured_and_a_byte_more_is_refused(make_device, host, kind):  # noqa: ARG001
    device = make_device(shape=Shape(memory=64 * MIB))
    require_space(device, kind, 64 * MIB)
    with pytest.raises(RefusedError):
        require_space(device, kind, 64 * MIB + 1)
    refusal = refusal_of(device, kind, 65 * MIB)
    assert refusal.message == f"{kind} needs 65 MiB of device memory, and 64 MiB is free on device 0"
    assert refusal.hint == "Choose a smaller --size, or free memory on the device."


def test_memory_that_is_in_use_on_the_device_counts(make_device, host):  # noqa: ARG001
    device = make_device(shape=Shape(memory=64 * MIB))
    with DeviceBuffer(device, 32 * MIB):
        assert refusal_of(device, "pinned", 48 * MIB).message == (
            "pinned needs 48 MiB of device memory, and 32 MiB is free on device 0"
        )
    require_space(device, "pinned", 48 * MIB)


def test_write_combined_memory_needs_room_to_be_read_back(make_device, host):  # noqa: ARG001
    device = make_device(shape=Shape(memory=64 * MIB))
    require_space(device, "write-combined", 48 * MIB)
    assert refusal_of(device, "write-combined", 56 * MIB).message == (
        "write-combined needs 72 MiB of device memory, and 64 MiB is free on device 0"
    )


def test_managed_memory_is_at_most_a_quarter_of_what_is_free(make_device, host):  # noqa: ARG001
    device = make_device(shape=Shape(memory=64 * MIB))
    require_space(device, "managed", 16 * MIB)
    refusal = refusal_of(device, "managed", 17 * MIB)
    assert refusal.message == "managed needs 17 MiB, more than a quarter of the 64 MiB free on device 0"
    assert refusal.hint == "Choose a smaller --size: too much managed memory can hang a device."
    with pytest.raises(RefusedError):
        require_space(device, "managed", 16 * MIB + 1)
    with DeviceBuffer(device, 4 * MIB), pytest.raises(RefusedError):
        require_space(device, "managed", 16 * MIB)


@pytest.mark.parametrize(
    ("nbytes", "staging", "expected"),
    [
        (64 * MIB, None, 0),
        (MIB - 1, Staging(), 0),
        # What calibration copies, and two slots for each thread.
        (MIB, Staging(threads=3, slot=MIB), (256 + 3 * 2) * MIB),
        (4 * MIB, Staging(threads=99, slot=MIB), (256 + 8 * 2) * MIB),
        (4 * MIB, Staging(), (256 + 8 * 2 * 6) * MIB),
    ],
)
def test_a_staged_copy_needs_room_for_slots_and_calibration_besides(monkeypatch, nbytes, staging, expected):
    monkeypatch.setattr(space, "usable_cpus", lambda: 8)
    assert staging_bytes(nbytes, staging) == expected


def test_slots_that_do_not_fit_are_refused_with_the_numbers(roomy, host):
    host(4096 * MIB)
    with pytest.raises(RefusedError) as refusal:
        require_space(roomy, "pageable", 64 * MIB, Staging(threads=1, slot=2048 * MIB))
    assert refusal.value.message == (
        "pageable needs 4496 MiB of host memory, and 3840 MiB can be used (cgroup limit 4 GiB)"
    )


def test_nothing_is_allocated_to_find_out(make_device, host):
    host(1 << 10)
    device = make_device(shape=Shape(memory=64 * MIB))
    machine, names = device.driver.api._machine, []
    enter = machine.enter
    machine.enter = lambda function, needs, nbytes: (names.append(function), enter(function, needs, nbytes))
    for kind in KINDS:
        refusal_of(device, kind, 16 * MIB)
    assert set(names) == {"cuCtxSetCurrent", "cuMemGetInfo"}
