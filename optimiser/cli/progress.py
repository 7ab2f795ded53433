"""How far a long command is: a bar on a terminal, a line now and then elsewhere."""

import time
from dataclasses import dataclass, field
from typing import TextIO

import click

BAR_WIDTH = 24
LINE_EVERY_S = 10.0
REDRAW_EVERY_S = 0.1
QUIET_S = 1.0


@dataclass(slots=True)
class Progress:
    """Shows how many of so many are done, the rate and the time left."""

    total: int
    stream: TextIO
    _start: float = field(init=False)
    _shown: float = field(init=False)
    _drawn: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self._start = self._shown = time.monotonic()

    def update(self, done: int, before: int = 0) -> None:
        """So many are done, some of them before this run began."""
        now = time.monotonic()
        on_terminal = self.stream.isatty()
        due = now - self._shown >= (REDRAW_EVERY_S if on_terminal else LINE_EVERY_S)
        if not due and not (on_terminal and done == self.total):
            return
        self._shown = now
        text = self._text(done, before, now - self._start)
        if on_terminal:
            filled = BAR_WIDTH * done // max(self.total, 1)
            bar = "█" * filled + "░" * (BAR_WIDTH - filled)
            self.stream.write(f"\r\x1b[K{bar} {text}")
            self._drawn = True
        else:
            self.stream.write(f"{text}\n")
        self.stream.flush()

    def close(self) -> None:
        """Leave the line of the bar."""
        if self._drawn:
            self.stream.write("\n")
            self.stream.flush()

    def _text(self, done: int, before: int, seconds: float) -> str:
        rate = (done - before) / seconds if seconds > 0 else 0.0
        text = f"{done:,} of {self.total:,} cases"
        if rate > 0:
            text += f", {rate:,.3g} a second, {_duration((self.total - done) / rate)} left"
        return text


def _duration(seconds: float) -> str:
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return (
        f"{minutes // 60} h {minutes % 60:02} min" if minutes >= 60 else f"{minutes}:{rest:02} min"
    )


class Line:
    """One line on a terminal, once the work takes long enough to wonder; now and then elsewhere."""

    def __init__(self, on_terminal: bool) -> None:
        self._on_terminal = on_terminal
        self._start = self._told = time.monotonic()
        self._width = 0

    def __call__(self, what: str, done: int, total: int) -> None:
        """So many of these are done."""
        now, text = time.monotonic(), f"{done:,} of {total:,} {what}"
        if self._on_terminal and now - self._start > QUIET_S:
            click.echo(f"\r{text:<{self._width}}", nl=False, err=True)
            self._width = max(self._width, len(text))
        elif not self._on_terminal and now - self._told > LINE_EVERY_S:
            click.echo(text, err=True)
            self._told = now

    def clear(self) -> None:
        """Remove the line."""
        if self._width:
            click.echo(f"\r{'':<{self._width}}\r", nl=False, err=True)
