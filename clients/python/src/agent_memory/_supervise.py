"""Runs a command until it ends, or until the standard input closes, as happens when the parent process dies.

Runs as a program of its own, without the package: ``python _supervise.py COMMAND...``.
"""

import os
import signal
import subprocess
import sys
import threading

# How many seconds the command has to end by itself: more than a server needs to answer its open requests.
_PATIENCE = 12


def _end_with_input(child: "subprocess.Popen[bytes]") -> None:
    while os.read(0, 4096):
        pass
    child.terminate()
    try:
        child.wait(_PATIENCE)
    except subprocess.TimeoutExpired:
        child.kill()


if __name__ == "__main__":
    started = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)
    # A signal to the supervisor is meant for the command.
    signal.signal(signal.SIGTERM, lambda *_: started.terminate())
    threading.Thread(target=_end_with_input, args=(started,), daemon=True).start()
    sys.exit(started.wait())
