"""Files out, whole or not at all."""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from optimiser.errors import InputError, Mistake


def write(path: Path, text: str) -> None:
    """Write a file whole or not at all: to a temporary name beside it, then renamed.

    Raises InputError where the place cannot be written.
    """
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path beside `path` that takes its place when the block succeeds.

    A link stays a link, and a device such as /dev/null is written to, not replaced.
    """
    path = Path(os.path.realpath(path)) if path.is_symlink() else path
    device = path.exists() and not path.is_file() and not path.is_dir()
    try:
        folder = tempfile.gettempdir() if device else path.parent
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=folder)
    except OSError as error:
        raise _unwritable(path, f"{error.strerror}") from error
    os.close(descriptor)
    temporary = Path(name)
    try:
        yield temporary
        if path.is_dir():
            raise _unwritable(path, "is a directory")
        if device:
            path.write_bytes(temporary.read_bytes())
            return
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        temporary.replace(path)
    except OSError as error:
        raise _unwritable(path, f"{error.strerror}") from error
    finally:
        temporary.unlink(missing_ok=True)


def _unwritable(path: Path, reason: str) -> InputError:
    return InputError([Mistake(str(path), "", f"cannot be written: {reason}")])
