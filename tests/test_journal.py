"""What a journal promises: the same promises for memory and SQLite, then what only a file can go through."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from goalfsm._errors import JournalError, StaleOwner
from goalfsm._journal import MemoryJournal, Stored, open_journal
from goalfsm._sqlite import SqliteJournal
from goalfsm._sqlite_file import APPLICATION_ID, SCHEMA_VERSION

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parent.parent
LIMIT = 30  # seconds after which a test that waits has failed


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture
def file(tmp_path):
    return tmp_path / "goals.db"


@pytest.fixture(params=["memory", "sqlite"])
async def journal(request, file):
    journal = open_journal(None if request.param == "memory" else file)
    await journal.start()
    yield journal
    await journal.aclose()


@asynccontextmanager
async def opened(path, **options):
    journal = SqliteJournal(path, **options)
    await journal.start()
    try:
        with anyio.fail_after(LIMIT):
            yield journal
    finally:
        await journal.aclose()


def writer_db(journal) -> sqlite3.Connection:
    """The writer's own connection, to make it fail; only touched while the writer waits for work."""
    return journal._writer._tables._db


async def in_one_batch(journal, *asked):
    """Ask for several things while the writer is busy, so that it must do them in one transaction; give the results."""
    busy, go_on = threading.Event(), threading.Event()

    def wait(_tables):
        busy.set()
        go_on.wait(LIMIT)

    waiting = journal._writer.ask(wait, ())
    try:
        await asyncio.to_thread(busy.wait, LIMIT)
        tasks = [asyncio.ensure_future(one) for one in asked]
        await anyio.lowlevel.checkpoint()
    finally:
        go_on.set()
    await waiting
    return await asyncio.gather(*tasks, return_exceptions=True)


def texts(records):
    return [stored.record for stored in records]


# --- the same promises for every journal ----------------------------------------------------------------------------


async def test_records_come_back_unchanged_and_in_order(journal):
    await journal.claim("t", "me", expected=0)
    payloads = [b"", b"\x00\xff\n", "ü🙂".encode(), b"x" * 100_000]
    for seq, payload in enumerate(payloads, 1):
        await journal.append("t", 1, seq, payload)
    assert await journal.read("t") == [Stored(seq, 1, payload) for seq, payload in enumerate(payloads, 1)]
    assert texts(await journal.read("t", after=2)) == payloads[2:]
    assert await journal.read("t", after=4) == await journal.read("t", after=99) == []


async def test_a_long_history_is_read_whole(journal):
    await asyncio.gather(*(journal.append("t", 0, seq, b"%d" % seq) for seq in range(1, 1025)))
    assert texts(await journal.read("t")) == [b"%d" % seq for seq in range(1, 1025)]
    assert [stored.seq for stored in await journal.read("t", after=512)] == list(range(513, 1025))


async def test_nothing_is_known_of_a_thread_nobody_touched(journal):
    assert journal.epoch_now("t") == await journal.epoch("t") == 0
    assert await journal.read("t") == await journal.threads() == []


async def test_a_thread_is_listed_once_it_was_claimed_or_written_to(journal):
    await journal.claim("b", "me", expected=0)
    await journal.append("c", 0, 1, b"unclaimed")
    await journal.claim("a", "me", expected=0)
    assert await journal.threads() == ["a", "b", "c"]
    assert journal.epoch_now("c") == 0


async def test_only_one_of_two_owners_that_saw_the_same_epoch_gets_the_thread(journal):
    assert await journal.claim("t", "first", expected=0) == 1
    with pytest.raises(StaleOwner) as refused:
        await journal.claim("t", "second", expected=0)
    assert (refused.value.epoch, refused.value.current) == (0, 1)
    assert await journal.claim("t", "second", expected=1) == journal.epoch_now("t") == 2


async def test_claiming_a_thread_at_an_epoch_it_never_had_leaves_it_unknown(journal):
    with pytest.raises(StaleOwner):
        await journal.claim("t", "me", expected=3)
    assert await journal.threads() == []


async def test_after_a_take_over_the_old_owner_writes_nothing_more(journal):
    await journal.claim("t", "old", expected=0)
    await journal.append("t", 1, 1, b"old")
    await journal.claim("t", "new", expected=1)
    with pytest.raises(StaleOwner, match="epoch 2"):
        await journal.append("t", 1, 2, b"too late")
    await journal.append("t", 2, 2, b"new")
    assert await journal.read("t") == [Stored(1, 1, b"old"), Stored(2, 2, b"new")]


