import json

import pytest
from cuda.bindings import driver as cuda

from cudabw.driver.emulated import VARIABLE, EmulatedDriver, from_environment
from cudabw.errors import ConfigurationError


def described(settings):
    return from_environment({"CUDABW_EMULATED": settings if isinstance(settings, str) else json.dumps(settings)})


def status(api, name, *arguments):
    return int(getattr(api, name)(*arguments)[0])


def test_the_variable_has_this_name():
    assert VARIABLE == "CUDABW_EMULATED"


@pytest.mark.parametrize("environ", [{}, {"CUDABW_EMULATED": ""}, {"CUDABW_EMULATED": "{}"}])
def test_without_it_there_is_one_device(environ):
    api = from_environment(environ)
    assert isinstance(api, EmulatedDriver)
    assert api.emulated
    api.cuInit(0)
    assert api.cuDeviceGetCount()[1] == 1
    assert api.cuDeviceTotalMem(0)[1] == 2 << 30


@pytest.mark.parametrize("memory", ["8GiB", 8 << 30])
def test_the_shape_is_read(memory):
    api = described({"devices": 2, "memory": memory, "peer_access": True})
    api.cuInit(0)
    assert api.cuDeviceGetCount()[1] == 2
    assert api.cuDeviceTotalMem(1)[1] == 8 << 30
    assert api.cuDeviceCanAccessPeer(0, 1)[1] == 1


def test_faults_are_read():
    api = described(
        {
            "faults": [
                {"function": "cuMemHostAlloc", "status": 2, "nth": 2, "at_least_bytes": 1 << 20},
                {"copy": "drop", "nth": 1, "direction": "h2d"},
                {"function": "cuDriverGetVersion", "lose_device": True, "status": 46},
                {"function": "cuMemFree", "delay_s": 0},
            ]
        }
    )
    api.cuInit(0)
    api.cuCtxSetCurrent(api.cuDevicePrimaryCtxRetain(0)[1])
    assert [status(api, "cuMemHostAlloc", 1 << 20, 0) for _ in range(3)] == [0, 2, 0]
    assert status(api, "cuDriverGetVersion") == 46
    api.close()


def test_the_clock_is_read():
    api = described({"clock": {"h2d": 1e9, "h2d/pageable": 1000000, "submit_s": 0.5, "seed": 3}})
    api.cuInit(0)
    api.cuCtxSetCurrent(api.cuDevicePrimaryCtxRetain(0)[1])
    address = api.cuMemAlloc(1000)[1]
    assert api.cuMemcpyHtoD(address, bytes(1000), 1000) == (cuda.CUresult.CUDA_SUCCESS,)
    assert api.now() == 0.501
    api.close()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("nonsense", "CUDABW_EMULATED: is not JSON: Expecting value: line 1 column 1 (char 0)"),
        ("[1]", "CUDABW_EMULATED: the value must be an object, not [1]"),
        ('{"devices": 1, "devices": 2}', "CUDABW_EMULATED: is not JSON: a key is given twice"),
        ('{"clock": {"h2d": NaN}}', "CUDABW_EMULATED: is not JSON: NaN is not a number"),
        (
            {"device": 1},
            (
                "CUDABW_EMULATED: the value has an unknown key 'device'; "
                "allowed are devices, memory, peer_access, faults, clock"
            ),
        ),
        ({"devices": "2"}, 'CUDABW_EMULATED: devices must be a whole number, not "2"'),
        ({"devices": True}, "CUDABW_EMULATED: devices must be a whole number, not true"),
        ({"devices": 99}, "CUDABW_EMULATED: the value: devices must be 0 to 64, not 99"),
        ({"peer_access": 1}, "CUDABW_EMULATED: peer_access must be true or false, not 1"),
        (
            {"memory": 1.5},
            'CUDABW_EMULATED: memory must be a number of bytes or a size such as "8GiB", not 1.5',
        ),
        ({"faults": {}}, "CUDABW_EMULATED: faults must be a list, not {}"),
        (
            {"faults": [{"copy": "drop"}, {"functions": "cuInit"}]},
            (
                "CUDABW_EMULATED: faults[1] has an unknown key 'functions'; allowed are function, status, copy, "
                "delay_s, hang, lose_device, throttle, nth, at_least_bytes, direction"
            ),
        ),
        (
            {"faults": [{"function": "cuInit", "status": "2"}]},
            'CUDABW_EMULATED: faults[0].status must be a whole number, not "2"',
        ),
        (
            {"faults": [{"function": "cuInit"}]},
            (
                "CUDABW_EMULATED: faults[0]: a fault has exactly one of status, copy, delay_s, hang, lose_device and "
                "throttle"
            ),
        ),
        (
            {"faults": [{"function": "cuMemAllocPitch", "status": 1}]},
            "CUDABW_EMULATED: the value: cuMemAllocPitch is not emulated, so it cannot fail",
        ),
        ({"clock": {"h2d": "fast"}}, 'CUDABW_EMULATED: clock.h2d must be a number, not "fast"'),
        ({"clock": {"h2d": -1}}, "CUDABW_EMULATED: clock: rate 'h2d' must be above zero, not -1"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_name(settings, message):
    with pytest.raises(ConfigurationError) as refused:
        described(settings)
    assert str(refused.value) == message
    assert refused.value.exit_code == 2
    assert refused.value.hint


@pytest.mark.parametrize("size", ["8 GiB", "-1", "", "8XB"])
def test_a_size_that_is_none_is_refused(size):
    with pytest.raises(ConfigurationError, match="CUDABW_EMULATED: memory: "):
        described({"memory": size})


def test_an_unknown_rate_names_the_known_ones():
    with pytest.raises(ConfigurationError, match=r"clock: unknown rate 'up'.*h2d, d2h, d2d, p2p, h2h, memset"):
        described({"clock": {"up": 1}})
