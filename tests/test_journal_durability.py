"""A journal over months: snapshots and compaction, leases, older files, readers beside the writer, damage, disk trouble."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from zlib import crc32

import anyio
import anyio.lowlevel
import pytest
from test_journal import in_one_batch

from goalfsm._errors import JournalError, StaleOwner
from goalfsm._fold import decode_record
from goalfsm._journal import Holder, Loaded, Stored, open_journal
from goalfsm._sqlite import SqliteJournal
from goalfsm._sqlite_file import left_open
from goalfsm._sqlite_reader import open_reader, vacuum_file
from goalfsm._sqlite_schema import SCHEMA_VERSION, checksum

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parent.parent
FIXTURES = Path(__file__).parent / "fixtures"
LIMIT = 60  # seconds after which a test that waits has failed
sys.path.insert(0, str(FIXTURES))
import make_journal as made  # noqa: E402  the script beside the files that it made


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


async def write(journal, thread_id, count, *, epoch=1, first=1):
    for seq in range(first, first + count):
        await journal.append(thread_id, epoch, seq, b"%d" % seq)


def numbers(records):
    return [stored.seq for stored in records]


async def everything(journal):
    return {thread_id: loaded async for thread_id, loaded in journal.load_all()}


# --- snapshots ------------------------------------------------------------------------------------------------------


async def test_a_restart_loads_the_snapshot_and_only_the_records_after_it(journal):
    await journal.claim("t", "me", expected=0)
    await write(journal, "t", 5)
    await journal.snapshot("t", 1, 3, b"\x00state")
    assert await journal.load("t") == Loaded(1, b"\x00state", 3, [Stored(4, 1, b"4"), Stored(5, 1, b"5")])
    assert numbers(await journal.read("t")) == [1, 2, 3, 4, 5]


async def test_compaction_removes_the_steps_that_the_snapshot_stands_for_and_the_history_goes_on(journal):
    await journal.claim("t", "me", expected=0)
    await write(journal, "t", 5)
    await journal.snapshot("t", 1, 3, b"three", compact=True)
    assert numbers(await journal.read("t")) == numbers(await journal.read("t", after=1)) == [4, 5]
    assert numbers(await journal.read("t", after=4)) == [5]
    await journal.snapshot("t", 1, 5, b"five", compact=True)
    assert await journal.read("t") == []
    assert await journal.load("t") == Loaded(1, b"five", 5, [])
    with pytest.raises(JournalError, match="only number 6 can be appended, not 1"):
        await journal.append("t", 1, 1, b"from the start again")
    await journal.append("t", 1, 6, b"6")
    assert await journal.load("t") == Loaded(1, b"five", 5, [Stored(6, 1, b"6")])


async def test_after_compaction_and_a_restart_the_numbers_go_on_where_they_were(file):
    async with opened(file) as journal:
        await write(journal, "t", 3, epoch=0)
        await journal.snapshot("t", 0, 3, b"all", compact=True)
    async with opened(file) as journal:
        with pytest.raises(JournalError, match="only number 4"):
            await journal.append("t", 0, 1, b"again")
        await journal.append("t", 0, 4, b"4")
        assert numbers(await journal.read("t")) == [4]


@pytest.mark.parametrize(("seq", "allowed"), [(0, "2 to 4"), (1, "2 to 4"), (5, "2 to 4"), (-1, "2 to 4")])
async def test_a_snapshot_of_records_that_are_not_there_or_older_than_the_stored_one_is_refused(journal, seq, allowed):
    await write(journal, "t", 4, epoch=0)
    await journal.snapshot("t", 0, 2, b"two")
    with pytest.raises(JournalError, match=f"number {allowed} can be stored, not up to {seq}"):
        await journal.snapshot("t", 0, seq, b"wrong", compact=True)
    assert await journal.load("t") == Loaded(0, b"two", 2, [Stored(3, 0, b"3"), Stored(4, 0, b"4")])
    assert numbers(await journal.read("t")) == [1, 2, 3, 4]


async def test_a_thread_without_records_has_nothing_to_take_a_snapshot_of(journal):
    await journal.claim("t", "me", expected=0)
    with pytest.raises(JournalError, match="holds 0 records and a snapshot up to 0, so none can be stored"):
        await journal.snapshot("t", 1, 1, b"nothing")


async def test_after_a_take_over_the_old_owner_stores_no_snapshot_and_deletes_nothing(journal):
    await journal.claim("t", "old", expected=0)
    await write(journal, "t", 3)
    await journal.claim("t", "new", expected=1)
    with pytest.raises(StaleOwner, match="epoch 2"):
        await journal.snapshot("t", 1, 3, b"late", compact=True)
    assert await journal.load("t") == Loaded(2, None, 0, [Stored(seq, 1, b"%d" % seq) for seq in (1, 2, 3)])


async def test_a_snapshot_that_is_not_bytes_is_refused(journal):
    await write(journal, "t", 1, epoch=0)
    with pytest.raises(TypeError, match="a snapshot must be bytes, not str"):
        await journal.snapshot("t", 0, 1, "text")


async def test_steps_and_a_snapshot_of_them_may_be_asked_for_at_once(journal):
    await asyncio.gather(
        journal.append("t", 0, 1, b"1"),
        journal.append("t", 0, 2, b"2"),
        journal.snapshot("t", 0, 2, b"both", compact=True),
        journal.append("t", 0, 3, b"3"),
    )
    assert await journal.load("t") == Loaded(0, b"both", 2, [Stored(3, 0, b"3")])


async def test_nothing_is_loaded_of_a_thread_nobody_touched(journal):
    assert await journal.load("t") == Loaded(0, None, 0, [])
    assert await everything(journal) == {}


async def test_all_threads_are_loaded_as_each_alone_would_be(journal):
    names = sorted(f"thread-{n:04}" for n in range(700))
    for n, name in enumerate(names):
        epoch = await journal.claim(name, "me", expected=0)
        await asyncio.gather(*(journal.append(name, epoch, seq, b"%d" % seq) for seq in range(1, n % 7 + 1)))
        if n % 7 > 2:
            await journal.snapshot(name, epoch, n % 7 - 1, name.encode(), compact=n % 2 == 0)
    loaded = [pair async for pair in journal.load_all()]
    assert loaded == [(name, await journal.load(name)) for name in names]


async def test_threads_with_long_histories_are_loaded_whole(journal):
    for name, count in (("a", 5000), ("b", 3), ("c", 4096), ("d", 1), ("e", 600)):
        await asyncio.gather(*(journal.append(name, 0, seq, b"x") for seq in range(1, count + 1)))
    loaded = await everything(journal)
    assert {name: len(one.records) for name, one in loaded.items()} == {"a": 5000, "b": 3, "c": 4096, "d": 1, "e": 600}
    assert loaded["a"] == await journal.load("a")


async def test_other_tasks_go_on_while_all_threads_are_loaded(journal):
    await asyncio.gather(*(journal.append(f"t{n:04}", 0, 1, b"x") for n in range(2000)))
    turns = 0

    async def count():
        nonlocal turns
        while True:
            turns += 1
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as group:
        group.start_soon(count)
        assert len(await everything(journal)) == 2000
        group.cancel_scope.cancel()
    assert turns >= 7


async def test_the_iteration_may_be_left_early_and_the_file_closed_in_the_middle_of_it(file):
    async with opened(file) as journal:
        await asyncio.gather(*(journal.append(f"t{n:04}", 0, 1, b"x") for n in range(600)))
        async for _ in journal.load_all():
            break
        await journal.append("t0000", 0, 2, b"y")
        loading = journal.load_all()
        await anext(loading)
        await journal.aclose()
        with pytest.raises(JournalError, match="closed"):
            async for _ in loading:
                pass
    assert list(file.parent.iterdir()) == [file]


async def test_a_thread_that_is_compacted_while_it_is_read_is_still_seen_whole(file):
    async with opened(file) as journal:
        await asyncio.gather(*(journal.append("t", 0, seq, b"%d" % seq) for seq in range(1, 2001)))
        loading, reading = journal._rows.load("t"), journal._rows.read("t", 0)
        next(loading)
        next(reading)
        await journal.snapshot("t", 0, 1500, b"most", compact=True)
        loaded = await journal._pausing(loading)
        assert (loaded.snapshot, loaded.snapshot_seq) == (b"most", 1500)
        assert numbers(loaded.records) == numbers(await journal._pausing(reading)) == list(range(1501, 2001))


async def test_a_thread_that_is_compacted_away_while_it_is_read_is_not_cut_short(file):
    async with opened(file) as journal:
        await asyncio.gather(*(journal.append("t", 0, seq, b"%d" % seq) for seq in range(1, 1001)))
        loading = journal._rows.load("t")
        next(loading)
        await journal.snapshot("t", 0, 1000, b"all", compact=True)
        assert await journal._pausing(loading) == Loaded(0, b"all", 1000, [])


# --- leases ---------------------------------------------------------------------------------------------------------


async def test_a_holder_that_lives_is_seen_to_live_and_one_that_stopped_is_not(journal):
    await journal.claim("t", "1-aaaa", expected=0)
    assert await journal.holder("t") == Holder("1-aaaa", 1, 0)
    await journal.beat("1-aaaa")
    first = await journal.holder("t")
    await asyncio.gather(journal.beat("1-aaaa"), journal.beat("2-bbbb"), journal.beat("1-aaaa"))
    assert (first, await journal.holder("t")) == (Holder("1-aaaa", 1, 1), Holder("1-aaaa", 1, 3))
    assert await journal.holder("t") == await journal.holder("t")


async def test_after_a_take_over_the_heartbeat_is_the_new_owners(journal):
    await journal.claim("t", "1-aaaa", expected=0)
    await journal.beat("1-aaaa")
    await journal.claim("t", "2-bbbb", expected=1)
    assert await journal.holder("t") == Holder("2-bbbb", 2, 0)


async def test_an_owner_that_retired_has_no_heartbeat_and_still_its_epoch(journal):
    await journal.claim("t", "1-aaaa", expected=0)
    await journal.beat("1-aaaa")
    await journal.retire("1-aaaa")
    await journal.retire("never seen")
    assert await journal.holder("t") == Holder("1-aaaa", 1, 0)


async def test_a_thread_without_owner_says_so(journal):
    assert await journal.holder("t") == Holder("", 0, 0)
    await journal.append("t", 0, 1, b"unclaimed")
    assert await journal.holder("t") == Holder("", 0, 0)


async def test_the_heartbeat_of_another_process_is_seen_at_once(file):
    async with opened(file) as journal, opened(file) as other:
        await other.claim("t", "other", expected=0)
        for beat in range(1, 4):
            await other.beat("other")
            assert await journal.holder("t") == Holder("other", 1, beat)


async def test_a_closed_journal_says_so_to_the_new_questions_too(journal):
    await journal.append("t", 0, 1, b"one")
    await journal.aclose()
    for ask in (
        lambda: journal.load("t"),
        lambda: journal.holder("t"),
        lambda: journal.beat("me"),
        lambda: journal.retire("me"),
        lambda: journal.snapshot("t", 0, 1, b"x"),
        lambda: everything(journal),
    ):
        with pytest.raises(JournalError, match="closed"):
            await ask()


# --- files of other versions ----------------------------------------------------------------------------------------


@pytest.fixture
def of_version(tmp_path):
    def copy(version):
        return shutil.copy(FIXTURES / f"journal_v{version}.db", tmp_path / f"v{version}.db")

    return copy


async def holds(journal, owners, records, snapshots):
    assert await journal.threads() == sorted(owners)
    for thread_id, (owner, epoch) in owners.items():
        assert await journal.read(thread_id) == records[thread_id]
        holder = await journal.holder(thread_id)
        assert (holder.owner, holder.epoch) == (owner, epoch)
        seq, data = snapshots.get(thread_id, (0, None))
        after = [stored for stored in records[thread_id] if stored.seq > seq]
        assert await journal.load(thread_id) == Loaded(epoch, data, seq, after)


async def test_a_file_of_version_1_opens_keeps_everything_and_goes_on(of_version):
    path = of_version(1)
    for _ in range(2):
        async with opened(path) as journal:
            await holds(journal, made.OWNERS, made.RECORDS, {})
    async with opened(path) as journal:
        await journal.append("thread-a", 2, 4, b"next")
        await journal.snapshot("thread-a", 2, 4, b"all", compact=True)
    with open_reader(path) as reader:
        assert (reader.version, reader.problems()) == (SCHEMA_VERSION, [])


async def test_a_file_of_version_2_reads_back_byte_for_byte(of_version):
    async with opened(of_version(2)) as journal:
        await holds(journal, made.OWNERS_V2, made.RECORDS_V2, made.SNAPSHOTS_V2)
        assert await journal.holder("thread-a") == Holder("2-bbbbbbbb", 2, 3)
        event = [decode_record(stored.record).event for stored in await journal.read("thread-a") if stored.record]
        assert event == [{"name": "start"}, {"name": "submit", "id": "m-1"}]


async def test_a_file_made_now_has_the_format_of_the_one_that_is_kept(tmp_path):
    await made.make_v2(tmp_path / "now.db")
    dumps = [list(sqlite3.connect(path).iterdump()) for path in (tmp_path / "now.db", FIXTURES / "journal_v2.db")]
    assert dumps[0] == dumps[1]


async def test_a_version_1_file_made_with_the_old_statements_is_the_one_that_version_1_left(tmp_path):
    made.make_v1(tmp_path / "v1.db")
    dumps = [list(sqlite3.connect(path).iterdump()) for path in (tmp_path / "v1.db", FIXTURES / "journal_v1.db")]
    assert dumps[0] == dumps[1]


async def test_two_processes_that_open_an_old_file_at_once_bring_it_up_once(of_version):
    path = of_version(1)
    first, second = SqliteJournal(path), SqliteJournal(path)
    await asyncio.gather(first.start(), second.start())
    await holds(first, made.OWNERS, made.RECORDS, {})
    await holds(second, made.OWNERS, made.RECORDS, {})
    await asyncio.gather(first.aclose(), second.aclose())


async def test_a_migration_that_fails_leaves_the_old_file_as_it_was(of_version):
    path = of_version(1)
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE steps_1 (in_the_way)")
    db.commit()
    before = list(db.iterdump())
    with pytest.raises(JournalError, match=r"could not be opened: .*steps_1"):
        await SqliteJournal(path).start()
    assert list(db.iterdump()) == before
    db.execute("DROP TABLE steps_1")
    db.commit()
    db.close()
    async with opened(path) as journal:
        await holds(journal, made.OWNERS, made.RECORDS, {})


async def test_a_newer_version_is_refused_by_the_writer_and_by_the_reader(of_version):
    path = of_version(2)
    db = sqlite3.connect(path)
    db.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    db.commit()
    db.close()
    says = f"is of version {SCHEMA_VERSION + 1}, this goalfsm reads up to {SCHEMA_VERSION}$"
    with pytest.raises(JournalError, match=says):
        await SqliteJournal(path).start()
    with pytest.raises(JournalError, match=says):
        open_reader(path)


# --- damage ---------------------------------------------------------------------------------------------------------


def change(file, statement, *arguments):
    db = sqlite3.connect(file)
    db.execute(statement, arguments)
    db.commit()
    db.close()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE steps SET record = x'00' WHERE thread_id = 'u' AND seq = 2",
        "UPDATE steps SET epoch = 7 WHERE thread_id = 'u' AND seq = 2",
        "UPDATE steps SET crc = crc + 1 WHERE thread_id = 'u' AND seq = 2",
        "UPDATE steps SET record = (SELECT record FROM steps WHERE seq = 1) WHERE thread_id = 'u' AND seq = 2",
    ],
)
async def test_a_damaged_record_is_named_and_never_given(file, statement):
    async with opened(file) as journal:
        for name in ("t", "u", "v"):
            await write(journal, name, 3, epoch=0)
    change(file, statement)
    says = f"journal {file}: thread u, record 2 is damaged: its checksum does not match"
    async with opened(file) as journal:
        for ask in (lambda: journal.read("u"), lambda: journal.load("u"), lambda: everything(journal)):
            with pytest.raises(JournalError, match=says):
                await ask()
        assert numbers(await journal.read("t")) == [1, 2, 3]
    with open_reader(file) as reader:
        assert reader.problems() == [says]
        with pytest.raises(JournalError, match=says):
            reader.changes()


async def test_a_damaged_snapshot_is_named_and_never_given(file):
    async with opened(file) as journal:
        await write(journal, "t", 2, epoch=0)
        await journal.snapshot("t", 0, 2, b"good")
    change(file, "UPDATE snapshots SET data = x'00'")
    async with opened(file) as journal:
        for ask in (lambda: journal.load("t"), lambda: everything(journal)):
            with pytest.raises(JournalError, match=f"journal {file}: thread t, snapshot 2 is damaged"):
                await ask()


@pytest.mark.parametrize("seq", [1, 2])
async def test_a_record_that_is_gone_is_named_and_the_rest_is_no_shorter_history(file, seq):
    async with opened(file) as journal:
        await write(journal, "t", 3, epoch=0)
    change(file, "DELETE FROM steps WHERE seq = ?", seq)
    async with opened(file) as journal:
        for ask in (lambda: journal.read("t"), lambda: journal.load("t"), lambda: everything(journal)):
            with pytest.raises(JournalError, match=f"journal {file}: thread t, record {seq} is missing"):
                await ask()


def test_the_checksum_is_part_of_the_format():
    start = crc32("thread-ü".encode()) + 3 * 0x9E3779B1 + 2 * 0x85EBCA77
    assert checksum("thread-ü", 3, 2, b"record") == crc32(b"record", start % 2**32) == 1025694052


def spoil_the_steps(file):
    db = sqlite3.connect(file)
    ((page,),) = db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'steps'")
    db.close()
    content = bytearray(file.read_bytes())
    content[4096 * (page - 1) : 4096 * page] = b"\xa5" * 4096
    file.write_bytes(content)


async def test_a_broken_structure_is_refused_at_the_start_with_sqlites_own_words(file):
    async with opened(file) as journal:
        await write(journal, "t", 300, epoch=0)
    spoil_the_steps(file)
    with pytest.raises(JournalError, match=rf"^journal {file} could not be opened: it is damaged \(.*[Pp]age"):
        await SqliteJournal(file).start()
    with open_reader(file) as reader:
        assert reader.problems()


async def test_a_big_file_is_checked_only_if_it_was_left_open(file, monkeypatch):
    monkeypatch.setattr("goalfsm._sqlite_file._ALWAYS_CHECKED", 0)
    checked = []
    monkeypatch.setattr("goalfsm._sqlite_file.damage", lambda db: checked.append(db) or [])
    async with opened(file) as journal:
        await write(journal, "t", 1, epoch=0)
        assert left_open(file)
        shutil.copy(file, file.with_name("crashed.db"))
        shutil.copy(f"{file}-wal", file.with_name("crashed.db-wal"))
    async with opened(file):
        assert checked == []
    async with opened(file.with_name("crashed.db")) as journal:
        assert len(checked) == 1
        assert numbers(await journal.read("t")) == [1]


# --- readers beside the writer --------------------------------------------------------------------------------------


def beside(file):
    return sorted(entry.name for entry in file.parent.iterdir())


async def test_a_reader_sees_all_there_is_while_a_writer_holds_the_lock(file):
    async with opened(file) as journal:
        await journal.claim("t", "1-aaaa", expected=0)
        await journal.beat("1-aaaa")
        await write(journal, "t", 4)
        await journal.snapshot("t", 1, 2, b"two", compact=True)
        await journal.append("u", 0, 1, b"u")
        lock = sqlite3.connect(file, isolation_level=None)
        lock.execute("BEGIN IMMEDIATE")
        with open_reader(file) as reader:
            assert reader.threads() == ["t", "u"]
            assert reader.records("t") == await journal.read("t")
            assert numbers(reader.records("t", after=3)) == [4]
            assert reader.snapshot("t") == Stored(2, 1, b"two")
            assert reader.snapshot("u") is None
            assert reader.holder("t") == Holder("1-aaaa", 1, 1)
            assert reader.load("t") == await journal.load("t")
            assert dict(reader.load_all()) == await everything(journal)
            assert reader.problems() == []
        lock.execute("ROLLBACK")
        lock.close()


async def test_who_follows_a_file_gets_each_record_once_and_in_order(file):
    async with opened(file) as journal:
        await write(journal, "t", 2, epoch=0)
        with open_reader(file) as reader:
            assert [(one.thread_id, one.stored.seq) for one in reader.changes()] == [("t", 1), ("t", 2)]
            since = reader.last_id()
            assert reader.changes(since) == reader.changes(since) == []
            await journal.beat("me")
            assert reader.changes(since) == []
            await asyncio.gather(journal.append("u", 0, 1, b"u"), journal.append("t", 0, 3, b"3"))
            found = reader.changes(since)
            assert [(one.thread_id, one.stored.seq) for one in found] == [("u", 1), ("t", 3)]
            assert reader.changes(since, limit=1) == found[:1]
            assert reader.changes(found[-1].id) == []


async def test_who_follows_a_file_misses_nothing_after_compaction_and_vacuum(file):
    async with opened(file) as journal:
        await write(journal, "t", 3, epoch=0)
        with open_reader(file) as reader:
            since = reader.last_id()
            await journal.snapshot("t", 0, 3, b"all", compact=True)
            await journal.vacuum()
            await journal.append("t", 0, 4, b"4")
            assert [one.stored.seq for one in reader.changes(since)] == [4]


async def test_a_file_that_nobody_uses_is_read_without_leaving_anything_beside_it(file):
    async with opened(file) as journal:
        await write(journal, "t", 3, epoch=0)
    before = file.read_bytes()
    with open_reader(file) as reader:
        assert numbers(reader.records("t")) == [1, 2, 3]
        assert beside(file) == ["goals.db"]
    assert (beside(file), file.read_bytes()) == (["goals.db"], before)


async def test_a_reader_of_an_idle_file_sees_a_writer_that_comes_and_one_that_came_and_went(file):
    async with opened(file) as journal:
        await write(journal, "t", 1, epoch=0)
    with open_reader(file) as reader:
        assert numbers(reader.records("t")) == [1]
        async with opened(file) as journal:
            await write(journal, "t", 1, epoch=0, first=2)
            assert numbers(reader.records("t")) == [1, 2]
        assert numbers(reader.records("t")) == [1, 2]
        async with opened(file) as journal:
            await write(journal, "t", 1, epoch=0, first=3)
        assert [one.stored.seq for one in reader.changes()] == [1, 2, 3]


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
def read_only_directory(tmp_path_factory):
    # Not under tmp_path: its parents are closed to other users.
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)
        Path(name).chmod(0o755)


def close_to_writing(directory):
    for entry in directory.iterdir():
        entry.chmod(0o444)
    directory.chmod(0o555)


async def test_a_copy_on_a_medium_that_cannot_be_written_is_read(read_only_directory):
    copy = Path(shutil.copy(FIXTURES / "journal_v2.db", read_only_directory))
    close_to_writing(read_only_directory)
    with an_ordinary_user(), open_reader(copy) as reader:
        assert reader.threads() == sorted(made.OWNERS_V2)
        assert reader.problems() == []


async def test_a_copy_of_a_file_in_use_that_cannot_be_written_says_what_to_do(file, read_only_directory):
    async with opened(file) as journal:
        await write(journal, "t", 1, epoch=0)
        for name in ("goals.db", "goals.db-wal"):
            shutil.copy(file.with_name(name), read_only_directory)
    close_to_writing(read_only_directory)
    with an_ordinary_user(), pytest.raises(JournalError, match="copy the file together with its -wal file"):
        open_reader(read_only_directory / "goals.db")


def test_a_reader_of_a_version_1_file_reads_it_and_leaves_it_at_version_1(of_version):
    path = Path(of_version(1))
    before = path.read_bytes()
    with open_reader(path) as reader:
        assert reader.version == 1
        assert {thread_id: reader.records(thread_id) for thread_id in reader.threads()} == made.RECORDS
        assert reader.holder("thread-a") == Holder("2-bbbbbbbb", 2, 0)
        assert reader.snapshot("thread-a") is None
        assert len(reader.changes()) == 4
        assert {thread_id: loaded.records for thread_id, loaded in reader.load_all()} == made.RECORDS
    assert path.read_bytes() == before


async def test_a_reader_of_something_else_says_what_it_is(tmp_path):
    (tmp_path / "empty.db").touch()
    (tmp_path / "text.db").write_text("no database at all " * 50)
    sqlite3.connect(tmp_path / "other.db").execute("CREATE TABLE notes (text)").connection.close()
    for name, says in {
        "missing.db": "there is no journal",
        "empty.db": "is empty, so it is no goalfsm journal yet",
        "text.db": "it is not an SQLite database",
        "other.db": "is an SQLite database but no goalfsm journal",
        ".": "is a directory",
    }.items():
        with pytest.raises(JournalError, match=says):
            open_reader(tmp_path / name)


async def test_a_closed_reader_says_so(of_version):
    reader = open_reader(of_version(2))
    reader.close()
    reader.close()
    with pytest.raises(JournalError, match="closed"):
        reader.threads()


# --- space ----------------------------------------------------------------------------------------------------------


async def test_vacuum_gives_back_what_compaction_left_and_changes_nothing_else(file):
    async with opened(file) as journal:
        await asyncio.gather(*(journal.append("t", 0, seq, b"x" * 10_000) for seq in range(1, 201)))
        await journal.snapshot("t", 0, 199, b"most", compact=True)
        before = await everything(journal)
        results = await asyncio.gather(
            journal.append("u", 0, 1, b"u"), journal.vacuum(), journal.append("u", 0, 2, b"v")
        )
        assert results[1] > 1_000_000
        assert file.stat().st_size < 200_000
        assert {**await everything(journal), "u": None} == {**before, "u": None}
        assert numbers(await journal.read("u")) == [1, 2]


async def test_a_file_is_vacuumed_from_outside_and_one_that_is_locked_is_left_alone(file):
    async with opened(file) as journal:
        await asyncio.gather(*(journal.append("t", 0, seq, b"x" * 10_000) for seq in range(1, 201)))
        await journal.snapshot("t", 0, 200, b"all", compact=True)
    lock = sqlite3.connect(file, isolation_level=None)
    lock.execute("BEGIN IMMEDIATE")
    with pytest.raises(JournalError, match="could not be vacuumed: it is locked"):
        vacuum_file(file, busy_timeout=0.05)
    async with anyio.create_task_group():
        with pytest.raises(JournalError, match="locked"):
            await SqliteJournal(file, busy_timeout=0.05).start()
    lock.execute("ROLLBACK")
    lock.close()
    assert vacuum_file(file) > 1_000_000
    async with opened(file) as journal:
        assert await everything(journal) == {"t": Loaded(0, b"all", 200, [])}


async def test_steady_compaction_keeps_the_file_small_without_vacuum(file):
    async with opened(file) as journal:
        for last in range(100, 1001, 100):
            await asyncio.gather(*(journal.append("t", 0, seq, b"x" * 4000) for seq in range(last - 99, last + 1)))
            await journal.snapshot("t", 0, last, b"state", compact=True)
    assert file.stat().st_size < 2_000_000


# --- disk trouble ---------------------------------------------------------------------------------------------------


@contextmanager
def small_disk(directory):
    directory.mkdir()
    made_it = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(directory)], capture_output=True, text=True, check=False
    )
    if made_it.returncode:
        pytest.skip(f"a small file system cannot be mounted here: {made_it.stderr.strip()}")
    try:
        yield directory
    finally:
        subprocess.run(["umount", str(directory)], check=True)


@pytest.mark.skipif(not sys.platform.startswith("linux") or os.geteuid() != 0, reason="only root mounts a file system")
async def test_a_disk_that_fills_up_refuses_whole_batches_and_recovers_when_there_is_space(tmp_path):
    with small_disk(tmp_path / "disk") as disk:
        filler = disk / "filler"
        filler.write_bytes(b"x" * 300_000)
        async with opened(disk / "goals.db") as journal:
            kept, refusals = await fill(journal, 20_000, first=1)
            assert refusals
            assert all("full" in text for text in refusals)
            assert await histories(journal) == [kept] * 3
            with open_reader(disk / "goals.db") as reader:
                assert numbers(reader.records("a")) == list(range(1, kept + 1))
            filler.unlink()
            await asyncio.gather(*(journal.append(name, 0, kept + 1, b"x" * 20_000) for name in "abc"))
            assert await histories(journal) == [kept + 1] * 3
        async with opened(disk / "goals.db") as journal:
            assert await histories(journal) == [kept + 1] * 3
    assert kept >= 1


@pytest.mark.skipif(not sys.platform.startswith("linux") or os.geteuid() != 0, reason="only root mounts a file system")
async def test_a_new_journal_on_a_full_disk_is_refused_and_made_once_there_is_space(tmp_path):
    with small_disk(tmp_path / "disk") as disk:
        filler = disk / "filler"
        with suppress(OSError):
            filler.write_bytes(b"x" * 2_000_000)
        with pytest.raises(JournalError, match=r"could not be (opened|created): .*(full|No space)"):
            await SqliteJournal(disk / "goals.db").start()
        filler.unlink()
        async with opened(disk / "goals.db") as journal:
            await write(journal, "t", 2, epoch=0)


async def fill(journal, size, *, first):
    """Append to three histories in one batch until it fails; give how far all three got, and what was said."""
    for seq in range(first, 1000):
        asked = [journal.append(name, 0, seq, b"x" * size) for name in "abc"]
        results = await in_one_batch(journal, *asked)
        refusals = [str(result) for result in results if result is not None]
        assert len(refusals) in {0, 3}
        if refusals:
            return seq - 1, refusals
    raise AssertionError("it never failed")


async def histories(journal):
    return [len(await journal.read(name)) for name in "abc"]


LIMITED = """
import asyncio, resource, signal, sys
sys.path.insert(0, sys.argv[2])
from test_journal_durability import fill, histories
from goalfsm._sqlite import SqliteJournal

