"""Runs a command until it ends or the standard input closes, as it does when the program that started this dies.

A program of its own, started without the package: ``python _supervise.py COMMAND...``.
"""

import os
import signal
import subprocess
import sys
import threading

# How many seconds the command has to end by itself: more than a server takes to answer what it was asked.
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
    # Whoever ends the supervisor means the command.
    signal.signal(signal.SIGTERM, lambda *_: started.terminate())
    threading.Thread(target=_end_with_input, args=(started,), daemon=True).start()
    sys.exit(started.wait())
