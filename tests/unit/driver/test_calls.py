import functools
import weakref
from types import SimpleNamespace

import pytest
from cuda.bindings.driver import CUresult

from cudabw.driver.calls import Driver, format_version
from cudabw.driver.hints import hint_for
from cudabw.errors import DriverError, NoDriverError, UnsupportedError


class FunctionNotFoundError(RuntimeError):
    """Named and derived as the private class of the bindings is."""


class DynamicLibNotFoundError(RuntimeError):
    """Named and derived as the class of cuda-pathfinder is."""


def driver_with(**functions):
    return Driver(SimpleNamespace(CUresult=CUresult, **functions), emulated=True)


def returning(*values):
    return lambda *_args: values


def raising(error):
    def function(*_args):
        raise error

    return function


def test_the_status_is_taken_off_and_the_values_are_returned():
    ok = CUresult.CUDA_SUCCESS
    driver = driver_with(cuNone=returning(ok), cuOne=returning(ok, 7), cuTwo=returning(ok, 7, 8))
    assert driver.call("cuNone") is None
    assert driver.call("cuOne") == 7
    assert driver.call("cuTwo") == (7, 8)


def test_arguments_reach_the_function_in_order():
    driver = driver_with(cuEcho=lambda *args: (CUresult.CUDA_SUCCESS, args))
    assert driver.call("cuEcho", 1, "two") == (1, "two")


def test_a_failure_status_becomes_an_error_with_code_name_function_and_hint():
    driver = driver_with(cuMemHostAlloc=returning(CUresult.CUDA_ERROR_OUT_OF_MEMORY, None))
    with pytest.raises(DriverError) as caught:
        driver.call("cuMemHostAlloc", 1, 0)
    error = caught.value
    assert str(error) == "cuMemHostAlloc failed with CUDA_ERROR_OUT_OF_MEMORY (2)"
    assert (error.function, error.code, error.name) == ("cuMemHostAlloc", 2, "CUDA_ERROR_OUT_OF_MEMORY")
    assert error.hint == hint_for(2, "cuMemHostAlloc")


def test_a_status_unknown_to_the_bindings_keeps_its_number():
    def unknown():
        return (CUresult(9999),)

    with pytest.raises(DriverError) as caught:
        driver_with(cuNew=unknown).call("cuNew")
    assert (caught.value.code, caught.value.name) == (9999, "CUresult 9999")
    assert str(caught.value) == "cuNew failed with CUresult 9999 (9999)"


def test_an_expected_failure_status_can_be_asked_for():
    driver = driver_with(
        cuEventQuery=returning(CUresult.CUDA_ERROR_NOT_READY), cuOne=returning(CUresult.CUDA_SUCCESS, 7)
    )
    assert driver.attempt("cuEventQuery") == (600, None)
    assert driver.attempt("cuOne") == (0, 7)


def test_a_function_missing_from_the_bindings_is_unsupported():
    driver = driver_with()
    with pytest.raises(UnsupportedError) as caught:
        driver.call("cuFromTheFuture")
    assert str(caught.value) == f"cuFromTheFuture does not exist in cuda-bindings {driver.bindings_version()}"
    assert not driver.has("cuFromTheFuture")


@pytest.mark.parametrize(
    "error",
    [
        FunctionNotFoundError("function cuMemAdvise_v2 is not found"),
        FunctionNotFoundError("said in other words"),
        RuntimeError('Function "cuMemAdvise_v2" not found'),  # cuda-bindings 12.9.0 and 13.0.0
    ],
)
def test_a_function_missing_from_the_driver_is_unsupported_and_names_the_drivers_version(error):
    driver = driver_with(cuMemAdvise=raising(error), cuDriverGetVersion=returning(CUresult.CUDA_SUCCESS, 12020))
    driver.version()
    with pytest.raises(UnsupportedError) as caught:
        driver.call("cuMemAdvise")
    assert str(caught.value) == "cuMemAdvise does not exist in the installed driver; the driver supports CUDA 12.2"
    assert driver.has("cuMemAdvise")


def test_the_status_not_supported_is_unsupported_and_names_the_drivers_version():
    driver = driver_with(
        cuMemHostAlloc=returning(CUresult.CUDA_ERROR_NOT_SUPPORTED, None),
        cuDriverGetVersion=returning(CUresult.CUDA_SUCCESS, 13000),
    )
    driver.version()
    with pytest.raises(UnsupportedError) as caught:
        driver.call("cuMemHostAlloc", 1, 0)
    assert str(caught.value) == (
        "cuMemHostAlloc is not supported here (CUDA_ERROR_NOT_SUPPORTED, 801); the driver supports CUDA 13.0"
    )
    assert caught.value.hint == hint_for(801, "cuMemHostAlloc")