async def test_an_epoch_from_the_future_is_refused_too(journal):
    with pytest.raises(StaleOwner):
        await journal.append("t", 1, 1, b"never claimed")
    assert await journal.threads() == []


@pytest.mark.parametrize("seq", [-1, 0, 1, 3])
async def test_a_gap_and_an_overwrite_are_refused_and_name_the_next_number(journal, seq):
    await journal.append("t", 0, 1, b"one")
    with pytest.raises(JournalError, match=f"thread t holds 1 records, so only number 2 can be appended, not {seq}"):
        await journal.append("t", 0, seq, b"wrong")
    await journal.append("t", 0, 2, b"two")
    assert texts(await journal.read("t")) == [b"one", b"two"]


async def test_appends_refused_in_the_middle_of_a_crowd_fail_alone(journal):
    await journal.claim("t", "me", expected=0)
    await journal.claim("u", "me", expected=0)
    results = await asyncio.gather(
        journal.append("t", 1, 1, b"a"),
        journal.append("t", 0, 2, b"stale"),
        journal.append("t", 1, 3, b"gap"),
        journal.append("t", 1, 2, b"b"),
        journal.append("u", 1, 1, b"c"),
        journal.claim("u", "you", expected=1),
        journal.append("u", 1, 2, b"stale"),
        journal.append("u", 2, 2, b"d"),
        return_exceptions=True,
    )
    assert [type(result) for result in results] == [
        type(None), StaleOwner, JournalError, type(None), type(None), int, StaleOwner, type(None),
    ]  # fmt: skip
    assert texts(await journal.read("t")) == [b"a", b"b"]
    assert texts(await journal.read("u")) == [b"c", b"d"]


async def test_a_thousand_threads_written_at_once_keep_their_own_histories(journal):
    async def write(name):
        epoch = await journal.claim(name, "me", expected=0)
        for seq in (1, 2, 3):
            await journal.append(name, epoch, seq, f"{name}-{seq}".encode())

    names = [f"thread-{n}" for n in range(1000)]
    await asyncio.gather(*map(write, names))
    assert await journal.threads() == sorted(names)
    for name in names:
        assert texts(await journal.read(name)) == [f"{name}-{seq}".encode() for seq in (1, 2, 3)]


@pytest.mark.parametrize("record", ["text", None, bytearray(b"x"), 1])
async def test_a_record_that_is_not_bytes_is_refused_before_anything_happens(journal, record):
    with pytest.raises(TypeError, match="a record must be bytes"):
        await journal.append("t", 0, 1, record)
    assert await journal.threads() == []


async def test_closing_twice_is_fine_and_a_closed_journal_says_so(journal):
    await journal.append("t", 0, 1, b"one")
    await journal.aclose()
    await journal.aclose()
    for ask in (journal.threads, lambda: journal.read("t"), lambda: journal.append("t", 0, 2, b"two")):
        with pytest.raises(JournalError, match="closed"):
            await ask()
    with pytest.raises(JournalError, match="closed"):
        await journal.claim("t", "me", expected=0)
    with pytest.raises(JournalError, match="closed"):
        journal.epoch_now("t")


async def test_starting_twice_changes_nothing_and_starting_after_closing_opens_it_again(journal):
    await journal.append("t", 0, 1, b"one")
    await journal.start()
    await journal.append("t", 0, 2, b"two")
    await journal.aclose()
    await journal.start()
    assert texts(await journal.read("t")) == [b"one", b"two"]


# --- choosing one ---------------------------------------------------------------------------------------------------


def test_none_is_memory_a_path_is_a_file_and_a_journal_is_itself(file):
    mine = MemoryJournal()
    assert isinstance(open_journal(None), MemoryJournal)
    assert isinstance(open_journal(str(file)), SqliteJournal)
    assert isinstance(open_journal(file), SqliteJournal)
    assert open_journal(mine) is mine
    assert not file.exists()


@pytest.mark.parametrize("path", ["", ":memory:"])
def test_a_path_that_names_no_file_is_refused(path):
    with pytest.raises(JournalError, match="names no file"):
        open_journal(path)


def test_something_that_only_looks_like_a_journal_is_refused_by_what_it_lacks():
    class Half:
        start = aclose = claim = epoch = append = threads = print

    with pytest.raises(TypeError, match="Half has no epoch_now, read"):
        open_journal(Half())


