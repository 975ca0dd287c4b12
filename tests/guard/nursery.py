"""Makes processes of the consumer, each a fork of one that has imported everything: many are killed, and a new
interpreter takes half a second of a processor.

`Nursery` is for the suite. As a program this file is what it starts: over its standard input, a socket, it gets the
arguments of a consumer and the pipes that are its input and output, and answers with the process id.
"""

import ctypes
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys

DEATH_OF_PARENT = 1  # PR_SET_PDEATHSIG


class Nursery:
    def __init__(self, log):
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = ["setpriv", "--pdeathsig", "KILL", sys.executable, str(pathlib.Path(__file__))]
        self.process = subprocess.Popen(command, stdin=theirs, stdout=log, stderr=log)
        theirs.close()

    def start(self, arguments):
        """A process: its id, and the files to write to and to read from."""
        (their_input, ours_out), (ours_in, their_output) = os.pipe(), os.pipe()
        socket.send_fds(self.socket, [json.dumps(arguments).encode()], [their_input, their_output])
        os.close(their_input)
        os.close(their_output)
        pid = int(self.socket.recv(32) or sys.exit("the nursery of consumers has died"))
        return pid, os.fdopen(ours_out, "wb", 0), os.fdopen(ours_in, "rb", 0)

    def end(self):
        self.socket.close()
        self.process.kill()
        self.process.wait()


def serve():
    import worker

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them: the suite reads the end of their output
    ours = socket.socket(fileno=0)
    while True:
        message, files, _, _ = socket.recv_fds(ours, 4096, 2)
        if not message:
            return
        pid = os.fork()
        if pid == 0:
            ctypes.CDLL(None).prctl(DEATH_OF_PARENT, signal.SIGKILL)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            ours.detach()
            for theirs, standard in zip(files, (0, 1)):
                os.dup2(theirs, standard)
                os.close(theirs)
            worker.main(json.loads(message))
            os._exit(0)
        for theirs in files:
            os.close(theirs)
        ours.send(str(pid).encode())


if __name__ == "__main__":
    serve()