@pytest.mark.parametrize(
    "error",
    [
        DynamicLibNotFoundError('"cuda" is an NVIDIA driver library'),
        RuntimeError("Failed to open cuda"),
        RuntimeError("Failed to dlopen libcuda.so.1"),
        RuntimeError("Failed to get cuGetProcAddress_v2"),
    ],
)
def test_a_library_that_is_missing_at_the_first_call_is_no_driver(error):
    with pytest.raises(NoDriverError, match=str(error)):
        driver_with(cuInit=raising(error)).call("cuInit", 0)


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("List is too small: 1 < 2"),
        ValueError("5 is not a valid CUmemLocationType"),
        TypeError("an integer is required"),
        AttributeError("function"),
    ],
)
def test_a_genuine_error_passes_through_unchanged(error):
    with pytest.raises(type(error)) as caught:
        driver_with(cuOne=raising(error)).call("cuOne")
    assert caught.value is error


def test_check_lets_success_pass_and_raises_for_enums_and_numbers():
    driver = driver_with()
    driver.check("cuOne", 0)
    driver.check("cuOne", CUresult.CUDA_SUCCESS)
    for status in (700, CUresult.CUDA_ERROR_ILLEGAL_ADDRESS):
        with pytest.raises(DriverError, match=r"cuOne failed with CUDA_ERROR_ILLEGAL_ADDRESS \(700\)"):
            driver.check("cuOne", status)
    with pytest.raises(UnsupportedError):
        driver.check("cuOne", 801)
    with pytest.raises(DriverError, match="CUresult 9999"):
        driver.check("cuOne", 9999)


def test_describing_a_failure_calls_nothing_but_the_function_that_failed():
    called = []

    class Recording:
        CUresult = CUresult

        def __getattr__(self, name):
            called.append(name)
            return returning(CUresult.CUDA_ERROR_UNKNOWN, None)

    driver = Driver(Recording(), emulated=False)
    with pytest.raises(DriverError) as caught:
        driver.call("cuStreamSynchronize", 0)
    assert "CUDA_ERROR_UNKNOWN" in str(caught.value)
    assert called == ["cuStreamSynchronize"]


def test_the_version_is_asked_for_once():
    answers = iter([(CUresult.CUDA_SUCCESS, 12090)])
    driver = driver_with(cuDriverGetVersion=lambda: next(answers))
    assert [driver.version(), driver.version()] == [12090, 12090]


def test_the_major_version_of_the_bindings_is_that_of_the_installed_package():
    import cuda.bindings

    driver = driver_with()
    assert driver.bindings_version() == cuda.bindings.__version__
    assert str(driver.bindings_major()) == cuda.bindings.__version__.split(".")[0]


@pytest.mark.parametrize(("version", "text"), [(9020, "9.2"), (12090, "12.9"), (13000, "13.0"), (13110, "13.11")])
def test_a_version_is_written_as_nvidia_writes_it(version, text):
    assert format_version(version) == text


@pytest.mark.parametrize("status", [0, 1, 700])
def test_a_bound_launch_passes_what_was_bound_and_returns_the_status_as_a_number(status):
    given = []
    driver = driver_with(cuLaunchKernelEx=lambda *args: (given.append(args), (CUresult(status),))[1])
    launch = driver.bind_launch("config", "function", 0x1000)
    assert given == []
    assert [launch(), launch()] == [status, status]
    assert type(launch()) is int
    assert given == [("config", "function", 0x1000, 0)] * 3


def test_a_bound_launch_returns_also_a_status_that_the_bindings_do_not_know():
    assert driver_with(cuLaunchKernelEx=lambda *_: (CUresult(9999),)).bind_launch(None, None, 0)() == 9999
    with pytest.raises(ValueError, match="something else"):
        driver_with(cuLaunchKernelEx=raising(ValueError("something else"))).bind_launch(None, None, 0)()


def test_a_launch_is_bound_to_the_library_where_that_can_be_called():
    class Config:
        def getPtr(self):  # noqa: N802 - as the bindings name it
            return 0x10

    given, config = [], Config()

    def bind(*addresses):
        return functools.partial(lambda: given.append(addresses) or 7)

    driver = Driver(SimpleNamespace(CUresult=CUresult), emulated=False, bind_launch=bind)
    kept = weakref.ref(config)
    launch = driver.bind_launch(config, 0x20, 0x30)
    del config
    assert launch() == 7
    assert given == [(0x10, 0x20, 0x30)]
    assert kept() is not None
