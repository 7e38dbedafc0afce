"""A connection to a D-Bus message bus: calls in bounded time, descriptors, signals. The one import of jeepney.

jeepney makes and reads the messages. Its own asyncio client passes no descriptors, so the socket is served here.
"""

from __future__ import annotations

import array
import asyncio
import socket
from collections import deque
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from jeepney.auth import BEGIN, Authenticator
from jeepney.low_level import Endianness, Header, HeaderFields, Message, MessageFlag, MessageType, Parser

CALL_S: Final = 20.0
CALLS_MAX: Final = 64  # under way at once: the system's bus refuses more than 128 of one connection
_READ_BYTES: Final = 64 << 10
BUS: Final = ("org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus")


class NoBus(Exception):
    """The bus cannot be reached, went away or does not answer: whether a call was carried out is unknown."""


class Refused(Exception):
    """The other side answered with an error. `name` is its D-Bus name."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message or name)
        self.name = name


class Signal(NamedTuple):
    """What somebody announced. `sender` is a connection's unique name, given by the bus."""

    sender: str
    member: str
    arguments: tuple[Any, ...]


class Bus:
    """One connection. Made by `connect`; once it is lost every call raises NoBus, and a new one is to be made.

    `on_signal` is called for signals that were asked for and for what anybody else sends us: look at the sender.
    `on_lost` is called once, when the connection ends without `close`. Everything happens on the loop's thread.
    """

    def __init__(self, link: socket.socket, on_signal: Callable[[Signal], None], on_lost: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._link, self._on_signal, self._on_lost = link, on_signal, on_lost
        self._parser = Parser()
        self._serial = 0
        self._turns = asyncio.Semaphore(CALLS_MAX)
        self._waiting: dict[int, asyncio.Future[Message]] = {}
        self._outgoing: deque[tuple[bytes, array.array[int]]] = deque()
        self._lost: str | None = None
        self._loop.add_reader(link, self._readable)

    @classmethod
    async def connect(cls, address: str, on_signal: Callable[[Signal], None], on_lost: Callable[[], None]) -> Bus:
        """A connection to the bus that listens on this path, known to it. Raises NoBus."""
        link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        link.setblocking(False)
        try:
            async with asyncio.timeout(CALL_S):
                await _introduce(link, address)
        except (OSError, ValueError, TimeoutError) as error:  # ValueError: what jeepney says of a refusal
            link.close()
            raise NoBus(f"{address}: {getattr(error, 'strerror', None) or str(error) or 'no answer'}") from error
        except BaseException:
            link.close()
            raise
        bus = cls(link, on_signal, lambda: None)
        try:
            await bus.call(*BUS, "Hello")
        except Refused as error:
            bus.close()
            raise NoBus(f"{address}: {error}") from error
        except BaseException:
            bus.close()
            raise
        bus._on_lost = on_lost
        return bus

    @property
    def alive(self) -> bool:
        """Whether calls can be made, as far as is known."""
        return self._lost is None

    async def listen(self, rule: str) -> None:
        """Ask for the signals that a match rule selects. Raises NoBus."""
        await self.call(*BUS, "AddMatch", "s", (rule,))

    async def call(
        self,
        destination: str,
        path: str,
        interface: str,
        member: str,
        signature: str = "",
        body: tuple[Any, ...] = (),
    ) -> tuple[Any, ...]:
        """What the method answers. Descriptors in `body` are to stay open until then. Raises NoBus and Refused."""
        async with self._turns:
            reply = await self._answer(destination, path, interface, member, signature, body)
        if reply.header.message_type is MessageType.error:
            said = reply.body[0] if reply.body and isinstance(reply.body[0], str) else ""
            raise Refused(str(reply.header.fields.get(HeaderFields.error_name)), said)
        return tuple(reply.body)

    async def _answer(
        self, destination: str, path: str, interface: str, member: str, signature: str, body: tuple[Any, ...]
    ) -> Message:
        if self._lost is not None:
            raise NoBus(self._lost)
        self._serial += 1
        serial, answer = self._serial, self._loop.create_future()
        descriptors: array.array[int] = array.array("i")
        fields = {
            HeaderFields.path: path,
            HeaderFields.destination: destination,
            HeaderFields.interface: interface,
            HeaderFields.member: member,
        } | ({HeaderFields.signature: signature} if signature else {})
        # Nobody is to be started for us: who is not there has no units.
        header = Header(Endianness.little, MessageType.method_call, MessageFlag.no_auto_start, 1, -1, serial, fields)
        message = Message(header, body).serialise(serial, descriptors)
        self._waiting[serial] = answer
        try:
            self._send(message, descriptors)
            async with asyncio.timeout(CALL_S):
                return await answer
        except TimeoutError:
            self._lose(f"{destination} does not answer {member}")
            raise NoBus(str(self._lost)) from None
        finally:
            self._waiting.pop(serial, None)

    def close(self) -> None:
        """End the connection; nobody is told but who waits for an answer."""
        self._on_lost = lambda: None
        self._lose("the connection to the bus was closed")

    def _send(self, message: bytes, descriptors: array.array[int]) -> None:
        self._outgoing.append((message, descriptors))
        if len(self._outgoing) == 1:
            self._flush()

    def _flush(self) -> None:
        """Send what waits, as far as the bus takes it."""
        try:
            while self._outgoing:
                message, descriptors = self._outgoing[0]
                rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)] if descriptors else []
                sent = self._link.sendmsg([message], rights)
                if sent == len(message):
                    self._outgoing.popleft()
                else:
                    self._outgoing[0] = (message[sent:], array.array("i"))
            self._loop.remove_writer(self._link)
        except BlockingIOError:
            self._loop.add_writer(self._link, self._flush)
        except OSError as error:
            self._lose(f"the bus: {error.strerror}")

    def _readable(self) -> None:
        try:
            read = self._link.recv(_READ_BYTES)
            if not read:
                self._lose("the bus has closed the connection")
                return
            self._parser.add_data(read)
            for message in iter(self._next_message, None):
                self._take(message)
        except BlockingIOError:
            return
        except Exception as error:  # OSError, or whatever jeepney raises at what is no message
            self._lose(f"the bus: {error}")

    def _next_message(self) -> Message | None:
        """A message that has come whole. One that cannot be read is passed over: on the system's bus everybody may send
        us signals, with descriptors, which we do not take. Raises what jeepney does where there is no next message."""
        while True:
            try:
                return self._parser.get_next_message()
            except Exception:
                if self._parser.next_msg_size is None:
                    raise
                self._parser.next_msg_size = None  # it has been taken out

    def _take(self, message: Message) -> None:
        kind, fields = message.header.message_type, message.header.fields
        if kind in {MessageType.method_return, MessageType.error}:
            answer = self._waiting.get(fields.get(HeaderFields.reply_serial, 0))
            if answer is not None and not answer.done():
                answer.set_result(message)
        elif kind is MessageType.signal:
            self._on_signal(
                Signal(str(fields.get(HeaderFields.sender)), str(fields.get(HeaderFields.member)), message.body)
            )

    def _lose(self, why: str) -> None:
        if self._lost is not None:
            return
        self._lost = why
        self._loop.remove_reader(self._link)
        self._loop.remove_writer(self._link)
        self._link.close()
        self._outgoing.clear()
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(NoBus(why))
        self._on_lost()


async def _introduce(link: socket.socket, address: str) -> None:
    """The conversation before the first message. Raises OSError, and ValueError where the bus refuses us."""
    loop = asyncio.get_running_loop()
    await loop.sock_connect(link, address)
    conversation = Authenticator(enable_fds=True)
    for line in conversation:
        await loop.sock_sendall(link, line)
        said = await loop.sock_recv(link, 1024)
        if not said:
            raise ValueError("it ended the conversation")
        conversation.feed(said)
    await loop.sock_sendall(link, BEGIN)
