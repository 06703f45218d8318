import sys
import threading
from functools import partial
from types import ModuleType, SimpleNamespace

import pytest
from cuda.bindings.driver import CUresult

from cudabw.driver import loader
from cudabw.driver.hints import SystemProbe, hint_for, startup_hint
from cudabw.driver.loader import Backend, LibraryError, Start, load_driver, require_bindings, watch
from cudabw.errors import ConfigurationError, Interrupted, NoDriverError

NOT_FOUND = "libcuda.so.1: cannot open shared object file: No such file or directory"
FALLBACK = (
    "No NVIDIA driver is installed: using the emulated device, whose figures are those of host memory and not of a GPU."
)


class FakeLibrary:
    def __init__(self, *, init=0, version=13000, version_status=0):
        self._init, self._version = init, (version_status, version)

    def launch_binder(self):
        return None

    def address_of(self, _function):
        return None

    def init(self):
        return self._init

    def version(self):
        return self._version


def api_with(*, init=0, count=1, count_status=0, version=13000, **functions):
    return SimpleNamespace(
        CUresult=CUresult,
        cuInit=lambda _flags: (CUresult(init),),
        cuDriverGetVersion=lambda: (CUresult.CUDA_SUCCESS, version),
        cuDeviceGetCount=lambda: (CUresult(count_status), count),
        now=lambda: 12.5,
        **functions,
    )


def must_not_be_called():
    pytest.fail("this must not be touched")


def failing(message):
    def open_library():
        raise LibraryError(message)

    return open_library


def ignore(_text):
    pass


@pytest.fixture
def probe(tmp_path):
    return SystemProbe(tmp_path)


@pytest.fixture
def emulated(monkeypatch):
    """Puts a stand-in for the emulated device in place, which hands out the given api."""

    def use(api):
        module = ModuleType("cudabw.driver.emulated")
        module.seen = []
        module.from_environment = lambda environ: module.seen.append(environ) or api
        monkeypatch.setitem(sys.modules, "cudabw.driver.emulated", module)
        return module

    return use


