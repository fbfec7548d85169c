"""Files are written completely or not at all, also with other writers, killed processes or a full disk."""

import errno
import os
import signal
import stat
import subprocess
import sys
import threading
import time

import pytest

from gpclass.files import check_writable, replacing

posix = pytest.mark.skipif(sys.platform == "win32", reason="permissions, links and signals of Unix")
SIZE = 200_000


def write(path, data, **options):
    with replacing(path, **options) as stream:
        stream.write(data)


def names(folder):
    return sorted(p.name for p in folder.iterdir())


def mode(path):
    return stat.S_IMODE(os.stat(path).st_mode)


def test_text_and_bytes(tmp_path):
    write(tmp_path / "a", b"\x00\xff")
    assert (tmp_path / "a").read_bytes() == b"\x00\xff"
    write(tmp_path / "a", "ü\n", mode="w", encoding="utf-8", newline="\r\n")
    assert (tmp_path / "a").read_bytes() == b"\xc3\xbc\r\n"
    assert names(tmp_path) == ["a"]


@pytest.mark.parametrize("old", [None, b"old"])
@pytest.mark.parametrize("error", [RuntimeError("x"), KeyboardInterrupt(), OSError(errno.ENOSPC, "No space left on device")])
def test_an_error_leaves_everything_as_it_was(tmp_path, old, error):
    path = tmp_path / "a"
    if old is not None:
        path.write_bytes(old)
    before = names(tmp_path)

    def fail():
        with replacing(path) as stream:
            stream.write(b"new")
            raise error

    with pytest.raises(type(error)):
        fail()
    assert names(tmp_path) == before
    assert old is None or path.read_bytes() == old


def test_a_full_disc_is_named(tmp_path):
    def fail():
        with replacing(tmp_path / "a"):
            raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match=r"the disc is full; nothing was written.*a'") as caught:
        fail()
    assert caught.value.errno == errno.ENOSPC


LIMITED = """
import resource, sys
from gpclass.files import replacing
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    with replacing(sys.argv[1]) as stream:
        stream.write(bytes(200_000))
except OSError as error:
    print(error)
"""


@posix
def test_the_system_refuses_more_bytes(tmp_path):
    """A write that the operating system stops halfway, as on a full disk."""
    path = tmp_path / "a"
    path.write_bytes(b"old")
    done = subprocess.run([sys.executable, "-c", LIMITED, path], capture_output=True, text=True, check=True)
    assert "the old file is unchanged" in done.stdout
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["a"]


@posix
@pytest.mark.parametrize("kept", [0o600, 0o640, 0o666, 0o755])
def test_permissions_are_kept(tmp_path, kept):
    path = tmp_path / "a"
    path.touch()
    path.chmod(kept)
    with replacing(path) as stream:
        (draft,) = (p for p in tmp_path.iterdir() if p != path)
        assert mode(draft) == kept  # also while it is being written
        stream.write(b"new")
    assert (mode(path), path.read_bytes()) == (kept, b"new")


@posix
def test_new_files_have_the_usual_permissions(tmp_path):
    old = os.umask(0o027)
    try:
        write(tmp_path / "a", b"")
    finally:
        os.umask(old)
    assert mode(tmp_path / "a") == 0o640


@posix
def test_links_are_followed(tmp_path):
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to("elsewhere/real")
    (tmp_path / "link of link").symlink_to(tmp_path / "link")
    write(tmp_path / "link of link", b"new")
    assert (folder / "real").read_bytes() == b"new"
    assert (tmp_path / "link").is_symlink()
    assert names(folder) == ["real"]
    (tmp_path / "dangling").symlink_to("elsewhere/not yet")
    write(tmp_path / "dangling", b"new")
    assert (folder / "not yet").read_bytes() == b"new"
    (tmp_path / "circle").symlink_to("circle")
    with pytest.raises(OSError, match="leads to itself"):
        write(tmp_path / "circle", b"new")


@posix
def test_devices_and_pipes_stay(tmp_path):
    write("/dev/null", b"new")
    assert not os.path.isfile("/dev/null")
    os.mkfifo(tmp_path / "pipe")
    read = []
    reader = threading.Thread(target=lambda: read.append((tmp_path / "pipe").read_bytes()))
    reader.start()
    write(tmp_path / "pipe", b"new")
    reader.join(10)
    assert read == [b"new"]
    code = "from gpclass.files import replacing\nwith replacing('/dev/stdout') as s: s.write(b'new')"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout == b"new"