# --- files that are no journal --------------------------------------------------------------------------------------


async def refused(path, match, **options):
    before = open_files()
    with pytest.raises(JournalError, match=match) as error:
        await SqliteJournal(path, **options).start()
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)
    assert open_files() == before
    assert not writer_threads()


def open_files():
    return len(list(Path("/proc/self/fd").iterdir()))


def writer_threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("goalfsm-journal")]


async def test_a_directory_is_refused(tmp_path):
    await refused(tmp_path, "is a directory")


async def test_a_missing_parent_directory_is_named_and_not_made(tmp_path):
    await refused(tmp_path / "no" / "goals.db", f"there is no directory {tmp_path / 'no'}$")
    assert not (tmp_path / "no").exists()


async def test_a_file_that_is_no_database_is_refused_and_left_alone(file):
    file.write_bytes(b"objective: make the tests green\n" * 100)
    before = file.read_bytes()
    await refused(file, "could not be opened: it is not an SQLite database")
    assert file.read_bytes() == before


async def test_somebody_elses_database_is_refused_and_left_alone(file):
    db = sqlite3.connect(file)
    db.execute("CREATE TABLE notes (text)")
    db.commit()
    db.close()
    before = file.read_bytes()
    await refused(file, "is an SQLite database but no goalfsm journal")
    assert file.read_bytes() == before
    assert list(file.parent.iterdir()) == [file]


async def test_a_journal_of_a_newer_goalfsm_is_refused_and_left_alone(file):
    async with opened(file):
        pass
    db = sqlite3.connect(file)
    db.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    db.close()
    await refused(file, f"is of version {SCHEMA_VERSION + 1}, this goalfsm reads up to {SCHEMA_VERSION}$")


async def test_a_damaged_file_is_an_error_and_never_a_shorter_history(file):
    async with opened(file) as journal:
        await asyncio.gather(*(journal.append("t", 0, seq, b"x" * 3000) for seq in range(1, 21)))
    content = bytearray(file.read_bytes())
    content[4096:-4096] = b"\xa5" * (len(content) - 8192)
    file.write_bytes(content)
    with pytest.raises(JournalError, match=r"could not be opened: it is damaged \("):
        async with opened(file) as journal:
            await journal.read("t")


async def test_an_empty_file_left_by_a_crash_during_creation_becomes_a_journal(file):
    file.touch()
    async with opened(file) as journal:
        await journal.append("t", 0, 1, b"one")


