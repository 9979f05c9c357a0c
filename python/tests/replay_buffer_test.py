"""Tests of the replay buffers in Python. The names of DI-engine's own assertions (naive push, advanced update, ...) are in the tests."""

import gc
import math
import multiprocessing
import os
import pickle
import threading

import numpy as np
import pytest

import ding_worker as dw

OBS = 3


def step(i, done=False, **more):
    """Transition i of a stream that goes on: its next_obs is the obs of transition i + 1."""
    return {
        "obs": np.full(OBS, i, np.float32),
        "action": i % 2,
        "reward": float(i),
        "next_obs": np.full(OBS, i + 1, np.float32),
        "done": done,
        **more,
    }


def steps(n, first=0, **more):
    return [step(i, **more) for i in range(first, first + n)]


def columns(n, first=0):
    numbers = np.arange(first, first + n)
    obs = np.repeat(numbers[:, None], OBS, axis=1).astype(np.float32)
    return {
        "obs": obs,
        "action": numbers % 2,
        "reward": numbers.astype(np.float32),
        "next_obs": obs + 1,
        "done": np.zeros(n, bool),
    }


def all_rows(buffer):
    """The reward of every row, sorted: which rows the buffer holds."""
    return sorted(buffer.sample(buffer.count(), 0, columns=True)["reward"].tolist())


def naive(**cfg):
    return dw.NaiveReplayBuffer({"replay_buffer_size": 64, **cfg}, instance_name="mine")


def advanced(**cfg):
    return dw.AdvancedReplayBuffer({"replay_buffer_size": 64, **cfg}, instance_name="mine")


# Pushing and drawing.


def test_naive_push_single_and_lists():
    buffer = naive()
    for i in range(100):
        buffer.push(step(i), i)
    assert (buffer.count(), buffer.push_count, buffer.replay_buffer_size) == (64, 100, 64)
    assert all_rows(buffer) == list(range(36, 100))
    for i in range(3):
        buffer.push(steps(38, 100 + 38 * i), i)
    assert (buffer.count(), buffer.push_count) == (64, 214)
    assert all_rows(buffer) == list(range(150, 214))
    buffer.update({"anything": 1})
    buffer.push([], 0)
    assert buffer.push_count == 214


@pytest.mark.parametrize("push", [lambda b: b.push(steps(20), 0), lambda b: b.push(columns(20), 0, columns=True),
                                  lambda b: b.push(tuple(steps(20)), 0), lambda b: [b.push(s, 0) for s in steps(20)]])
def test_each_way_to_push_gives_the_same_rows(push):
    buffer = naive()
    push(buffer)
    expected = naive()
    expected.push(steps(20), 0)
    drawn, wanted = buffer.sample(8, 0, columns=True), expected.sample(8, 0, columns=True)
    assert list(drawn) == ["obs", "action", "reward", "done", "next_obs", "discount", "n_step", "replay_unique_id"]
    for name, column in wanted.items():
        assert column.dtype == drawn[name].dtype, name
        np.testing.assert_array_equal(drawn[name], column)
    np.testing.assert_array_equal(drawn["next_obs"], drawn["obs"] + 1)


def test_sample_is_a_list_of_what_was_pushed():
    buffer = naive()
    buffer.push(steps(40), 0)
    rows = buffer.sample(32, 0)
    assert len(rows) == 32 and len({row["replay_unique_id"] for row in rows}) == 32
    for row in rows:
        pushed = step(int(row["reward"]))
        assert set(row) == set(pushed) | {"discount", "n_step", "replay_unique_id"}
        for key, value in pushed.items():
            np.testing.assert_array_equal(row[key], value)
    assert rows[0]["obs"].dtype == np.float32 and rows[0]["action"].dtype == np.int64 and rows[0]["done"].dtype == bool
    assert buffer.sample(0, 0) == []


def test_too_few_rows_are_none_and_a_line_in_the_log(caplog):
    buffer = naive()
    assert buffer.sample(1, 0) is None
    buffer.push(steps(4), 0)
    assert buffer.sample(5, 0, columns=True) is None
    assert "mine: cannot draw 5 distinct rows: the buffer holds 4" in caplog.text
    assert len(buffer.sample(5, 0, replace=True)) == 5


