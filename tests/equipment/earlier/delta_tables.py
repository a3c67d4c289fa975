"""A Delta table, or a lake of them, as one archive."""

from __future__ import annotations

import gzip
import io
import tarfile
from pathlib import Path

from tests.equipment.earlier.scenes import Scene
from tests.equipment.earlier.stories import Shop

LAKE = "lake"


def shop_of(root: Path, scene: Scene) -> Shop:
    """Return a shop whose tables lie in a lake of its own."""
    (root / LAKE).mkdir()
    return Shop(root, "delta", {"path": f"{root}/{LAKE}/{scene.place}", **scene.sink}, {})


def keep(shop: Shop, path: Path) -> None:
    """Write all files of the lake into an archive. Equal files make equal archives."""
    lake, data = shop.root / LAKE, io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        for file in sorted(lake.rglob("*")):
            if file.is_file() and file.suffix != ".crc":
                entry = tarfile.TarInfo(str(file.relative_to(lake)))
                entry.size = file.stat().st_size
                with file.open("rb") as content:
                    archive.addfile(entry, content)
    path.with_suffix(".tar.gz").write_bytes(gzip.compress(data.getvalue(), mtime=0))


def lay_out(path: Path, shop: Shop) -> None:
    """Lay the files of an archive out where a shop has its lake."""
    with tarfile.open(path.with_suffix(".tar.gz")) as archive:
        archive.extractall(shop.root / LAKE, filter="data")
