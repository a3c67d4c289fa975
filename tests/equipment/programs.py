"""Programs that tests need and that come from the system's packages.

Where they are missing, root gets them with apt-get, once; anybody else is told what to install, and the tests fail.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import sys
from pathlib import Path

from tests.standins import server


def program(name: str, package: str) -> str:
    """Return the path of a program.

    :raises RuntimeError: it is not there, and this user may not install it.
    """
    found = _found(name)
    if found is None:
        with (Path(sys.prefix) / "programs.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            found = _found(name) or _installed(name, package)
    return found


def _found(name: str) -> str | None:
    debian = sorted(str(folder) for folder in Path("/usr/lib/postgresql").glob("*/bin"))
    return shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", *reversed(debian)]))


def _installed(name: str, package: str) -> str:
    install = f"apt-get install --no-install-recommends {package}"
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise RuntimeError(f"the tests need {name}, and it is not on this machine: {install}")
    env = os.environ | {"DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}  # no service is started
    print(f"installing {package} (once)", flush=True)
    with contextlib.suppress(RuntimeError):  # the lists may be fresh enough
        server.run(["apt-get", "update", "-qq"], "fetching the lists of packages", env=env)
    server.run([*install.split(), "-y", "-qq"], f"installing {package}", env=env)
    found = _found(name)
    if found is None:
        raise RuntimeError(f"{package} is installed, and there is no {name}")
    return found