def test_sample_range_is_by_age():
    buffer = naive()
    buffer.push(steps(100), 0)
    assert buffer.sample(1, 0, sample_range=slice(-1, None))[0]["reward"] == 99
    drawn = buffer.sample(8, 0, sample_range=slice(-10, -2), columns=True)
    assert sorted(drawn["reward"].tolist()) == list(range(90, 98))
    with pytest.raises(ValueError, match="expected a slice without a step"):
        buffer.sample(1, 0, sample_range=slice(0, 10, 2))
    with pytest.raises(TypeError, match=r"expected a slice, such as slice\(-10, None\)"):
        buffer.sample(1, 0, sample_range=3)


def test_clear():
    buffer = naive()
    buffer.push(steps(10), 0)
    buffer.clear()
    assert (buffer.count(), buffer.push_count) == (0, 0)
    buffer.push(steps(3, 10), 0)
    assert all_rows(buffer) == [10, 11, 12]


def test_equal_seeds_draw_equal_rows():
    drawn = []
    for seed in (1, 1, 2):
        buffer = naive(seed=seed)
        buffer.push(steps(50), 0)
        drawn.append(buffer.sample(16, 0, columns=True)["reward"].tolist())
    assert drawn[0] == drawn[1] != drawn[2]


def test_nested_observations():
    buffer = naive()

    def nested(i):
        return {"obs": {"pos": np.float32([i]), "goal": {"x": np.int64(i)}}, "action": 0, "reward": i,
                "next_obs": {"pos": np.float32([i + 1]), "goal": {"x": np.int64(i + 1)}}, "logit": {"a": np.zeros(2, np.float32)}}

    buffer.push([nested(i) for i in range(10)], 0)
    drawn = buffer.sample(4, 0, columns=True)
    np.testing.assert_array_equal(drawn["next_obs"]["goal"]["x"], drawn["obs"]["goal"]["x"] + 1)
    assert drawn["logit"]["a"].shape == (4, 2)
    row = buffer.sample(1, 0)[0]
    assert row["next_obs"]["pos"] == row["obs"]["pos"] + 1
    buffer.push({name: drawn[name] for name in nested(0)}, 0, columns=True)  # what was drawn can be pushed again
    assert buffer.count() == 14


def test_dtypes_shapes_and_strides_are_kept_or_converted():
    buffer = naive()
    data = {
        "obs": np.arange(24, dtype=np.float64).reshape(3, 8).T[:, :2],  # strided float64
        "action": np.arange(8, dtype=np.int32),
        "reward": np.arange(8, dtype=np.float64),
        "next_obs": np.zeros((8, 2), np.float32),
        "pixels": np.arange(64, dtype=np.uint8).reshape(8, 2, 4),
        "flag": np.arange(16).reshape(8, 2) % 3 == 0,
        "id": np.arange(8, dtype=np.int64),
    }
    buffer.push(data, 0, columns=True)
    drawn = buffer.sample(8, 0, columns=True)
    order = drawn["id"]
    for name, column in data.items():
        assert drawn[name].dtype == (np.float32 if column.dtype == np.float64 else column.dtype)
        np.testing.assert_array_equal(drawn[name], column[order])


def test_a_drawn_batch_belongs_to_the_caller():
    buffer = naive()
    buffer.push(steps(10), 0)
    obs = buffer.sample(4, 0, columns=True)["obs"]
    kept = obs.copy()
    for i in range(50):
        buffer.push(steps(10, 100 * i), 0)
        buffer.sample(4, 0, columns=True)["obs"][:] = -1
    np.testing.assert_array_equal(obs, kept)
    obs[:] = 7  # no error: it is writable
    buffer.close()
    assert (obs == 7).all()


def test_pushed_arrays_are_copied():
    buffer = naive()
    data = columns(8)
    buffer.push(data, 0, columns=True)
    data["reward"][:] = -5
    assert all_rows(buffer) == list(range(8))


def test_n_step_and_discount():
    buffer = naive(nstep=3, discount_factor=0.5)
    buffer.push([step(0), step(1), step(2, done=True), step(3), step(4)], 0)
    drawn = buffer.sample(5, 0, columns=True)
    by_id = {int(i): n for n, i in enumerate(drawn["replay_unique_id"])}
    assert drawn["reward"][by_id[0]] == 0 + 0.5 * 1 + 0.25 * 2
    assert drawn["discount"][by_id[0]] == 0  # terminated within the window
    assert (drawn["reward"][by_id[3]], drawn["n_step"][by_id[3]], drawn["discount"][by_id[3]]) == (3 + 0.5 * 4, 2, 0.25)