async def main():
    # The write that crosses the limit fails in the middle of a commit, as on a disk that breaks: EFBIG, no signal.
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    journal = SqliteJournal(sys.argv[1])
    await journal.start()
    await asyncio.gather(*(journal.append(name, 0, 1, b"x" * 30000) for name in "abc"))
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]), hard))
    kept, refusals = await fill(journal, 30000, first=2)
    seen = await histories(journal)
    print("failed", kept, seen == [kept] * 3, refusals[0], sep="|", flush=True)
    sys.stdin.readline()
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    await asyncio.gather(*(journal.append(name, 0, kept + 1, b"x" * 30000) for name in "abc"))
    print("recovered", flush=True)
    sys.stdin.readline()
    await journal.aclose()

asyncio.run(main())
"""


@contextmanager
def limited(file, limit):
    command = [sys.executable, "-c", LIMITED, str(file), str(Path(__file__).parent), str(limit)]
    child = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    try:
        word, kept, seen, reason = child.stdout.readline().strip().split("|")
        assert (word, seen) == ("failed", "True")
        assert f"journal {file} could not be written: " in reason
        yield child, int(kept)
    finally:
        child.kill()
        child.communicate()


# Within the log; and within the database, so that a checkpoint fails first and the log grows on.
@pytest.mark.parametrize("limit", [500_000, 4_300_000])
@pytest.mark.parametrize("recovers", [True, False])
async def test_a_write_that_fails_in_mid_commit_shows_nothing_and_loses_nothing(file, limit, recovers):
    with limited(file, limit) as (child, kept):
        if recovers:
            child.stdin.write("\n")
            child.stdin.flush()
            assert child.stdout.readline() == "recovered\n"
        child.send_signal(signal.SIGKILL)
        child.wait(LIMIT)
    acknowledged = kept + 1 if recovers else kept
    async with opened(file) as journal:
        assert await histories(journal) == [acknowledged] * 3
        await journal.append("a", 0, acknowledged + 1, b"after all")
    with open_reader(file) as reader:
        assert reader.problems() == []


async def test_a_full_disk_stores_no_snapshot_and_deletes_no_step(file):
    async with opened(file) as journal:
        await write(journal, "t", 3, epoch=0)
        db = journal._writer._tables._db
        (pages,) = db.execute("PRAGMA page_count").fetchone()
        db.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(JournalError, match="full"):
            await journal.snapshot("t", 0, 3, b"x" * 100_000, compact=True)
        assert await journal.load("t") == Loaded(0, None, 0, [Stored(seq, 0, b"%d" % seq) for seq in (1, 2, 3)])
        db.execute("PRAGMA max_page_count = 1000000")
        await journal.snapshot("t", 0, 3, b"x" * 100_000, compact=True)
        assert (await journal.load("t")).records == []


SYNC_FAILS = """
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
static int sync_(void) { if (access(getenv("FAILING"), F_OK)) return 0; errno = EIO; return -1; }
int fsync(int fd) { return sync_(); }
int fdatasync(int fd) { return sync_(); }
"""

SYNCING = """
import asyncio, os, pathlib, sys
from goalfsm._errors import JournalError
from goalfsm._sqlite import SqliteJournal