def test_where_nothing_can_be_written(tmp_path):
    (tmp_path / "file").touch()
    for path, error, told in [
        (tmp_path / "none" / "a", FileNotFoundError, "no such folder"),
        (tmp_path / "file" / "a", NotADirectoryError, "a folder was expected"),
        (tmp_path, IsADirectoryError, "a file was expected"),
    ]:
        with pytest.raises(error, match=told):
            check_writable(path)
        with pytest.raises(error, match=told):
            write(path, b"")


@posix
@pytest.mark.skipif(hasattr(os, "geteuid") and os.geteuid() == 0, reason="root may write everywhere")
def test_write_protection_is_respected(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"old")
    path.chmod(0o400)
    with pytest.raises(PermissionError, match="write-protected"):
        write(path, b"")
    path.chmod(0o600)
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(PermissionError, match="create files in this folder"):
            write(path, b"")
    finally:
        tmp_path.chmod(0o700)
    assert path.read_bytes() == b"old"


def test_long_names(tmp_path):
    path = tmp_path / ("ü" * 127)  # 254 of the 255 bytes that systems allow
    write(path, b"new")
    assert path.read_bytes() == b"new"


def test_names_are_no_patterns(tmp_path):
    stranger = tmp_path / ".axb.0123456789abcdef.part"
    stranger.touch()
    write(tmp_path / "a.b", b"")
    assert stranger.exists()
    write(tmp_path / "axb", b"")
    assert not stranger.exists()


def test_ctrl_c_at_every_bytecode(tmp_path):
    """The file is the old or the new one, and no other files remain."""
    path, count = tmp_path / "a", 0

    def enter(frame, event, argument):
        if frame.f_code.co_filename != sys.modules["gpclass.files"].__file__:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return step

    def step(frame, event, argument):
        nonlocal count
        if event == "opcode":
            count -= 1
            if count == 0:
                raise KeyboardInterrupt
        return step

    found = set()
    for at in range(1, 5000):
        path.write_bytes(b"old")
        count = at
        sys.settrace(enter)
        try:
            write(path, b"new")
            break
        except KeyboardInterrupt:
            found.add(path.read_bytes())
            assert names(tmp_path) == ["a"]
        finally:
            sys.settrace(None)
    assert path.read_bytes() == b"new"
    assert found == {b"old", b"new"}
    assert at > 200


WRITER = """
import sys, time
from gpclass.files import replacing
with replacing(sys.argv[1]) as stream:
    stream.write(b"half")
    stream.flush()
    print("begun", flush=True)
    time.sleep(60)
"""


@posix
def test_leftovers_of_the_dead_are_removed_and_files_of_the_living_kept(tmp_path):
    path = tmp_path / "a"
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, path], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    try:
        for writer in writers:
            assert writer.stdout.readline() == "begun\n"
        assert len(names(tmp_path)) == 2
        write(path, b"whole")
        assert len(names(tmp_path)) == 3  # both are still writing
        os.kill(writers[0].pid, signal.SIGKILL)
        writers[0].wait()
        write(path, b"whole")
        assert len(names(tmp_path)) == 2
    finally:
        for writer in writers:
            writer.kill()
            writer.wait()
            writer.stdout.close()
    write(path, b"whole")
    assert names(tmp_path) == ["a"]


MANY = """
import sys
from gpclass.files import replacing
for _ in range(15):
    with replacing(sys.argv[1]) as stream:
        for _ in range(20):
            stream.write(sys.argv[2].encode() * 10_000)
"""


def test_threads_and_processes_on_one_path(tmp_path):
    """Every read gets a complete file of one writer, and no writer fails."""
    path = tmp_path / "a"
    write(path, b"a" * SIZE)
    failed = []

    def work(letter):
        try:
            for _ in range(15):
                with replacing(path) as stream:
                    for _ in range(20):
                        stream.write(letter * 10_000)
        except BaseException as error:  # an error in a thread would not be noticed
            failed.append(error)

    threads = [threading.Thread(target=work, args=(letter,)) for letter in (b"b", b"c", b"d")]
    children = [subprocess.Popen([sys.executable, "-c", MANY, path, letter]) for letter in "ef"]
    for thread in threads:
        thread.start()
    reads = 0
    while any(t.is_alive() for t in threads) or any(c.poll() is None for c in children):
        data = path.read_bytes()
        assert len(data) == SIZE
        assert data == data[:1] * SIZE
        reads += 1
        time.sleep(0.001)
    assert reads
    assert not failed
    assert [c.wait() for c in children] == [0, 0]
    assert names(tmp_path) == ["a"]
