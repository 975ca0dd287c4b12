"""A hop between the server and its database, which can be cut."""

import contextlib
import socket
import threading


class DatabaseHop:
    def __init__(self, host, port):
        self.to, self.is_cut = (host, port), False
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.open, self.lock = set(), threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self):
        """Whoever is connected is cut off, and nobody gets through."""
        with self.lock:
            self.is_cut = True
            for end in self.open:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def mend(self):
        with self.lock:
            self.is_cut = False

    def _accept(self):
        while True:
            near, _ = self.listener.accept()
            with self.lock:
                if self.is_cut:
                    near.close()
                    continue
            far = socket.create_connection(self.to)
            for end in (near, far):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self.lock:
                self.open |= {near, far}
            for source, sink in [(near, far), (far, near)]:
                threading.Thread(target=self._carry, args=(source, sink), daemon=True).start()

    def _carry(self, source, sink):
        with contextlib.suppress(OSError):
            while data := source.recv(65_536):
                sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        with self.lock:
            self.open -= {source, sink}