async def main():
    journal = SqliteJournal(sys.argv[1])
    await journal.start()
    await journal.append("t", 0, 1, b"one")
    failing = pathlib.Path(os.environ["FAILING"])
    failing.touch()
    try:
        await journal.append("t", 0, 2, b"refused")
    except JournalError as error:
        print(error)
    print(len(await journal.read("t")))
    if sys.argv[2] == "goes on":
        failing.unlink()
        await journal.append("t", 0, 2, b"two")
    os._exit(0)

asyncio.run(main())
"""


@pytest.fixture
def syncing(tmp_path):
    """A process whose syncs to disk fail once it says so: EIO, as the kernel gives it for a disk that breaks."""
    compiler = shutil.which("cc")
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("a C compiler for Linux is needed to make a sync fail")
    library = tmp_path / "sync_fails.so"
    command = [compiler, "-shared", "-fPIC", "-x", "c", "-", "-o", str(library)]
    subprocess.run(command, input=SYNC_FAILS, text=True, check=True, timeout=LIMIT)
    extra = {"PYTHONPATH": str(ROOT), "LD_PRELOAD": str(library), "FAILING": str(tmp_path / "failing")}

    def run(*arguments):
        done = subprocess.run(
            [sys.executable, "-c", SYNCING, *map(str, arguments)],
            capture_output=True,
            text=True,
            check=True,
            timeout=LIMIT,
            env={**os.environ, **extra},
        )
        return done.stdout.splitlines()

    return run


@pytest.mark.parametrize(("then", "found"), [("goes on", [b"one", b"two"]), ("dies", [b"one", b"refused"])])
def test_a_sync_that_fails_is_an_error_and_what_it_was_for_is_there_whole_only_after_a_crash(
    file, syncing, then, found
):
    assert syncing(file, then) == [f"journal {file} could not be written: disk I/O error", "1"]
    with open_reader(file) as reader:
        assert [stored.record for stored in reader.records("t")] == found
        assert reader.problems() == []


CRASHED = """
import asyncio, os, sys
from goalfsm._sqlite import SqliteJournal