def test_single_pushes_continue_a_stream_and_gaps_do_not():
    buffer = naive(nstep=2, discount_factor=1)
    for i in (0, 1, 5, 6):  # obs 5 is not the next_obs of 1
        buffer.push(step(i), 0)
    drawn = buffer.sample(4, 0, columns=True)
    assert dict(zip(drawn["replay_unique_id"].tolist(), drawn["reward"].tolist())) == {0: 1, 1: 1, 2: 11, 3: 6}


def test_streams_of_several_envs():
    buffer = naive(nstep=2, discount_factor=1)
    for t in range(3):  # env 0 has steps 0, 1, 2, and env 1 steps 10, 11, 12
        rows = [step(t), step(10 + t)]
        buffer.push(rows, 0, streams=[0, 1])
    drawn = buffer.sample(6, 0, columns=True)
    rewards = dict(zip(drawn["replay_unique_id"].tolist(), drawn["reward"].tolist()))
    assert rewards == {0: 1, 1: 21, 2: 3, 3: 23, 4: 2, 5: 12}
    with pytest.raises(ValueError, match=r"'streams' is int64\[1\], expected int64\[2\]"):
        buffer.push(rows, 0, streams=[0])


def test_terminated_and_truncated():
    buffer = naive()

    def row(i, terminated, truncated):
        data = step(i)
        del data["done"]
        return {**data, "terminated": terminated, "truncated": truncated}

    buffer.push([row(0, False, False), row(1, True, False), row(2, False, True), row(3, True, True)], 0)
    drawn = buffer.sample(4, 0, columns=True)
    discount = dict(zip(drawn["replay_unique_id"].tolist(), drawn["discount"].round(2).tolist()))
    assert discount == {0: pytest.approx(0.99), 1: 0, 2: pytest.approx(0.99), 3: 0}


# Priorities.


def test_advanced_push_update_and_surviving_rows():
    buffer = advanced()
    buffer.push(steps(64), 0)
    drawn = buffer.sample(32, 0, columns=True)
    assert set(drawn) >= {"IS", "priority", "use", "staleness", "replay_buffer_idx", "replay_unique_id"}
    np.testing.assert_allclose(drawn["IS"], 1)
    assert (drawn["staleness"] == -1).all()
    buffer.push(steps(8, 64), 0)  # overwrites ids 0 to 7
    ids = np.arange(16)
    buffer.update({"priority": (ids + 2.0), "replay_unique_id": ids, "replay_buffer_idx": ids % 64})
    late = buffer.sample(64, 0, columns=True)
    priority = dict(zip(late["replay_unique_id"].tolist(), late["priority"].tolist()))
    for i in set(priority) & set(range(8, 16)):
        assert priority[i] == pytest.approx(i + 2 + 1e-5, abs=1e-4)
    buffer.push(step(100), 0)  # gets the largest priority that an update gave to a row that is there
    newest = buffer.sample(1, 0, sample_range=slice(-1, None))[0]
    assert newest["priority"] == pytest.approx(17, abs=1e-3)
    buffer.update({"no": "priority"})


def test_advanced_update_takes_what_a_list_of_rows_has():
    buffer = advanced()
    buffer.push(steps(16), 0)
    rows = buffer.sample(4, 0)
    buffer.update({key: [row[key] for row in rows] for key in ("priority", "replay_unique_id", "replay_buffer_idx")})
    with pytest.raises(ValueError, match="has no 'replay_buffer_idx', expected the keys"):
        buffer.update({"priority": [1.0], "replay_unique_id": [1]})
    with pytest.raises(ValueError, match="priority"):
        buffer.update({"priority": [math.nan], "replay_unique_id": [1], "replay_buffer_idx": [1]})


def test_advanced_max_use():
    buffer = advanced(max_use=2)
    buffer.push(steps(64), 0)
    uses = {}
    while (drawn := buffer.sample(32, 0, columns=True)) is not None:
        for i, use in zip(drawn["replay_unique_id"].tolist(), drawn["use"].tolist()):
            uses[i] = max(uses.get(i, 0), use)
    assert sum(use >= 2 for use in uses.values()) == 64 - buffer.count()


def test_advanced_beta_is_annealed():
    buffer = advanced(beta=0.4, anneal_step=10)
    buffer.push(steps(8), 0)
    assert buffer.beta == pytest.approx(0.4)
    buffer.sample(4, 0)
    assert buffer.beta == pytest.approx(0.46)


