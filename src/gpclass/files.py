"""Atomic writing of files: a reader sees the old file or the new one, never a part.

`replacing(path)` writes to a temporary file in the same folder and renames it to `path` at the end. The temporary name is
unique, so several threads and processes may write to one path at the same time; the last one to finish wins. Permissions of
an existing file are kept, and symbolic links are followed. After an error or on a full disc, the old file is unchanged and
the temporary file is removed. A process that is killed leaves its temporary file behind; the next process that writes to the
same path removes it. A writer holds a lock on its temporary file, which the system releases when the process ends: the lock
distinguishes files in use from leftovers.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

SHOWN = 40  # characters of the file name in the temporary name: systems limit names to 255 bytes
CREATION_ATTEMPTS = 100  # attempts to create a temporary file
STALE = 86400  # age in seconds at which a temporary file is a leftover, on systems without locks
NO_ROOM = {
    errno.ENOSPC: "the disc is full",
    errno.EDQUOT: "the quota is used up",
    errno.EFBIG: "the file would be too large",
}


@contextmanager
def replacing(path: str | os.PathLike[str], mode: str = "wb", **options: Any) -> Iterator[IO[Any]]:
    """Open a temporary file that replaces `path` when the block ends without an error.

    Parameters
    ----------
    path : str or path-like
        The file to write. Devices and pipes are written to directly.
    mode : {"wb", "w"}, default="wb"
        Whether bytes or text are written.
    **options : dict
        Passed to `open`: encoding, newline, errors.

    Yields
    ------
    file object
        The temporary file, open for writing.

    Raises
    ------
    OSError
        If `check_writable` raises it, or if the disc is full; the old file is then unchanged.
    """
    target = check_writable(path)
    if is_special(target):
        with open(target, mode, **options) as stream:
            yield stream
        return
    remove_leftovers(target)
    draft, descriptor = _new_name(target), -1
    try:
        try:
            draft, descriptor = _created(draft, target)
            with open(descriptor, mode, closefd=False, **options) as stream:
                yield stream
            os.fsync(descriptor)
            if fcntl is None:
                descriptor = _closed(descriptor)  # Windows cannot rename an open file
            os.replace(draft, target)
        finally:
            _closed(descriptor)
    except BaseException as error:
        draft.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno in NO_ROOM:
            kept = "the old file is unchanged" if target.exists() else "nothing was written"
            raise OSError(error.errno, f"{NO_ROOM[error.errno]}; {kept}", os.fspath(path)) from error
        raise
    _sync_folder(target.parent)


def check_writable(path: str | os.PathLike[str]) -> Path:
    """Raise an OSError that says why if `path` cannot be written; return the path with symbolic links resolved."""
    shown = os.fspath(path)
    if is_special(path):
        return Path(path)  # the target of /dev/stdout may have no name
    target = Path(os.path.realpath(path))
    folder = target.parent
    if not folder.exists():
        raise FileNotFoundError(errno.ENOENT, "There is no such folder", str(folder))
    if not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, "This is a file, a folder was expected", str(folder))
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, "This is a folder, a file was expected", shown)
    if target.is_symlink():
        raise OSError(errno.ELOOP, "The symbolic link leads to itself", shown)
    if target.exists() and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, "The file is write-protected", shown)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, "No permission to create files in this folder", str(folder))
    return target


def is_special(path: str | os.PathLike[str]) -> bool:
    """Return whether `path` is a device, a pipe or a socket."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def remove_leftovers(target: Path) -> None:
    """Delete the temporary files that killed processes left beside `target`."""
    pattern = re.compile(re.escape(_prefix(target)) + r"[0-9a-f]{16}\.part")
    with os.scandir(target.parent) as entries:
        found = [entry for entry in entries if pattern.fullmatch(entry.name)]
    for entry in found:
        with suppress(OSError):  # another process deleted it first, or permission is missing
            if entry.is_file(follow_symlinks=False):
                _remove_if_abandoned(entry)


def _remove_if_abandoned(entry: os.DirEntry[str]) -> None:
    if fcntl is None:
        if time.time() - entry.stat().st_mtime > STALE:
            os.unlink(entry.path)
        return
    descriptor = os.open(entry.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # fails while the writer runs, or without locks
        os.unlink(entry.path)  # while it is locked: a writer that is about to lock it then notices
    finally:
        os.close(descriptor)


def _new_name(target: Path) -> Path:
    return target.with_name(f"{_prefix(target)}{secrets.token_hex(8)}.part")


def _prefix(target: Path) -> str:
    return f".{target.name[:SHOWN]}."


def _created(draft: Path, target: Path) -> tuple[Path, int]:
    """Create and lock a file with the permissions of `target`; return its name and its descriptor, open for writing."""
    before = target.stat() if target.exists() else None
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    for _ in range(CREATION_ATTEMPTS):
        descriptor = os.open(draft, flags, 0o666 if before is None else 0o600)
        try:
            if before is not None:
                _keep_permissions(descriptor, before)
            if _locked(descriptor) and _is(draft, descriptor):
                return draft, descriptor
        except BaseException:
            os.close(descriptor)
            draft.unlink(missing_ok=True)
            raise
        os.close(descriptor)  # between creation and lock, another process deleted it as a leftover
        draft.unlink(missing_ok=True)
        draft = _new_name(target)  # the other process may still be about to delete the old name
    raise OSError(errno.EAGAIN, "Temporary files are deleted as soon as they are created", str(target.parent))


def _locked(descriptor: int) -> bool:
    if fcntl is None:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks: leftovers are not removed there
        return True
    return True


def _is(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _keep_permissions(descriptor: int, before: os.stat_result) -> None:
    """Set owner, group and mode as before. If the group cannot be set, it gets the permissions of other users."""
    mode = stat.S_IMODE(before.st_mode) & 0o777
    if not hasattr(os, "fchmod"):
        return
    now = os.fstat(descriptor)
    if now.st_gid != before.st_gid:
        try:
            os.fchown(descriptor, -1, before.st_gid)
        except OSError:
            mode = mode & ~0o070 | (mode & 0o007) << 3
    if now.st_uid != before.st_uid:
        with suppress(OSError):  # only root may change the owner
            os.fchown(descriptor, before.st_uid, -1)
    os.fchmod(descriptor, mode)


def _closed(descriptor: int) -> int:
    if descriptor >= 0:
        os.close(descriptor)
    return -1


def _sync_folder(folder: Path) -> None:
    """Flush the folder to disc, so that a rename survives a power failure."""
    if fcntl is None:
        return
    with suppress(OSError):  # some file systems do not support it
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
