"""Where finished cells are kept: a line of JSON for each, appended at once."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from skcal.experiments._config import Config, ConfigError, check_config

_CELLS, _CONFIG = "cells.jsonl", "config.json"


class Store:
    """The folder of a run.

    ``config.json`` says what is run and with what; ``cells.jsonl`` has a line for each finished
    cell. A line that a crash cut short is dropped when the run goes on.

    Parameters
    ----------
    folder : path
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)

    def open(self, config: Config, about: dict[str, Any], *, resume: bool) -> None:
        """Begin a run, or go on with the one that is there.

        Raises
        ------
        ConfigError
            If there is a run already and it is not to be resumed, or is one of another
            configuration.
        """
        kept = self.folder / _CONFIG
        told = {"config": config.model_dump(mode="json"), **about}
        if not kept.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            _write_whole(kept, json.dumps(told, indent=1) + "\n")
            return
        if not resume:
            raise ConfigError(
                f"{self.folder} has a run already; go on with it by --resume, or take another "
                "folder by --out."
            )
        if check_config(json.loads(kept.read_text(encoding="utf-8"))["config"]) != config:
            raise ConfigError(
                f"{self.folder} has a run of another configuration; take another folder by --out."
            )
        self._drop_half_a_line()

    def append(self, row: dict[str, Any]) -> None:
        """Write a finished cell, down to the disk."""
        line = json.dumps(row, separators=(",", ":"), allow_nan=False) + "\n"
        with (self.folder / _CELLS).open("ab") as file:
            file.write(line.encode("utf-8"))
            file.flush()
            os.fsync(file.fileno())

    def rows(self) -> list[dict[str, Any]]:
        """Return the finished cells; of one that was run again, the last."""
        path = self.folder / _CELLS
        if not path.exists():
            return []
        lines = path.read_bytes().split(b"\n")[:-1]
        latest = {}
        for line in lines:
            row = json.loads(line)
            latest[tuple(row["cell"].items())] = row
        return list(latest.values())

    def header(self) -> dict[str, Any]:
        """Return what is run: "config", "versions" and the like."""
        path = self.folder / _CONFIG
        if not path.exists():
            raise ConfigError(f"{self.folder} has no run: there is no {_CONFIG} in it.")
        header: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return header

    def _drop_half_a_line(self) -> None:
        path = self.folder / _CELLS
        if not path.exists():
            return
        whole = path.read_bytes()
        end = whole.rfind(b"\n") + 1
        if end < len(whole):
            os.truncate(path, end)


def _write_whole(path: Path, text: str) -> None:
    """Write a file so that it is never there by half."""
    beside = path.with_suffix(path.suffix + ".part")
    beside.write_text(text, encoding="utf-8")
    beside.replace(path)