def test_advanced_given_priorities_and_staleness():
    buffer = advanced(max_staleness=5)
    buffer.push([step(i, priority=1.0 + i, collect_iter=i) for i in range(8)], 0)
    drawn = buffer.sample(4, 7, columns=True)
    np.testing.assert_array_equal(drawn["staleness"], 7 - drawn["collect_iter"])
    assert buffer.count() == 5  # 0, 1, 2 were too stale
    np.testing.assert_allclose(drawn["priority"], 1 + drawn["collect_iter"] + 1e-5, rtol=1e-6)


def test_advanced_rate_limit_drops_a_push(caplog):
    buffer = advanced(thruput_controller={"push_sample_rate_limit": {"max": 2, "min": 0.5}, "sample_min_limit_ratio": 1.5})
    buffer.push(steps(16), 0)
    assert buffer.sample(12, 0) is None and "expected at least 18" in caplog.text
    assert buffer.sample(8, 0) is not None
    buffer.push(steps(64, 16), 0)
    assert buffer.push_count == 16 and "rows" in caplog.text


def test_demonstrations_as_a_dict_with_data():
    buffer = advanced()
    buffer.load_state_dict({"data": steps(10)})
    assert buffer.count() == 10


def test_deque_updates_the_latest_sample():
    buffer = dw.create_buffer({"type": "deque", "replay_buffer_size": 64, "priority": True, "priority_IS_weight": True})
    buffer.push(steps(8), 0)
    drawn = buffer.sample(8, 0, columns=True)
    buffer.update({"priority": np.full(8, 9.0)})
    again = buffer.sample(8, 0, columns=True)
    where = np.isin(again["replay_unique_id"], drawn["replay_unique_id"])
    np.testing.assert_allclose(again["priority"][where], 9, atol=1e-3)


# Other types.


