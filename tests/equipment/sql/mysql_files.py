"""MySQL's own server from Debian's sid, in a folder of this environment: nothing is installed, and root is not needed.

Debian's stable releases have MariaDB alone. sid's packages bring the C library that they are linked with, so the server
runs by sid's own loader on any release. They come from the mirror that this machine's apt uses.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import sys
from pathlib import Path

from tests.standins import server

WITHOUT = "WITHOUT_MYSQL"
"""Environment variable that lets tests leave MySQL out if it is ``1``. The last line of ``make test`` then says so."""
PACKAGE = "mysql-server-core"
RECIPE = f"{PACKAGE} of sid, 2"
"""Changes when the folder has to be fetched again."""
_WAY_OUT = f"Run where apt has a mirror of Debian, or leave MySQL out with {WITHOUT}=1"
_STANZA = re.compile(r"^(\S+):[ \t]*(.*)$", re.MULTILINE)
_APT_LINE = re.compile(r"^deb\s+(?:\[(?P<options>[^\]]*)\]\s+)?(?P<uri>\S+)\s", re.MULTILINE)
_MIRROR = re.compile(r"^[a-z+]+://[^/]+/(?!.*security).*debian")


def is_left_out() -> bool:
    """Return whether the environment leaves MySQL out."""
    return os.environ.get(WITHOUT) == "1"


@functools.cache
def mysql_root() -> Path:
    """Return the folder with the server and all its libraries; fetch them first if they are not there.

    :raises RuntimeError: this machine has no apt, or no mirror of Debian.
    """
    folder = Path(sys.prefix) / "mysql"
    saying = f"{PACKAGE} from Debian's sid (58 MB, once)"
    return server.fetched_once(folder, RECIPE, _fetch, saying) / "root"


def empty_data() -> Path:
    """Return a folder with the files of a server without databases: making them takes two seconds."""
    return mysql_root().with_name("data")


def mysqld() -> list[str]:
    """Return the beginning of the command that runs the server."""
    return _mysqld(mysql_root())


def _mysqld(root: Path) -> list[str]:
    libraries = next(root.glob("usr/lib/*-linux-gnu*/libc.so.6")).parent
    loader = next(libraries.glob("ld-linux*.so.*"))
    return [
        str(loader), "--library-path", str(libraries), str(root / "usr/sbin/mysqld"), "--no-defaults",
        f"--basedir={root / 'usr'}", f"--lc-messages-dir={root / 'usr/share/mysql'}",
        f"--character-sets-dir={root / 'usr/share/mysql/charsets'}", f"--plugin-dir={root / 'usr/lib/mysql/plugin'}",
        "--secure-file-priv=NULL",
    ]  # fmt: skip


def mirror(apt: Path = Path("/etc/apt")) -> tuple[str, str]:
    """Return the address of the mirror of Debian that apt uses, and the file of the keys that sign its packages.

    :raises RuntimeError: apt uses none.
    """
    for file in sorted(apt.glob("sources.list.d/*.sources")):
        for stanza in re.split(r"\n\s*\n", file.read_text()):
            fields = dict(_STANZA.findall(stanza))
            for uri in fields.get("URIs", "").split():
                if _MIRROR.search(uri):
                    return uri, fields.get("Signed-By", "")
    for file in [apt / "sources.list", *sorted(apt.glob("sources.list.d/*.list"))]:
        for line in _APT_LINE.finditer(file.read_text()) if file.exists() else ():
            if _MIRROR.search(line["uri"]):
                signed = re.search(r"signed-by=(\S+)", line["options"] or "")
                return line["uri"], signed[1] if signed else ""
    raise RuntimeError(f"the tests need MySQL, and apt of this machine has no mirror of Debian. {_WAY_OUT}")


def _fetch(folder: Path) -> None:
    """Let an apt of the folder's own find and unpack all packages, also those that this machine has in older versions.

    :raises RuntimeError: there is no apt, or it cannot fetch them.
    """
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise RuntimeError(f"the tests need MySQL, and this machine has no apt. {_WAY_OUT}")
    uri, keys = mirror()
    work = folder / "apt"
    for place in ("sources", "preferences", "lists/partial", "cache/archives/partial", "debs"):
        (work / place).mkdir(parents=True)
    # The empty status makes apt resolve every dependency anew.
    for file in ("empty", "status"):
        (work / file).touch()
    signed = f"Signed-By: {keys}\n" if keys else ""
    (work / "sources" / "sid.sources").write_text(f"Types: deb\nURIs: {uri}\nSuites: sid\nComponents: main\n{signed}")
    places = {
        "Dir::Etc::SourceList": work / "empty",
        "Dir::Etc::SourceParts": work / "sources",
        "Dir::Etc::PreferencesParts": work / "preferences",
        "Dir::State::Lists": work / "lists",
        "Dir::State::status": work / "status",
        "Dir::Cache": work / "cache",
        "APT::Sandbox::User": "root",
    }
    apt = ["apt-get", *(part for name, place in places.items() for part in ("-o", f"{name}={place}"))]
    server.run([*apt, "update", "-qq"], "fetching sid's list of packages")
    plan = server.run([*apt, "install", "--no-install-recommends", "-s", PACKAGE], f"asking what {PACKAGE} needs")
    packages = re.findall(r"^Inst (\S+)", plan, re.MULTILINE)
    server.run([*apt, "download", "-qq", *packages], f"fetching {PACKAGE}", cwd=work / "debs")
    for package in sorted((work / "debs").glob("*.deb")):
        server.run(["dpkg-deb", "-x", str(package), str(folder / "root")], f"unpacking {package.name}")
    shutil.rmtree(work)
    _make_data(folder)


def _make_data(folder: Path) -> None:
    """Make the files that every server begins with. Each makes its own name and certificate when it starts."""
    data = folder / "data"
    user = ["--user=root"] if os.geteuid() == 0 else []
    small = ["--innodb-redo-log-capacity=8M", f"--datadir={data}", "--initialize-insecure"]
    server.run([*_mysqld(folder / "root"), *small, *user], "making MySQL's files")
    for file in [data / "auto.cnf", *data.glob("*.pem")]:
        file.unlink()
    for path in [data, *data.rglob("*")]:  # so that they can be copied by whoever runs the server
        path.chmod(path.stat().st_mode | (0o555 if path.is_dir() else 0o444))


if __name__ == "__main__":
    if not is_left_out():
        mysql_root()
