"""``airflow connect new rest``: writes declarations from a manifest, and checks their first pages."""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from airflow_provider_connect import registry
from airflow_provider_connect.cli.manifests.translation import TranslatedStream, Translation, translate
from airflow_provider_connect.cli.manifests.trees import read_tree
from airflow_provider_connect.cli.manifests.writing import connections_yaml, stream_yaml
from airflow_provider_connect.cli.tasks import open_source, parse_day
from airflow_provider_connect.cli.terminal import EXIT_PROBLEMS, print_note, print_rows
from airflow_provider_connect.errors import ConfigError, ConnectError, describe_unreadable
from airflow_provider_connect.hooks import credentials
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.source import PollContext, Source
from airflow_provider_connect.window import Day

CONNECTIONS_FILE = "_connections.yaml"
_CHECKED_PAGES = 2


def write_declarations(args: Namespace) -> int:
    """Write a file for each stream of a manifest, and print a line for each. Existing files stay.

    :raises ConfigError: the manifest cannot be read.
    """
    path = Path(args.manifest)
    config = {} if args.config is None else read_tree(Path(args.config))
    conn_id = args.conn_id or connection_id_of(path)
    translation = accepted_streams(translate(read_tree(path), conn_id, config))
    folder = Path(args.to or conn_id)
    rows = [_row(stream, _file(folder, stream)) for stream in translation.streams]
    _write_files(folder, translation)
    is_good = bool(translation.streams)
    if args.check:
        for row, stream in zip(rows, translation.streams, strict=True):
            row["pages"], is_checked = _check(_file(folder, stream), args.day)
            is_good = is_good and is_checked
    rows += [
        {"stream": name, "result": "no", "file": "", "remarks": reason} | ({"pages": ""} if args.check else {})
        for name, reason in translation.refused.items()
    ]
    print_rows(rows, args.output)
    if not args.check:
        print_note(
            f"Next: fill in {folder / CONNECTIONS_FILE}, import it with 'airflow connections import', and add --check"
        )
    return 0 if is_good else EXIT_PROBLEMS


def connection_id_of(path: Path) -> str:
    """Return a connection id from the name of a manifest, or of its folder."""
    name = path.absolute().parent.name if path.stem == "manifest" else path.stem
    return re.sub(r"[^A-Za-z0-9]+", "_", name.removeprefix("source-")).strip("_").lower() or "api"


def accepted_streams(translation: Translation) -> Translation:
    """Return a translation whose streams ``RestSource`` accepts. Others become refused, with its reason."""
    source_class = registry.source_class("rest")
    streams, refused = [], dict(translation.refused)
    for stream in translation.streams:
        try:
            source_class.from_options(dict(stream.options))
        except ConfigError as error:
            refused[stream.name] = str(error)
        else:
            streams.append(stream)
    return Translation(translation.connections, streams, refused)


def _file(folder: Path, stream: TranslatedStream) -> Path:
    return folder / f"{stream.name}.yaml"


def _row(stream: TranslatedStream, file: Path) -> dict[str, Any]:
    gaps = stream.remarks.gaps
    return {
        "stream": stream.name,
        "result": "partly" if gaps else "whole",
        "file": str(file) + (" (kept)" if file.exists() else ""),
        "remarks": "; ".join(gaps),
    }


def _write_files(folder: Path, translation: Translation) -> None:
    texts = {CONNECTIONS_FILE: connections_yaml(translation.connections)} if translation.streams else {}
    texts |= {_file(folder, stream).name: stream_yaml(stream) for stream in translation.streams}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            with suppress(FileExistsError), (folder / name).open("x", encoding="utf-8") as file:
                if name == CONNECTIONS_FILE:
                    (folder / name).chmod(0o600)  # it will hold credentials
                file.write(text)
    except OSError as error:
        raise ConfigError(f"{str(folder)!r} cannot be written: {describe_unreadable(error)}") from None


def _check(file: Path, text: str | None) -> tuple[str, bool]:
    """Return the result of a stream's first pages, and whether it works."""
    try:
        source = registry.source_class("rest").from_file(file.absolute())  # type: ignore[attr-defined]
        rows = list(first_pages(source, parse_day(text, source.timezone)))
    except ConnectError as error:
        return f"{type(error).__name__}: {error}", False
    counts = " and ".join(f"{count:,}" for count in rows)
    return (f"pages with {counts} rows" if rows else "no rows"), True


def first_pages(source: Source, day: Day) -> Iterator[int]:
    """Yield the number of rows of a day's first two pages that have any.

    :raises ConnectError: as in a poll.
    """
    connection = credentials.resolve_source(source)
    tally = Tally([day])
    pages = 0
    with open_source(_first_versions(source), connection, PollContext(polls_at_once=1, looks_ahead=False)) as poller:
        for part in poller.plan([day]):
            with closing(poller.poll(part, tally)) as batches:  # type: ignore[type-var]  # a generator
                for _, batch in batches:
                    yield batch.num_rows
                    pages += 1
                    if pages == _CHECKED_PAGES:
                        return


def _first_versions(source: Source) -> Source:
    """Return a source that yields each page at once. The last version of a record needs all pages."""
    options = source.serialize()
    options["records"]["on_duplicate"] = "first"
    return source.from_options(options)