def place(probe, path, text=""):
    target = probe.root / path.lstrip("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)


def loaded_from(probe, path):
    place(probe, "/proc/self/maps", f"7f00-7f01 r-xp 00000000 08:01 42    {path}\n")


def start_of(probe, *, library=None, api=None, environ=None):
    return Start(
        {} if environ is None else environ,
        probe,
        open_library=(lambda: library) if library else must_not_be_called,
        import_bindings=(lambda: api) if api else must_not_be_called,
    )


def refusal(start, backend=Backend.AUTO):
    with pytest.raises(NoDriverError) as caught:
        start.run(backend, ignore)
    return caught.value


# Which device


@pytest.mark.parametrize("backend", [Backend.AUTO, Backend.CUDA])
def test_a_driver_that_starts_is_used(probe, backend):
    loaded_from(probe, "/usr/lib/libcuda.so.580.95.05")
    api = api_with()
    start = start_of(probe, library=FakeLibrary(), api=api, environ={"CUDABW_EMULATED": "{}"})
    driver = start.run(backend, ignore)
    assert driver.api is api
    assert (driver.emulated, driver.path, start.notices) == (False, "/usr/lib/libcuda.so.580.95.05", [])


def test_the_emulated_backend_never_touches_libcuda(probe, emulated):
    api = api_with()
    environ = {"CUDABW_EMULATED": "devices=2"}
    module = emulated(api)
    driver = start_of(probe, environ=environ).run(Backend.EMULATED, ignore)
    assert (driver.api, driver.emulated, driver.now()) == (api, True, 12.5)
    assert module.seen == [environ]


def test_auto_falls_back_where_no_driver_is_installed_and_says_so(probe, emulated):
    emulated(api_with())
    start = Start({}, probe, open_library=failing(NOT_FOUND))
    assert start.run(Backend.AUTO, ignore).emulated
    assert start.notices == [FALLBACK]


def test_cuda_does_not_fall_back(probe):
    error = refusal(Start({}, probe, open_library=failing(NOT_FOUND)), Backend.CUDA)
    assert str(error) == "No NVIDIA driver is installed: the loader finds no libcuda.so.1"
    assert "--backend emulated" in error.hint
    assert error.exit_code == 5


@pytest.mark.parametrize("trace", ["/dev/nvidiactl", "/proc/driver/nvidia/version", "/dev/dxg"])
def test_auto_does_not_fall_back_where_a_kernel_driver_is_present(probe, trace):
    place(probe, trace)
    error = refusal(Start({}, probe, open_library=failing(NOT_FOUND)))
    assert str(error) == "An NVIDIA kernel driver is present, but the loader finds no libcuda.so.1"


def test_auto_does_not_fall_back_from_a_library_that_cannot_be_loaded(probe):
    error = refusal(Start({}, probe, open_library=failing("/opt/x/libcuda.so.1: file too short")))
    assert str(error) == "The CUDA driver library was found at /opt/x/libcuda.so.1 but not loadable: file too short"


def test_a_library_whose_own_dependency_is_missing_is_named_by_its_path(probe):
    place(probe, "/opt/y/libcuda.so.1")
    message = "libnvidia-x.so.1: cannot open shared object file: No such file or directory"
    start = Start({"LD_LIBRARY_PATH": "/opt/x:/opt/y"}, probe, open_library=failing(message))
    assert str(refusal(start)) == (
        f"The CUDA driver library was found at /opt/y/libcuda.so.1 but not loadable: {message}"
    )


@pytest.mark.parametrize("backend", list(Backend))
@pytest.mark.parametrize("code", [100, 101, 3, 46, 304, 801, 802, 803, 804, 805, 999])
def test_no_backend_falls_back_from_a_driver_that_does_not_start(probe, emulated, backend, code):
    emulated(api_with(init=code))
    environ = {"CUDA_VISIBLE_DEVICES": "3"}
    error = refusal(start_of(probe, library=FakeLibrary(init=code), api=api_with(), environ=environ), backend)
    assert str(error) == f"The CUDA driver did not start: cuInit failed with {CUresult(code).name} ({code})"
    assert error.hint == startup_hint(code, environ, probe)


def test_a_status_the_bindings_do_not_know_is_given_by_its_number(probe):
    error = refusal(start_of(probe, library=FakeLibrary(init=9999), api=api_with()))
    assert str(error) == "The CUDA driver did not start: cuInit failed with CUresult 9999 (9999)"


@pytest.mark.parametrize("backend", list(Backend))
def test_a_driver_without_devices_is_refused_with_the_variable_quoted(probe, emulated, backend):
    emulated(api_with(count=0))
    environ = {"CUDA_VISIBLE_DEVICES": " 9"}
    error = refusal(start_of(probe, library=FakeLibrary(), api=api_with(count=0), environ=environ), backend)
    assert str(error) == "The CUDA driver shows no device"
    assert 'CUDA_VISIBLE_DEVICES=" 9"' in error.hint


def test_counting_devices_may_fail_as_well(probe):
    error = refusal(start_of(probe, library=FakeLibrary(), api=api_with(count_status=100, count=None)))
    assert str(error) == "The CUDA driver did not start: cuDeviceGetCount failed with CUDA_ERROR_NO_DEVICE (100)"


def test_a_configuration_that_cannot_be_meant_stays_a_usage_error(probe, monkeypatch, emulated):
    module = emulated(api_with())

    def refuse(_environ):
        raise ConfigurationError("CUDABW_EMULATED: what?")

    monkeypatch.setattr(module, "from_environment", refuse)
    with pytest.raises(ConfigurationError, match="what"):
        start_of(probe).run(Backend.EMULATED, ignore)


# Stubs and old drivers


@pytest.mark.parametrize(
    ("library", "path"),
    [
        (FakeLibrary(version_status=34), "/usr/lib/libcuda.so"),
        (FakeLibrary(init=34), "/usr/lib/libcuda.so"),
        (FakeLibrary(), "/usr/local/cuda/lib64/stubs/libcuda.so"),
    ],
)
def test_a_stub_is_named_by_the_path_it_was_loaded_from(probe, library, path):
    loaded_from(probe, path)
    error = refusal(start_of(probe, library=library, api=api_with()))
    assert str(error) == f"No CUDA driver: a stub library was loaded from {path}"
    assert error.hint == hint_for(34, "cuInit")


def test_a_driver_older_than_the_bindings_need_is_too_old(probe):
    error = refusal(start_of(probe, library=FakeLibrary(version=11080), api=api_with(version=11080)))
    assert str(error).startswith("The NVIDIA driver is too old: it supports CUDA 11.8; cuda-bindings ")
    assert str(error).endswith(" needs one for CUDA 12.0 or later")


def test_the_oldest_driver_that_the_bindings_need_is_used(probe):
    assert start_of(probe, library=FakeLibrary(version=12000), api=api_with()).run(Backend.CUDA, ignore)


def lookup_fails():
    raise RuntimeError("Failed to get cuGetProcAddress_v2")


def test_a_driver_without_the_entry_point_lookup_is_too_old(probe):
    api = api_with()
    api.cuDriverGetVersion = lookup_fails
    error = refusal(start_of(probe, library=FakeLibrary(), api=api))
    assert str(error).startswith("The NVIDIA driver is too old: ")
    assert "Failed to get cuGetProcAddress_v2" in str(error)


def test_a_driver_that_does_not_start_is_not_called_old_for_its_failing_lookup(probe):
    api = api_with()
    api.cuDriverGetVersion = lookup_fails
    assert "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH" in str(refusal(start_of(probe, library=FakeLibrary(init=803), api=api)))


# Fewer devices than named


@pytest.mark.parametrize(
    ("value", "named"),
    [("0,1", 2), ("0,GPU-8932f937,MIG-3", 3), (" 0, 1,", 2), ("0,1,-1,2", 2)],
)
def test_fewer_devices_than_named_are_warned_about(probe, value, named):
    start = start_of(probe, library=FakeLibrary(), api=api_with(count=1), environ={"CUDA_VISIBLE_DEVICES": value})
    start.run(Backend.CUDA, ignore)
    warning = f'CUDA_VISIBLE_DEVICES="{value}" names {named} devices, but the driver shows 1'
    assert start.notices == [f"{warning}: it ends the list at the first entry it does not know."]


@pytest.mark.parametrize("environ", [{}, {"CUDA_VISIBLE_DEVICES": "5"}, {"CUDA_VISIBLE_DEVICES": "0,-1,1"}])
def test_as_many_devices_as_named_are_no_reason_to_warn(probe, environ):
    start = start_of(probe, library=FakeLibrary(), api=api_with(count=1), environ=environ)
    start.run(Backend.CUDA, ignore)
    assert start.notices == []


def test_the_emulated_device_does_not_go_by_the_visible_devices(probe, emulated):
    emulated(api_with(count=1))
    start = start_of(probe, environ={"CUDA_VISIBLE_DEVICES": "0,1"})
    start.run(Backend.EMULATED, ignore)
    assert start.notices == []


# The package cuda


@pytest.fixture
def without_cuda(monkeypatch):
    """No module named cuda imported, and none on the path but what a test puts there."""
    for name in [name for name in sys.modules if name.split(".")[0] == "cuda"]:
        monkeypatch.delitem(sys.modules, name)

    def use(*path):
        monkeypatch.setattr(sys, "path", [str(entry) for entry in path])

    return use


def test_the_real_package_is_accepted():
    require_bindings()


@pytest.mark.parametrize("name", ["cuda.py", "cuda/__init__.py", "cuda/bindings.py"])
def test_a_module_in_the_way_is_named_and_not_executed(tmp_path, without_cuda, name):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("raise SystemExit('executed')")
    without_cuda(tmp_path, *sys.path)
    with pytest.raises(NoDriverError) as caught:
        require_bindings()
    assert str(caught.value) == f"{path} stands in the way of NVIDIA's package of the same name"


def test_bindings_that_are_not_installed_are_said_to_be_missing(tmp_path, without_cuda):
    without_cuda(tmp_path)
    with pytest.raises(NoDriverError, match="cuda-bindings is not installed"):
        require_bindings()


# The watchdog


def test_what_the_work_returns_is_returned_and_what_it_raises_is_raised():
    assert watch(lambda _step: 7, notify=ignore, check_interrupt=lambda: None) == 7
    error = NoDriverError("none")

    def work(_step):
        raise error

    with pytest.raises(NoDriverError) as caught:
        watch(work, notify=ignore, check_interrupt=lambda: None)
    assert caught.value is error


def test_the_work_runs_in_a_daemon_thread_so_that_a_hang_does_not_keep_the_process():
    thread = watch(lambda _step: threading.current_thread(), notify=ignore, check_interrupt=lambda: None)
    assert thread is not threading.current_thread()
    assert thread.daemon


def test_an_interrupt_ends_the_wait_for_work_that_never_returns():
    release = threading.Event()

    def interrupt():
        raise Interrupted(2)

    with pytest.raises(Interrupted):
        watch(lambda _step: release.wait(), notify=ignore, check_interrupt=interrupt)
    release.set()


def test_a_hanging_step_is_named_after_three_seconds_and_then_every_ten():
    release, begun = threading.Event(), threading.Event()
    time, notices = [0.0], []

    def work(step):
        time[0] = 2.0
        step("cuInit")
        begun.set()
        release.wait()

    def pass_time():
        assert begun.wait(60)
        time[0] += 1.0
        if time[0] >= 26.0:
            release.set()

    watch(work, notify=notices.append, check_interrupt=pass_time, clock=lambda: time[0])
    assert notices[:3] == [
        "Starting the driver: cuInit has not returned for 3 s; still waiting.",
        "Starting the driver: cuInit has not returned for 13 s; still waiting.",
        "Starting the driver: cuInit has not returned for 23 s; still waiting.",
    ]


def test_a_quick_start_says_nothing_but_what_the_driver_has_to_say(probe, emulated):
    emulated(api_with())
    notices = []
    assert load_driver(Backend.EMULATED, notify=notices.append, environ={}, probe=probe).emulated
    assert notices == []


def test_notices_are_given_on_the_calling_thread(probe, emulated, monkeypatch):
    emulated(api_with())
    monkeypatch.setattr(loader, "Start", partial(Start, open_library=failing(NOT_FOUND)))
    notices = []
    load_driver(
        Backend.AUTO,
        notify=lambda text: notices.append((text, threading.current_thread())),
        environ={},
        probe=probe,
    )
    assert notices == [(FALLBACK, threading.current_thread())]