@contextmanager
def an_ordinary_user():
    """Permission bits do not stop root; an unprivileged effective user is stopped like anybody."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


@pytest.fixture
def read_only_directory():
    # Not tmp_path: its parents are closed to other users.
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        directory.chmod(0o755)
        yield directory
        directory.chmod(0o755)


async def test_a_read_only_file_is_refused_at_the_start_and_not_at_the_first_append(read_only_directory):
    file = read_only_directory / "goals.db"
    async with opened(file) as journal:
        await journal.append("t", 0, 1, b"one")
    file.chmod(0o444)
    read_only_directory.chmod(0o555)
    with an_ordinary_user():
        await refused(file, "could not be (opened|created): ")


async def test_a_new_file_in_a_read_only_directory_is_refused(read_only_directory):
    read_only_directory.chmod(0o555)
    with an_ordinary_user():
        await refused(read_only_directory / "goals.db", "could not be created: Permission denied")


async def test_the_files_are_readable_by_their_owner_only_whatever_the_umask(tmp_path):
    tmp_path.chmod(0o755)
    before = os.umask(0)
    try:
        (tmp_path / "link.db").symlink_to(tmp_path / "goals.db")
        async with opened(tmp_path / "link.db") as journal:
            await journal.append("t", 0, 1, b"private")
            modes = {entry.name: stat.S_IMODE(entry.stat().st_mode) for entry in tmp_path.iterdir()}
    finally:
        os.umask(before)
    del modes["link.db"]
    assert modes == {"goals.db": 0o600, "goals.db-wal": 0o600, "goals.db-shm": 0o600}
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755


async def test_the_file_says_what_it_is_and_keeps_the_promised_durability(file):
    async with opened(file) as journal:
        db = writer_db(journal)
        found = [
            db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "journal_mode", "synchronous")
        ]
    assert found == [APPLICATION_ID, "wal", 2]


# --- failures while it runs -----------------------------------------------------------------------------------------


async def test_another_writers_lock_is_waited_for_then_named_and_over_when_it_ends(file):
    async with opened(file, busy_timeout=0.05) as journal:
        await journal.append("t", 0, 1, b"one")
        other = sqlite3.connect(file, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(JournalError, match=f"journal {file} could not be written: it is locked by another writer"):
            await journal.append("t", 0, 2, b"two")
        assert texts(await journal.read("t")) == [b"one"]
        assert journal.epoch_now("t") == 0
        await refused_while_locked(file)
        other.execute("ROLLBACK")
        other.close()
        await journal.append("t", 0, 2, b"two")
        assert texts(await journal.read("t")) == [b"one", b"two"]


async def refused_while_locked(file):
    with pytest.raises(JournalError, match="could not be opened: it is locked by another writer"):
        await SqliteJournal(file, busy_timeout=0.05).start()


async def test_a_lock_that_ends_in_time_only_delays(file):
    async with opened(file, busy_timeout=LIMIT) as journal:
        other = sqlite3.connect(file, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        async with anyio.create_task_group() as group:
            group.start_soon(journal.append, "t", 0, 1, b"one")
            await anyio.lowlevel.checkpoint()
            other.execute("ROLLBACK")
        other.close()
        assert texts(await journal.read("t")) == [b"one"]


async def test_a_full_disk_fails_the_whole_batch_shows_none_of_it_and_ends_with_the_shortage(file):
    async with opened(file) as journal:
        await journal.append("t", 0, 1, b"one")
        db = writer_db(journal)
        (pages,) = db.execute("PRAGMA page_count").fetchone()
        db.execute(f"PRAGMA max_page_count = {pages}")
        batch = [journal.append("t", 0, 2, b"small"), journal.append("u", 0, 1, b"x" * 100_000)]
        results = await in_one_batch(journal, *batch)
        assert all(isinstance(result, JournalError) and "full" in str(result) for result in results)
        assert texts(await journal.read("t")) == [b"one"]
        assert await journal.threads() == ["t"]
        await journal.append("t", 0, 2, b"fits")
        db.execute("PRAGMA max_page_count = 1000000")
        await journal.append("u", 0, 1, b"x" * 100_000)
        assert texts(await journal.read("t")) == [b"one", b"fits"]


async def test_a_file_that_turns_read_only_refuses_writes_goes_on_reading_and_recovers(file):
    async with opened(file) as journal:
        await journal.claim("t", "me", expected=0)
        writer_db(journal).execute("PRAGMA query_only = 1")
        with pytest.raises(JournalError, match=f"journal {file} could not be written: it is read-only"):
            await journal.append("t", 1, 1, b"one")
        with pytest.raises(JournalError, match="read-only"):
            await journal.claim("t", "you", expected=1)
        assert journal.epoch_now("t") == 1
        writer_db(journal).execute("PRAGMA query_only = 0")
        await journal.append("t", 1, 1, b"one")
        assert texts(await journal.read("t")) == [b"one"]


async def test_a_connection_that_broke_is_replaced(file):
    async with opened(file) as journal:
        await journal.append("t", 0, 1, b"one")
        writer_db(journal).close()
        with pytest.raises(JournalError, match="could not be written"):
            await journal.append("t", 0, 2, b"two")
        await journal.append("t", 0, 2, b"two")
        assert texts(await journal.read("t")) == [b"one", b"two"]


async def test_a_value_that_sqlite_cannot_take_fails_alone(file):
    async with opened(file) as journal:
        results = await asyncio.gather(
            journal.append("t", 0, 1, b"one"),
            journal.append("\ud800", 0, 1, b"no such text"),
            journal.claim(["list"], "me", expected=0),
            journal.append("t", 0, 2, b"two"),
            return_exceptions=True,
        )
        assert [type(result) for result in results] == [type(None), JournalError, JournalError, type(None)]
        assert texts(await journal.read("t")) == [b"one", b"two"]


async def test_tasks_that_append_at_the_same_time_share_their_commits(file):
    async with opened(file) as journal:
        statements = []
        writer_db(journal).set_trace_callback(statements.append)
        await asyncio.gather(*(journal.append(f"t{n}", 0, 1, b"x") for n in range(500)))
        writer_db(journal).set_trace_callback(None)
        assert len(await journal.threads()) == 500
        assert 1 <= statements.count("COMMIT") <= 50


# --- cancellation, closing, leaks -----------------------------------------------------------------------------------


async def test_a_cancelled_append_still_happens_whole_and_blocks_nobody(file):
    async with opened(file) as journal:
        async with anyio.create_task_group() as group:
            group.start_soon(journal.append, "t", 0, 1, b"one")
            await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()
        await journal.append("t", 0, 2, b"two")
        assert texts(await journal.read("t")) == [b"one", b"two"]


async def test_a_cancelled_append_that_fails_leaves_no_complaint_behind(file):
    complaints = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: complaints.append(context))
    async with opened(file) as journal:
        task = asyncio.ensure_future(journal.append("t", 7, 1, b"stale"))
        await anyio.lowlevel.checkpoint()
        task.cancel()
        await asyncio.wait([task])
        assert await journal.read("t") == []
    del task
    gc.collect()
    assert complaints == []


async def test_closing_finishes_what_is_pending_first(file):
    journal = SqliteJournal(file)
    await journal.start()
    pending = [asyncio.ensure_future(journal.append("t", 0, seq, b"x")) for seq in range(1, 101)]
    await anyio.lowlevel.checkpoint()
    await journal.aclose()
    assert await asyncio.gather(*pending) == [None] * 100
    async with opened(file) as journal:
        assert len(await journal.read("t")) == 100


async def test_closing_twice_at_once_and_closing_under_a_cancel_leave_nothing(file):
    before = open_files()
    journal = SqliteJournal(file)
    await journal.start()
    await asyncio.gather(journal.aclose(), journal.aclose())
    assert (open_files(), writer_threads()) == (before, [])
    await journal.start()
    with anyio.CancelScope() as scope:
        scope.cancel()
        await journal.aclose()
    assert (open_files(), writer_threads()) == (before, [])


async def test_opening_and_closing_many_times_leaks_no_file_and_no_thread(file):
    before = open_files(), threading.active_count()
    for seq in range(1, 31):
        async with opened(file) as journal:
            await journal.append("t", 0, seq, b"x")
    assert (open_files(), threading.active_count()) == before
    assert list(file.parent.iterdir()) == [file]


async def test_a_start_that_is_cancelled_can_be_repeated(file):
    journal = SqliteJournal(file)
    task = asyncio.ensure_future(journal.start())
    await anyio.lowlevel.checkpoint()
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    await journal.start()
    await journal.append("t", 0, 1, b"one")
    await journal.aclose()
    for thread in writer_threads():
        thread.join(LIMIT)
    assert writer_threads() == []


async def test_two_starts_at_once_open_it_once(file):
    journal = SqliteJournal(file)
    await asyncio.gather(journal.start(), journal.start())
    assert len(writer_threads()) == 1
    await journal.aclose()


# --- other processes ------------------------------------------------------------------------------------------------

PRELUDE = """
import asyncio, sys
from goalfsm._errors import JournalError, StaleOwner
from goalfsm._sqlite import SqliteJournal

