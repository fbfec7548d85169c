"""Sphinx extension: run the pages in kernels that are forked from one process with all imports done.

A fresh kernel takes about three processor seconds to import NumPy, SciPy, scikit-learn, pandas and matplotlib, which is
longer than most pages take. Here one process imports them when the first page asks for a kernel, and forks a kernel for
each page. A page starts from a fresh state as before: only modules are shared.

The extension puts a kernel specification "python3" into a temporary folder of JUPYTER_PATH. Its command connects to the
process, names the connection file, and waits until the kernel has ended. Without os.fork (Windows) kernels are as usual.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

IMPORTS = (
    "ipykernel.kernelapp",
    "matplotlib.figure",  # not pyplot: its backend must find the shell of the kernel, or figures are not shown
    "matplotlib.backends.backend_agg",
    "pandas",
    "scipy.stats",
    "sklearn.datasets",
    "sklearn.model_selection",
    "gpclass",
    "gpclass.assess",
    "gpclass.cli",
    "gpclass.estimator",
    "gpclass.sampling",
    "gpclass.sparse",
)


def setup(app):
    """Connect to Sphinx."""
    if hasattr(os, "fork"):
        app.connect("config-inited", start)
        app.connect("build-finished", stop)
    return {"parallel_read_safe": False}


def start(app, config) -> None:
    """Start the process that forks kernels, and announce it as the kernel "python3"."""
    folder = Path(tempfile.mkdtemp(prefix="gpclass-kernels-"))
    address = folder / "socket"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(address))
    listener.listen()
    server = subprocess.Popen(
        [sys.executable, __file__, "serve", str(listener.fileno())], stdin=subprocess.PIPE, pass_fds=[listener.fileno()]
    )
    listener.close()
    command = [sys.executable, "-I", "-S", __file__, "run", str(address), "{connection_file}"]
    specification = folder / "kernels" / "python3" / "kernel.json"
    specification.parent.mkdir(parents=True)
    specification.write_text(json.dumps({"argv": command, "display_name": "Python 3", "language": "python"}))
    os.environ["JUPYTER_PATH"] = os.pathsep.join(filter(None, (str(folder), os.environ.get("JUPYTER_PATH"))))
    app.kernel_server, app.kernel_folder = server, folder


def stop(app, error) -> None:
    """End the process and the kernels that it has forked."""
    app.kernel_server.stdin.close()
    app.kernel_server.wait()
    shutil.rmtree(app.kernel_folder, ignore_errors=True)


def serve(descriptor: int) -> None:
    """Fork a kernel for each connection, until stdin is closed."""
    import importlib
    import select

    os.environ["MPLBACKEND"] = "module://matplotlib_inline.backend_inline"  # matplotlib reads it when it is imported
    os.environ["JPY_PARENT_PID"] = str(os.getpid())  # a kernel ends if its parent does, and prints no advice
    listener, kernels = socket.socket(fileno=descriptor), set()
    while listener in select.select([listener, sys.stdin], [], [])[0]:
        for name in IMPORTS:
            importlib.import_module(name)
        connection, _ = listener.accept()
        kernel = os.fork()
        if kernel == 0:
            listener.close()
            become_kernel(connection)
        connection.close()
        kernels.add(kernel)
    for kernel in kernels:
        finish(kernel)


def become_kernel(connection: socket.socket) -> None:
    """Run a kernel in this process and end it. The connection stays open for as long as the kernel lives."""
    from ipykernel.kernelapp import IPKernelApp

    with connection.makefile() as lines:
        request = json.loads(lines.readline())
    os.setsid()
    os.chdir(request["folder"])
    try:
        IPKernelApp.launch_instance(["-f", *request["arguments"], "--log-level=40"])  # errors only
    finally:
        os._exit(0)


def finish(kernel: int) -> None:
    """Wait for a kernel; end it first if it is still running."""
    if os.waitpid(kernel, os.WNOHANG)[0] == 0:
        os.kill(kernel, signal.SIGTERM)
        os.waitpid(kernel, 0)


def run(address: str, *arguments: str) -> None:
    """Ask for a kernel with a connection file and options, and wait until it has ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the kernel is told by a message to end
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(address)
        connection.sendall((json.dumps({"arguments": arguments, "folder": os.getcwd()}) + "\n").encode())
        while connection.recv(1024):
            pass


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(int(sys.argv[2]))
    else:
        run(*sys.argv[2:])
