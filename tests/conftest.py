"""The emulated device as tests meet it: through the same Driver and Device as a GPU."""

import errno
import os

import pytest
from hypothesis import settings

from cudabw.driver.calls import Driver
from cudabw.driver.emulated import EmulatedDriver
from cudabw.driver.hints import SystemProbe
from cudabw.driver.loader import LibraryError, LoadedLibrary
from cudabw.runtime.device import Device
from cudabw.runtime.gate import Gate
from cudabw.system.numa import numa_nodes
from cudabw.system.numa_calls import Policy
from cudabw.system.placement import Placement

# How long an example takes is the machine's business and fails no test.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


@pytest.fixture
def make_device():
    """Makes a device of an emulated driver with the given shape, faults and clock; all are closed afterwards."""
    devices = []
    drivers = []

    def make(ordinal=0, driver=None, **emulated):
        if driver is None:
            api = EmulatedDriver(**emulated)
            driver = Driver(api, emulated=True, now=api.now)
            driver.call("cuInit", 0)
            drivers.append(driver)
        devices.append(Device(driver, ordinal))
        return devices[-1]

    yield make
    for device in devices:
        device.close()
    for driver in drivers:
        driver.api.close()


@pytest.fixture
def device(make_device):
    return make_device()


@pytest.fixture
def stream(device):
    with device.stream() as stream:
        yield stream


@pytest.fixture
def gate(device):
    with Gate(device) as gate:
        yield gate


@pytest.fixture
def no_driver(monkeypatch):
    """A machine without any NVIDIA driver."""

    def not_found(_library):
        raise LibraryError("libcuda.so.1: cannot open shared object file: No such file or directory")

    monkeypatch.setattr(LoadedLibrary, "__init__", not_found)
    monkeypatch.setattr(SystemProbe, "driver_installed", lambda _probe: False)
    monkeypatch.setattr(SystemProbe, "find_library", lambda *_: None)


class NumaMachine:
    """A machine with nodes of a test's choice: its files, and system calls that remember what was asked of them.

    Fresh pages lie where the policy says, else on node 0, unless ``pages`` says for each where they are.
    """

    def __init__(self, root):
        self.root = root
        self.refused = {}
        self.pages = None
        self.placed = (Policy(), frozenset(range(8)))
        self.history = []
        self.placement = Placement(self, root=root)

    def write(self, path, text):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def add_node(self, number, cpus, free_kb=1 << 30):
        self.write(f"sys/devices/system/node/node{number}/cpulist", f"{cpus}\n")
        self.write(
            f"sys/devices/system/node/node{number}/meminfo",
            f"Node {number} MemTotal:       {free_kb} kB\nNode {number} MemFree:        {free_kb} kB\n",
        )

    def thread_node(self):
        self._answer("getcpu")
        cpu = min(self.placed[1])
        return next(node.number for node in numa_nodes(root=self.root) if cpu in node.cpus)

    def page_nodes(self, addresses):
        self._answer("move_pages")
        if self.pages is not None:
            return [self.pages(index) for index in range(len(addresses))]
        return [min(self.placed[0].nodes, default=0)] * len(addresses)

    def policy(self):
        self._answer("get_mempolicy")
        return self.placed[0]

    def set_policy(self, policy):
        self._answer("set_mempolicy")
        self._place(policy, self.placed[1])

    def cpus(self):
        return self.placed[1]

    def set_cpus(self, cpus):
        self._answer("sched_setaffinity")
        self._place(self.placed[0], frozenset(cpus))

    def _place(self, *placed):
        self.placed = placed
        self.history.append(placed)

    def _answer(self, call):
        if call in self.refused:
            code = getattr(errno, self.refused[call])
            raise OSError(code, os.strerror(code), call)


@pytest.fixture
def two_nodes(tmp_path):
    """Two nodes with four CPUs and memory each, and a third that has neither."""
    machine = NumaMachine(tmp_path)
    machine.write("sys/devices/system/node/online", "0-2\n")
    machine.write("sys/devices/system/node/has_memory", "0-1\n")
    machine.add_node(0, "0-3")
    machine.add_node(1, "4-7")
    machine.add_node(2, "", free_kb=0)
    return machine


@pytest.fixture
def one_node(tmp_path_factory):
    """A single node with eight CPUs."""
    machine = NumaMachine(tmp_path_factory.mktemp("machine"))
    machine.write("sys/devices/system/node/online", "0\n")
    machine.add_node(0, "0-7")
    return machine
