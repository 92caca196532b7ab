"""Read the requests of `permafrost.operate.light_client`."""

from __future__ import annotations

import array
import socket


def receive(client: socket.socket) -> tuple[list[str], list[int]]:
    """Read a request (folder, number of arguments, arguments, environment) and three descriptors.

    Raises
    ------
    ValueError : it is not whole. OSError : the client is too slow, or gone.
    """
    descriptors = array.array("i")
    head, ancillary, _, _ = client.recvmsg(16, socket.CMSG_SPACE(3 * descriptors.itemsize))
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            descriptors.frombytes(data[: len(data) - len(data) % descriptors.itemsize])
    if len(descriptors) != 3:
        raise ValueError("a request has three files")
    text, length = b"", int(head)
    while len(text) < length:
        part = client.recv(length - len(text))
        if not part:
            raise ValueError("a client went away")
        text += part
    return text.decode("utf-8", "surrogateescape").split("\0"), descriptors.tolist()
