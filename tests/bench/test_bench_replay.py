"""What the benchmark of replay measures is taken by the kernel, and replays."""

from tests.bench import bench_replay


def test_the_course_is_written_and_replayed(tmp_path, monkeypatch):
    monkeypatch.setattr(bench_replay, "ROUNDS", 100)
    written = bench_replay.write(tmp_path / "ledger.db")
    assert written == 100 * bench_replay.ROUND
    assert bench_replay.replay(tmp_path / "ledger.db", 1, written) == written
