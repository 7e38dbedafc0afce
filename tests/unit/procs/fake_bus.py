"""A D-Bus bus of the test's own, with whoever is to be on it."""

from __future__ import annotations

import array
import asyncio
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from jeepney.low_level import Endianness, Header, HeaderFields, Message, MessageFlag, MessageType, Parser

from questlined.procs.bus import Refused

SYSTEMD = ("org.freedesktop.systemd1", "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager")


class FakeBus:
    """Answers each call by `answer(member, body)`: what it gives is the body, with its signature; an
    exception is an error; None is silence. Used from one loop."""

    def __init__(self, path: Path, answer: Callable[[str, tuple[Any, ...]], Any]) -> None:
        self.path, self.answer = str(path), answer
        self.listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listening.bind(self.path)
        self.listening.listen()
        self.listening.setblocking(False)
        self.links: list[socket.socket] = []
        self.greeting = b"OK 1234\r\n"

    async def serve(self) -> None:
        loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as tasks:
            while True:
                link, _ = await loop.sock_accept(self.listening)
                link.setblocking(False)
                self.links.append(link)
                tasks.create_task(self._talk(link))

    async def _talk(self, link: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        assert (await loop.sock_recv(link, 4096)).startswith(b"\0AUTH EXTERNAL ")
        await loop.sock_sendall(link, self.greeting)
        if not (await loop.sock_recv(link, 4096)).startswith(b"NEGOTIATE_UNIX_FD"):
            return
        await loop.sock_sendall(link, b"AGREE_UNIX_FD\r\n")
        begun = b""
        while len(begun) < len(b"BEGIN\r\n"):
            begun += await loop.sock_recv(link, len(b"BEGIN\r\n") - len(begun))
        parser, readable = Parser(), asyncio.Event()
        loop.add_reader(link, readable.set)
        while True:
            await readable.wait()
            readable.clear()
            try:
                data, descriptors, _, _ = socket.recv_fds(link, 65536, 8)
            except BlockingIOError:
                continue
            except OSError:
                return
            if not data:
                loop.remove_reader(link)
                return
            parser.add_data(data, descriptors)
            while (message := parser.get_next_message()) is not None:
                await self._reply(link, message)

    async def _reply(self, link: socket.socket, call: Message) -> None:
        fields = call.header.fields
        try:
            found = self.answer(fields[HeaderFields.member], tuple(call.body))
        except Refused as error:
            head = {HeaderFields.error_name: error.name, HeaderFields.signature: "s"}
            await self.send(link, MessageType.error, head | _to(call), (str(error),))
            return
        if found is not None:
            signature, body = found
            head = {HeaderFields.signature: signature} if signature else {}
            await self.send(link, MessageType.method_return, head | _to(call), body)

    async def send(self, link: socket.socket, kind: MessageType, fields: dict[Any, Any], body: tuple[Any, ...]) -> None:
        fields = {HeaderFields.sender: ":1.7"} | fields
        message = Message(Header(Endianness.little, kind, MessageFlag(0), 1, -1, 9, fields), body)
        await asyncio.get_running_loop().sock_sendall(link, message.serialise(9, array.array("i")))

    async def announce(self, member: str, signature: str, body: tuple[Any, ...], sender: str = ":1.7") -> None:
        """A signal to everybody."""
        head = {
            HeaderFields.path: SYSTEMD[1],
            HeaderFields.interface: SYSTEMD[2],
            HeaderFields.member: member,
            HeaderFields.signature: signature,
            HeaderFields.sender: sender,
        }
        for link in self.links:
            await self.send(link, MessageType.signal, head, body)


def _to(call: Message) -> dict[Any, Any]:
    return {HeaderFields.reply_serial: call.header.serial}


def usual(member: str, body: tuple[Any, ...]) -> Any:
    """What any bus and manager answer."""
    match member:
        case "Hello":
            return "s", (":1.9",)
        case "GetNameOwner":
            return "s", (":1.7",)
        case "AddMatch" | "Subscribe":
            return "", ()
        case "Echo":
            return "s", body
        case "StartTransientUnit" | "StopUnit":
            return "o", ("/job/1",)
        case "Fail":
            raise Refused("org.example.No", "not today")
    return None


Scene = Callable[[FakeBus], Awaitable[None]]