def run(main):
    async def opened():
        journal = SqliteJournal(sys.argv[1], busy_timeout=30)
        await journal.start()
        print("ready", flush=True)
        sys.stdin.readline()
        await main(journal)
        await journal.aclose()
    asyncio.run(opened())
"""

WRITER = """
async def main(journal):
    await journal.claim("t", "child", expected=0)
    for seq in range(1, 6):
        await journal.append("t", 1, seq, b"record %d" % seq)
    print("written", flush=True)
    sys.stdin.readline()
run(main)
"""


@contextmanager
def process(script, file, *arguments):
    command = [sys.executable, "-c", PRELUDE + script, str(file), *arguments]
    child = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    try:
        assert child.stdout.readline() == "ready\n"
        yield child
    finally:
        child.kill()
        child.communicate()


def go(child):
    child.stdin.write("\n")
    child.stdin.flush()


@pytest.fixture
def killed(file):
    """A file whose writer was killed right after it acknowledged five records."""
    with process(WRITER, file) as child:
        go(child)
        assert child.stdout.readline() == "written\n"
        child.send_signal(signal.SIGKILL)
        child.wait(LIMIT)
    assert file.with_name("goals.db-wal").stat().st_size > 0
    return file


async def test_what_was_acknowledged_survives_kill_9(killed):
    async with opened(killed) as journal:
        assert texts(await journal.read("t")) == [b"record %d" % seq for seq in range(1, 6)]
        assert journal.epoch_now("t") == 1
        await journal.append("t", 1, 6, b"the next one")


@pytest.mark.parametrize("cut", [1, 24, 4096, 4119])
async def test_a_torn_tail_loses_only_the_commit_it_tore(killed, cut):
    wal = killed.with_name("goals.db-wal")
    os.truncate(wal, wal.stat().st_size - cut)
    async with opened(killed) as journal:
        assert texts(await journal.read("t")) == [b"record %d" % seq for seq in range(1, 5)]
        await journal.append("t", 1, 5, b"again")
        assert len(await journal.read("t")) == 5


@pytest.mark.parametrize("keep", [0.0, 0.3, 0.5, 0.8])
async def test_a_deeply_torn_log_gives_a_prefix_of_the_history_that_can_go_on(killed, keep):
    wal = killed.with_name("goals.db-wal")
    os.truncate(wal, int(wal.stat().st_size * keep))
    async with opened(killed) as journal:
        records = texts(await journal.read("t"))
        assert records == [b"record %d" % seq for seq in range(1, len(records) + 1)]
        await journal.append("t", journal.epoch_now("t"), len(records) + 1, b"again")


async def test_a_claim_of_another_process_is_seen_at_once_even_in_the_middle_of_a_long_read(file):
    script = """