def test_elastic_window_by_function():
    buffer = dw.ElasticReplayBuffer({"replay_buffer_size": 10, "set_buffer_size": lambda envstep: 3 + envstep // 100})
    for i in range(15):
        buffer.push(step(i), i)
    assert all_rows(buffer) == [12, 13, 14]
    buffer.update(200)
    assert buffer.count() == 5
    buffer.push(step(15), 300)
    assert buffer.count() == 6


def test_elastic_window_by_config():
    buffer = dw.create_buffer({"type": "elastic", "replay_buffer_size": 10, "window_start": 2, "window_end": 4, "decay_envsteps": 10})
    buffer.push(steps(10), 5)
    assert buffer.count() == 3


def test_sequence():
    buffer = dw.SequenceReplayBuffer({"replay_buffer_size": 100, "unroll_len": 4})
    for i in range(30):
        buffer.push(step(i, done=i == 14), i)
    drawn = buffer.sample(6, 4, 0, columns=True)
    assert drawn["obs"].shape == (6, 4, OBS) and drawn["reward"].shape == (6, 4)
    np.testing.assert_array_equal(np.diff(drawn["reward"]), 1)
    assert not ((drawn["reward"][:, 0] <= 14) & (drawn["reward"][:, -1] > 14)).any()
    rows = buffer.sample(2, 8, 0)
    assert [len(sequence) for sequence in rows] == [8, 8]
    assert rows[0][1]["reward"] == rows[0][0]["reward"] + 1
    assert buffer.sample(2, columns=True)["reward"].shape == (2, 4)


def test_episode():
    buffer = dw.EpisodeReplayBuffer({"replay_buffer_size": 100})
    buffer.push([steps(5), steps(3, 10)], 8)
    buffer.push(steps(2, 20), 10)  # an episode that goes on
    assert buffer.count() == 2
    drawn = buffer.sample(2, 0)
    assert sorted(tuple(int(row["reward"]) for row in episode) for episode in drawn) == [(0, 1, 2, 3, 4), (10, 11, 12)]
    assert buffer.sample(2, 0, columns=True)["mask"].sum() == 8
    assert buffer.sample(3, 0) is None


def test_create_buffer_and_classes():
    for name in ("naive", "advanced", "sequence", "episode", "elastic", "deque"):
        cfg = {"type": name, "replay_buffer_size": 100}
        cls = dw.get_buffer_cls(cfg)
        assert isinstance(dw.create_buffer(cfg, exp_name="exp", instance_name=name), cls)
        assert cls.default_config()["type"] == name
        assert isinstance(cls(cls.default_config()), dw.IBuffer)
    assert isinstance(dw.create_buffer({}), dw.NaiveReplayBuffer)
    with pytest.raises(KeyError, match="no buffer has the type 'naiv', expected one of"):
        dw.create_buffer({"type": "naiv"})


@pytest.mark.parametrize("cfg, text", [
    ({"alph": 0.5}, "alph"),
    ({"alpha": 2}, r"alpha is 2, expected in \[0, 1\]"),
    ({"replay_buffer_size": 0}, "mine: replay_buffer_size is 0, expected 1 to"),
    ({"enable_track_used_data": True}, "enable_track_used_data is True, expected False"),
    ({"type": "naive"}, "type is 'naive', expected 'advanced'"),
])
def test_wrong_configs_are_refused(cfg, text):
    with pytest.raises(ValueError, match=text):
        advanced(**cfg)
    with pytest.raises(ValueError, match=r"mine: unknown keys \['alpha'\], expected \['deepcopy'"):
        naive(alpha=0.5)


# State.


@pytest.mark.parametrize("make", [naive, advanced])
def test_state_dict_repeats_the_draws(make):
    buffer = make()
    buffer.push(steps(30), 0)
    buffer.sample(8, 0)
    state = pickle.loads(pickle.dumps(buffer.state_dict()))
    other = make()
    other.load_state_dict(state)
    assert (other.count(), other.push_count) == (30, 30)
    for _ in range(2):
        drawn, again = buffer.sample(8, 0, columns=True), other.sample(8, 0, columns=True)
        assert all((drawn[name] == again[name]).all() for name in drawn)
    other.push(steps(3, 30), 0)  # other keys than before are still refused
    with pytest.raises(ValueError, match="has no 'action'"):
        other.push({"obs": np.zeros(OBS, np.float32)}, 0)
    with pytest.raises(ValueError, match="mine: "):
        make(replay_buffer_size=63).load_state_dict(state)
    assert other.count() == 33
    empty = make()
    empty.load_state_dict(make().state_dict())
    empty.push(steps(1), 0)
    assert empty.count() == 1


def test_save_and_load_data(tmp_path):
    buffer = naive()
    buffer.push(steps(100), 0)
    path = str(tmp_path / "buffer")
    buffer.save_data(path)
    other = naive()
    other.load_data(path)
    assert (other.count(), all_rows(other)) == (64, all_rows(buffer))
    other.push(steps(1, 100), 0)
    with pytest.raises(FileNotFoundError):
        other.load_data(str(tmp_path / "none"))


# What is refused.


@pytest.mark.parametrize("change, text", [
    ({"obs": np.zeros(OBS + 1, np.float32)}, r"transition 1: 'obs' is float32\[4\], expected float32\[3\]"),
    ({"obs": np.zeros(OBS, np.int64)}, r"transition 1: 'obs' is int64\[3\], expected float32\[3\]"),
    ({"action": 0.5}, r"transition 1: 'action' is float64\[\], expected int64\[\]"),
    ({"done": 1}, r"transition 1: 'done' is int64\[\], expected bool\[\]"),
    ({"extra": 1}, "transition 1 has 'extra', which the first push did not have, expected the keys obs, action"),
    ({"obs": {"pos": 1}}, "transition 1: 'obs'|transition 1 has no 'obs'"),
    ({"reward": np.array([1], ">f4")}, r"'reward' is >f4\[1\], expected float32\[\]"),
])
def test_other_values_than_the_first_push_are_refused(change, text):
    buffer = naive()
    buffer.push(steps(2), 0)
    with pytest.raises((ValueError, TypeError), match=text):
        buffer.push([step(2), {**step(3), **change}], 0)
    missing = step(3)
    del missing["action"]
    with pytest.raises(ValueError, match="transition 0 has no 'action', expected the keys obs, action, reward, done, next_obs"):
        buffer.push(missing, 0)
    assert buffer.push_count == 2
    buffer.push(step(2), 0)  # it goes on


@pytest.mark.parametrize("value, text", [
    (np.array([None, 1]), r"'extra' is object\[2\] \(a numpy.ndarray\), expected numbers"),
    (None, r"'extra' is object\[\] \(a NoneType\)"),
    ("text", "'extra' is <U4"),
    (np.zeros(2, np.int16), r"'extra' is int16\[2\], expected one of the types"),
    ([[1], [1, 2]], "'extra' is no array"),
    (1j, "complex128"),
])
def test_values_that_rows_cannot_have_are_refused(value, text):
    buffer = naive()
    with pytest.raises((TypeError, ValueError), match=text):
        buffer.push(step(0, extra=value), 0)
    buffer.push(step(0, extra=1.0), 0)  # a refused first push fixes nothing


def test_wrong_pushes_are_refused():
    buffer = naive()
    for data in (3, "text", None, np.zeros(3)):
        with pytest.raises(TypeError, match="expected a transition"):
            buffer.push(data, 0)
    with pytest.raises(TypeError, match="transition 0 is a int, expected a dict"):
        buffer.push([1], 0)
    with pytest.raises(ValueError, match="has no 'obs'"):
        buffer.push({"reward": 1.0}, 0)
    with pytest.raises(ValueError, match="has no 'next_obs'"):
        buffer.push({"obs": np.zeros(3), "reward": 1.0}, 0)
    with pytest.raises(ValueError, match="reward"):
        buffer.push({"obs": np.zeros(3), "next_obs": np.zeros(3)}, 0)
    with pytest.raises(ValueError, match="key 'a/b' has a '/'"):
        buffer.push(step(0, **{"a/b": 1}), 0)
    with pytest.raises(TypeError, match="key 1 is a int, expected a str"):
        buffer.push({**step(0), 1: 1}, 0)
    with pytest.raises(TypeError, match="the columns are a list, expected a dict"):
        buffer.push(steps(2), 0, columns=True)
    data = columns(4)
    data["action"] = data["action"][:3]
    with pytest.raises(ValueError, match=r"'action' is int64\[3\], expected int64\[4\]"):
        buffer.push(data, 0, columns=True)
    buffer.push(steps(1), 0)
    with pytest.raises(TypeError, match="transition 1 is a int"):
        buffer.push([step(1), 3], 0)
    assert buffer.push_count == 1


def test_use_after_close_is_refused():
    buffer = advanced()
    buffer.push(steps(4), 0)
    buffer.start()
    buffer.close()
    buffer.close()
    uses = [lambda: buffer.push(step(1), 0), lambda: buffer.sample(1, 0), buffer.count, buffer.clear, buffer.state_dict,
            lambda: buffer.push_count, lambda: buffer.beta, lambda: buffer.load_state_dict({}), lambda: buffer.save_data("x"),
            lambda: buffer.update({"priority": [1.0], "replay_unique_id": [0], "replay_buffer_idx": [0]})]
    for use in uses:
        with pytest.raises(RuntimeError, match="mine is closed: make another buffer"):
            use()
    assert "closed" in repr(buffer)


def _use_in_child(buffer, queue):
    try:
        buffer.count()
    except RuntimeError as error:
        queue.put(str(error))
    other = naive()
    other.push(steps(3), 0)
    queue.put(other.count())


def test_forked_process_is_refused():
    buffer = naive()
    buffer.push(steps(4), 0)
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_use_in_child, args=(buffer, queue))
    child.start()
    assert "mine was made before this process was forked" in queue.get(timeout=60)
    assert queue.get(timeout=60) == 3
    child.join(60)
    assert child.exitcode == 0
    assert buffer.count() == 4


def test_buffers_are_not_pickled():
    with pytest.raises(TypeError, match="pickle"):
        pickle.dumps(naive())


def test_tb_logger_is_not_used():
    with pytest.warns(UserWarning, match="it is not used"):
        dw.NaiveReplayBuffer({}, tb_logger=object())


# Threads and memory.


def test_threads_push_and_draw():
    buffer = advanced(replay_buffer_size=1000)
    buffer.push(columns(1000), 0, columns=True)
    failures = []

    def work(number):
        try:
            for i in range(200):
                if number % 2 == 0:
                    # More than the bytes at which the GIL is released.
                    buffer.push(columns(2000, 10000 * number + i), i, columns=True)
                else:
                    drawn = buffer.sample(1500, i, replace=True, columns=True)
                    np.testing.assert_array_equal(drawn["next_obs"], drawn["obs"] + 1)
                    buffer.update({key: drawn[key] for key in ("priority", "replay_unique_id", "replay_buffer_idx")})
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert buffer.push_count == 1000 + 2 * 200 * 2000


def resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_a_million_pushed_rows_leak_nothing():
    buffer = naive(replay_buffer_size=1000)
    data = columns(100)
    rows = steps(10)

    def work(times):
        for _ in range(times):
            buffer.push(data, 0, columns=True)
            buffer.push(rows, 0)
            buffer.sample(16, 0)
            for wrong in ({**data, "action": None}, {**data, "obs": data["obs"][:5]}):
                try:
                    buffer.push(wrong, 0, columns=True)
                except (TypeError, ValueError):
                    pass

    work(500)
    gc.collect()
    before = resident_bytes()
    work(10000)
    gc.collect()
    assert resident_bytes() - before < 8 << 20
