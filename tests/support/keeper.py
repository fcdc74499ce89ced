"""Plays the agent of a rank: the other side of src/launch/keeper_wire.h, for tests and benchmarks of
what a rank keeps in memory."""

import os
import socket
import struct
import threading
import time

PACKET = struct.Struct("@Iiiq480s")
STATE, TELL, FINISH, WISH = 1, 2, 3, 4
DONE, FAILED, LOST_GROUP, PAUSED = range(4)
PAUSE = 1


class Keeper:
    """The memory of one member, and the ears of its agent."""

    count = 0

    def __init__(self):
        Keeper.count += 1
        self.name = f"lockstep-test-{os.getpid()}-{Keeper.count}"
        self.memory = os.memfd_create("state")
        self.heard, self.finished, self.lines = [], None, []
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.bind("\0" + self.name)
        self.socket.listen()
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        while True:
            try:
                line, _ = self.socket.accept()
            except OSError:
                return
            self.lines.append(line)
            threading.Thread(target=self.hear, args=(line,), daemon=True).start()

    def hear(self, line):
        try:
            while self.hear_one(line):
                pass
        except OSError:  # it was killed
            pass

    def hear_one(self, line):
        bytes_ = line.recv(PACKET.size)
        if len(bytes_) == PACKET.size:
            kind, outcome, status, number, text = PACKET.unpack(bytes_)
            text = text.split(b"\0")[0].decode()
            if kind == STATE:
                self.finished = None
                socket.send_fds(line, [PACKET.pack(STATE, 0, 0, 1, b"")], [self.memory])
            elif kind == TELL:
                self.heard.append((number, text))
            elif kind == FINISH:
                self.finished = (outcome, status, text)
        return len(bytes_) == PACKET.size

    def last_word(self):
        """Outcome, status and reason, once they have come; None when there are none."""
        until = time.monotonic() + 10
        while self.finished is None and time.monotonic() < until:
            time.sleep(0.01)
        return self.finished

    def pause(self):
        self.lines[-1].send(PACKET.pack(WISH, PAUSE, 0, 0, b""))

    def damage(self, name):
        """Changes the first byte of an area (store/state.c)."""
        for number in range(24):
            area = os.pread(self.memory, 40, 16 + 40 * number)
            if area[:24].rstrip(b"\0").decode() == name:
                first = struct.unpack("@Q", area[24:32])[0]
                byte = os.pread(self.memory, 1, first)
                os.pwrite(self.memory, bytes([byte[0] ^ 1]), first)
                return
        raise KeyError(name)

    def bytes(self):
        return os.fstat(self.memory).st_blocks * 512

    def close(self):
        self.socket.close()
        os.close(self.memory)
