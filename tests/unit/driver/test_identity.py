"""Who a device is."""

from cudabw.driver.identity import identify


def test_a_device_is_who_the_driver_says(device):
    identity = identify(device.driver, 0)
    assert (identity.ordinal, identity.name, identity.pci) == (0, "Emulated CUDA device", "0000:01:00.0")
    assert (identity.integrated, identity.coherent) == (False, False)


def answering(monkeypatch, driver, wanted, answer):
    """Makes a driver answer for one attribute as told."""
    real = driver.api.cuDeviceGetAttribute
    key = getattr(driver.api.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{wanted}")
    monkeypatch.setattr(
        driver.api,
        "cuDeviceGetAttribute",
        lambda attrib, dev: answer(driver.api.CUresult) if attrib == key else real(attrib, dev),
    )


def test_a_device_that_uses_the_hosts_page_tables_is_coherent(device, monkeypatch):
    name = "PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES"
    answering(monkeypatch, device.driver, name, lambda status: (status.CUDA_SUCCESS, 1))
    assert identify(device.driver, 0).coherent is True


def test_a_driver_that_does_not_know_the_attribute_has_no_such_device(device, monkeypatch):
    name = "PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES"
    answering(monkeypatch, device.driver, name, lambda status: (status.CUDA_ERROR_INVALID_VALUE, None))
    assert identify(device.driver, 0).coherent is False


def test_a_device_that_shares_the_hosts_memory_is_integrated(device, monkeypatch):
    answering(monkeypatch, device.driver, "INTEGRATED", lambda status: (status.CUDA_SUCCESS, 1))
    assert identify(device.driver, 0).integrated is True