async def main(journal):
    await journal.claim("t", "child", expected=1)
    print("claimed", flush=True)
run(main)
"""
    async with opened(file) as journal:
        await journal.claim("t", "me", expected=0)
        await asyncio.gather(*(journal.append("t", 1, seq, b"x") for seq in range(1, 1001)))
        with process(script, file) as child:
            reading = asyncio.ensure_future(journal.read("t"))
            await anyio.lowlevel.checkpoint()
            assert not reading.done()
            go(child)
            assert child.stdout.readline() == "claimed\n"
            assert not reading.done()
            assert journal.epoch_now("t") == 2
            assert len(await reading) == 1000
        with pytest.raises(StaleOwner):
            await journal.append("t", 1, 1001, b"too late")


def outputs(children):
    return [child.communicate("\n", timeout=LIMIT)[0].split() for child in children]


def test_of_two_processes_that_race_for_a_thread_exactly_one_wins_each_epoch(file):
    script = """
async def main(journal):
    for epoch in range(100):
        try:
            print(await journal.claim("t", "child", expected=epoch), flush=True)
        except StaleOwner:
            pass
run(main)
"""
    with process(script, file) as one, process(script, file) as two:
        go(one)
        go(two)
        first, second = outputs([one, two])
    assert sorted(map(int, first + second)) == list(range(1, 101))


async def test_two_processes_that_append_to_one_history_leave_no_gap_and_lose_nothing(file):
    script = """
async def main(journal):
    for n in range(50):
        while True:
            seq = len(await journal.read("t")) + 1
            try:
                await journal.append("t", 0, seq, f"{sys.argv[2]} {n}".encode())
                break
            except JournalError as error:
                assert "so only number" in str(error), error
run(main)
"""
    with process(script, file, "one") as one, process(script, file, "two") as two:
        go(one)
        go(two)
        outputs([one, two])
        assert (one.returncode, two.returncode) == (0, 0)
    async with opened(file) as journal:
        records = await journal.read("t")
    assert [stored.seq for stored in records] == list(range(1, 101))
    for name in (b"one", b"two"):
        mine = [stored.record for stored in records if stored.record.startswith(name)]
        assert mine == [b"%s %d" % (name, n) for n in range(50)]


def test_processes_that_create_one_file_at_the_same_time_all_succeed(file):
    script = "import sys; sys.stdin.readline()" + PRELUDE + "\nasync def main(journal): pass\nrun(main)"
    command = [sys.executable, "-c", script, str(file)]
    children = [
        subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        for _ in range(4)
    ]
    for child in children:
        go(child)
    assert outputs(children) == [["ready"]] * 4
    assert [child.returncode for child in children] == [0] * 4


def test_a_host_that_forgets_to_close_still_ends_and_keeps_what_was_acknowledged(file):
    script = """
import asyncio, sys
from goalfsm._sqlite import SqliteJournal

async def main():
    journal = SqliteJournal(sys.argv[1])
    await journal.start()
    await journal.append("t", 0, 1, b"one")

asyncio.run(main())
"""
    command = [sys.executable, "-c", script, str(file)]
    done = subprocess.run(
        command, timeout=LIMIT, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    assert (done.returncode, done.stderr) == (0, "")

    async def read():
        async with opened(file) as journal:
            return texts(await journal.read("t"))

    assert asyncio.run(read()) == [b"one"]
