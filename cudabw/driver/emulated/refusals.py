"""How the emulated driver says no: one exception, turned into a status at the surface."""

from __future__ import annotations


class Refusal(Exception):  # noqa: N818 - a status on its way to the caller, not a failure of this program
    """A call, or work on a stream, ends with a failure status.

    Args:
        status: The numeric ``CUresult``.
    """

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


INVALID_VALUE = 1
OUT_OF_MEMORY = 2
NOT_INITIALIZED = 3
INVALID_DEVICE = 101
INVALID_IMAGE = 200
INVALID_CONTEXT = 201
PEER_ACCESS_UNSUPPORTED = 217
INVALID_PTX = 218
INVALID_HANDLE = 400
ILLEGAL_STATE = 401
NOT_FOUND = 500
NOT_READY = 600
ILLEGAL_ADDRESS = 700
LAUNCH_OUT_OF_RESOURCES = 701
PEER_ACCESS_ALREADY_ENABLED = 704
CONTEXT_IS_DESTROYED = 709
HOST_MEMORY_ALREADY_REGISTERED = 712
HOST_MEMORY_NOT_REGISTERED = 713
LAUNCH_FAILED = 719
NOT_SUPPORTED = 801
STREAM_CAPTURE_UNSUPPORTED = 900
STREAM_CAPTURE_INVALIDATED = 901
STREAM_CAPTURE_ISOLATION = 905
STREAM_CAPTURE_IMPLICIT = 906
CAPTURED_EVENT = 907
STREAM_CAPTURE_WRONG_THREAD = 908
