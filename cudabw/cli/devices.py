"""``cudabw devices``."""

from __future__ import annotations

from functools import partial

import click

from cudabw.cli.parameters import backend_option


@click.command(short_help="The devices of this machine, their links and versions.")
@backend_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(*, backend: str | None, as_json: bool) -> int:
    """List every device that the driver shows, by the number that --device takes.

    Where no NVIDIA driver is installed, that is the emulated device. Nothing is run or allocated on any device.
    """
    from cudabw.cli.main import notify, show_error
    from cudabw.cli.printing import rendered, write_result
    from cudabw.cli.signals import StopSignals
    from cudabw.report.devices_table import print_devices
    from cudabw.results.exit_code import USAGE
    from cudabw.results.inventory import inventory_to_json
    from cudabw.system.inventory import take_inventory

    with StopSignals(notify) as signals:
        inventory = take_inventory(backend or "auto", notify=notify, check_interrupt=signals.check)
    error = inventory.error
    if error is not None:
        show_error(error.message, error.hint)
    if as_json and (error is None or error.exit_code != USAGE):
        write_result(inventory_to_json(inventory) + "\n")
    elif error is None:
        write_result(rendered(partial(print_devices, inventory)))
    return 0 if error is None else error.exit_code