async def main():
    journal = SqliteJournal(sys.argv[1])
    await journal.start()
    for seq in range(1, 6):
        await journal.append("t", 0, seq, b"%d" % seq)
    await journal.snapshot("t", 0, 4, b"four", compact=True)
    os._exit(0)

asyncio.run(main())
"""


@pytest.fixture
def crashed(file):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", CRASHED, str(file)], check=True, timeout=LIMIT, env=environment)
    return file


@pytest.mark.parametrize("cut", [0, 1, 4119])
async def test_a_torn_compaction_happened_whole_or_not_at_all(crashed, file, cut):
    wal = file.with_name("goals.db-wal")
    os.truncate(wal, wal.stat().st_size - cut)
    async with opened(file) as journal:
        loaded = await journal.load("t")
        if cut:
            assert loaded == Loaded(0, None, 0, [Stored(seq, 0, b"%d" % seq) for seq in range(1, 6)])
        else:
            assert loaded == Loaded(0, b"four", 4, [Stored(5, 0, b"5")])
        await journal.append("t", 0, 6, b"6")


async def test_a_long_lock_is_named_by_each_kind_of_write_and_all_go_on_after_it(file):
    async with opened(file, busy_timeout=0.05) as journal:
        await write(journal, "t", 1, epoch=0)
        lock = sqlite3.connect(file, isolation_level=None)
        lock.execute("BEGIN IMMEDIATE")
        for ask in (
            lambda: journal.snapshot("t", 0, 1, b"x", compact=True),
            lambda: journal.beat("me"),
            lambda: journal.retire("me"),
            journal.vacuum,
        ):
            with pytest.raises(JournalError, match="it is locked by another writer"):
                await ask()
        assert await journal.load("t") == Loaded(0, None, 0, [Stored(1, 0, b"1")])
        lock.execute("ROLLBACK")
        lock.close()
        await journal.beat("me")
        await journal.snapshot("t", 0, 1, b"x", compact=True)
        assert await journal.load("t") == Loaded(0, b"x", 1, [])


async def test_two_processes_take_turns_over_one_thread_across_compactions(file):
    async with opened(file) as one, opened(file) as two:
        epoch, last = 0, 0
        for turn in range(6):
            mine, other = (one, two) if turn % 2 == 0 else (two, one)
            epoch = await mine.claim("t", f"owner-{turn}", expected=epoch)
            await write(mine, "t", 3, epoch=epoch, first=last + 1)
            last += 3
            await mine.snapshot("t", epoch, last - turn % 2, b"%d" % turn, compact=True)
            with pytest.raises(StaleOwner):
                await other.append("t", epoch - 1, last + 1, b"late")
            assert await other.load("t") == await mine.load("t")
        assert numbers(await one.read("t")) == [18]
