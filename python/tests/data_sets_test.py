"""Tests of data sets in other formats."""

import os

import numpy as np
import pytest

import ding_worker as dw
from ding_worker import data_sets
from ding_worker.episodes import Episodes
from ding_worker.safetensors import write_safetensors


def make_columns():
    """Episodes of 3 (terminated), 2 (timed out) and 2 rows (the file ends)."""
    obs = np.arange(7 * 4, dtype=np.float64).reshape(7, 4) / 7
    return {
        "observations": obs,
        "actions": np.array([0, 1, 1, 0, 1, 0, 1]),
        "rewards": np.arange(7) / 3,
        "terminals": np.array([0, 0, 1, 0, 0, 0, 0], bool),
        "timeouts": np.array([0, 0, 0, 0, 1, 0, 0], bool),
        "next_observations": obs + 100,
    }


def write_npz(folder, columns):
    np.savez(folder / "a.npz", **columns)
    return folder / "a.npz"


def write_npy(folder, columns):
    for name, column in columns.items():
        np.save(folder / name, column)
    return folder


def write_tensors(folder, columns):
    write_safetensors(folder / "a.safetensors", columns)
    return folder / "a.safetensors"


def write_csv(folder, columns):
    parts, names = [], []
    for name, column in columns.items():
        column = column.reshape(7, -1)
        names += [name] if column.shape[1] == 1 else [f"{name}_{i}" for i in range(column.shape[1])]
        parts.append(column)
    np.savetxt(folder / "a.csv", np.hstack(parts), delimiter=",", header=",".join(names), comments="", fmt="%.17g")
    return folder / "a.csv"


def write_d4rl(folder, columns):
    h5py = pytest.importorskip("h5py")
    with h5py.File(folder / "a.hdf5", "w") as file:
        for name, column in columns.items():
            file[name] = column
        file["metadata/algorithm"] = "SAC"
        file["infos/qpos"] = np.zeros((7, 2))
    return folder / "a.hdf5"


def write_minari(folder, columns):
    h5py = pytest.importorskip("h5py")
    with h5py.File(folder / "main_data.hdf5", "w") as file:
        for i, rows in enumerate((slice(0, 3), slice(3, 5), slice(5, 7))):
            group = file.create_group(f"episode_{i}")
            group["observations"] = np.vstack([columns["observations"][rows], columns["next_observations"][rows][-1:]])
            group["actions"], group["rewards"] = columns["actions"][rows], columns["rewards"][rows]
            group["terminations"] = columns["terminals"][rows]
            group["truncations"] = np.arange(rows.stop - rows.start) == (rows.stop - rows.start - 1 if i else -1)
    return folder / "main_data.hdf5"


@pytest.mark.parametrize("write", [write_npz, write_npy, write_tensors, write_csv, write_d4rl, write_minari])
def test_every_format_is_the_same_set(tmp_path, write):
    columns = make_columns()
    path = str(write(tmp_path, columns))
    out = str(tmp_path / "out.episodes")
    assert data_sets.main([path, f"--out={out}", "--env=CartPole-v1"]) is None
    episodes = dw.read_episodes(out)
    assert (episodes.env, list(episodes.lengths)) == ("CartPole-v1", [3, 2, 2])
    assert [episode.end for episode in episodes] == ["terminated", "truncated", "truncated"]
    for ours, theirs in (("obs", "observations"), ("action", "actions"), ("reward", "rewards")):
        np.testing.assert_array_equal(episodes.rows[ours], columns[theirs].astype(episodes.field(ours).dtype))
    for episode, last in zip(episodes, (2, 4, 6)):
        np.testing.assert_array_equal(episode.final_obs["obs"], columns["next_observations"][last].astype(np.float32))
    assert episodes.field("obs").high == (4.8, np.inf, 0.41887902047863906, np.inf)
    assert episodes.field("action").category_counts == [2]


def test_without_next_observations_a_cut_row_gives_the_last_observation(tmp_path):
    columns = make_columns()
    del columns["next_observations"]
    episodes = dw.import_episodes([str(write_npz(tmp_path, columns))])
    assert list(episodes.lengths) == [3, 1, 1]
    np.testing.assert_array_equal(episodes[1].final_obs["obs"], columns["observations"][4].astype(np.float32))
    assert episodes.field("obs").dtype == np.float32 and episodes.field("obs").low == ()


def test_several_files_and_parts_of_observations(tmp_path):
    columns = make_columns()
    columns["observations/a"] = columns.pop("observations")
    columns["next_observations/a"] = columns.pop("next_observations")
    columns["observations/b"] = columns["next_observations/b"] = np.zeros((7, 2, 2), np.uint8)
    path = str(write_tensors(tmp_path, columns))
    episodes = dw.import_episodes([path, path])
    assert isinstance(episodes, Episodes) and len(episodes) == 6
    assert [spec.name for spec in episodes.fields] == ["obs/a", "obs/b", "action", "reward"]
    assert episodes.field("obs/b").dtype == np.uint8 and episodes.field("obs/b").shape == (2, 2)
    assert set(episodes[5].final_obs) == {"obs/a", "obs/b"}


@pytest.mark.parametrize(
    ("change", "env", "words"),
    [
        ({"actions": None}, None, r"a.npz' has no actions \(or action\), but: observations, rewards"),
        ({"terminals": None, "timeouts": None}, None, "does not say where episodes end: it has neither terminals nor timeouts"),
        ({"rewards": np.zeros(6)}, None, "'reward' has 6 rows, the actions have 7"),
        ({"actions": np.full(7, 0.5)}, "CartPole-v1", "'action' has values that are no int64"),
        ({"actions": np.full(7, 2)}, "CartPole-v1", "'action' has values from 2 to 2, expected 0 to 1"),
        ({"observations": np.zeros((7, 3)), "next_observations": np.zeros((7, 3))}, "CartPole-v1", r"'obs' has the shape \[3\], expected \[4\]"),
        ({"observations": np.full((7, 4), np.nan)}, None, "a.npz': 'obs' has NaN or infinity in row 0"),
        ({"actions": np.array(["left"] * 7)}, None, r"'action' is <U4\[7\], expected a column of numbers"),
        ({"observations": np.zeros((8, 4))}, None, "'obs' has 8 rows, the actions have 7"),
        ({"next_observations": np.zeros((6, 4))}, None, "'next_obs' has 6 rows, the actions have 7"),
        ({"next_observations/a": np.zeros((7, 4)), "next_observations": None}, None, r"the parts of next observations are \['obs/a'\]"),
        ({"terminals": np.full(7, np.nan)}, None, "'terminated' has NaN or infinity in row 0"),
        ({"rewards": np.array(1.0)}, None, r"'reward' is float64\[\], expected a column"),
        ({"actions": np.full(7, -3)}, None, "the actions reach from -3 to -3, expected categories from 0"),
        ({"actions": np.full(7, 2**62)}, None, "expected categories from 0 to at most 1048575"),
        ({"actions": np.full((7, 1), 2.5)}, None, "reach from 2.5 to 2.5, and their bounds are not known: give the env"),
        ({"actions": np.full((7, 1), 2.5), "observations": np.zeros((7, 3)), "next_observations": np.zeros((7, 3))}, "Pendulum-v1", "the actions reach from 2.5 to 2.5, expected -2 to 2"),
        ({"observations": np.zeros((7, 0))}, None, r"'obs' has rows of the shape \[0\]"),
        ({"observations": np.full((7, 4), 1e300)}, None, "'obs' has values beyond float32"),
        ({"actions/a": np.zeros(7), "actions": None}, None, "has 'action/a': only observations may have parts"),
    ],
)
def test_what_is_no_data_set_is_refused(tmp_path, change, env, words):
    columns = {**make_columns(), **change}
    path = write_npz(tmp_path, {name: column for name, column in columns.items() if column is not None})
    with pytest.raises(dw.FormatError, match=words):
        dw.import_episodes([str(path)], env)


def test_what_is_no_file_is_refused(tmp_path):
    for name, text in (
        ("a.csv", "obs,action\n1,x\n"),
        ("b.csv", "obs,action\n\n1\n"),
        ("c.csv", "obs,action\n"),
        ("d.csv", "obs_0,obs_2,action\n1,2,3\n"),
        ("e.npz", "text"),
        ("f.hdf5", "text"),
    ):
        (tmp_path / name).write_text(text)
    for path, words in (
        ("a.csv", "a.csv' cannot be read: line 2: could not convert string to float: 'x'"),
        ("b.csv", "line 3 has 1 fields, its header 2"),
        ("c.csv", "it has no rows below its header"),
        ("d.csv", "'obs' has the elements [0, 2] in the header"),
        ("e.npz", "e.npz' cannot be read"),
        ("f.hdf5", "f.hdf5' cannot be read"),
        ("a.txt", "ends with '.txt', expected .hdf5"),
        ("no.npz", "no.npz"),
    ):
        assert words in data_sets.main([str(tmp_path / path), "--out=x"])


def test_a_table_of_another_program(tmp_path):
    path = tmp_path / "a.csv"
    rows = "\n".join(f"{i + 0.1},{i},0,{i == 1},True,1.5" for i in range(3))
    path.write_text(f"\ufeffobs_1,obs_0,action,terminals,timeouts,reward\r\n\n{rows}\n")
    episodes = dw.import_episodes([str(path)])
    assert [episode.end for episode in episodes] == ["terminated"]
    np.testing.assert_array_equal(episodes.rows["obs"], np.array([[1, 1.1]], np.float32))


def test_done_is_no_terminal_where_the_time_ran_out(tmp_path):
    columns = make_columns()
    columns["dones"] = columns.pop("terminals") | columns["timeouts"]
    episodes = dw.import_episodes([str(write_npz(tmp_path, columns))])
    assert [episode.end for episode in episodes] == ["terminated", "truncated", "truncated"]


def test_rows_that_are_none_and_a_single_path(tmp_path):
    columns = {name: column[:0] for name, column in make_columns().items()}
    with pytest.raises(dw.FormatError, match="there are no episodes in: .*a.npz"):
        dw.import_episodes(write_npz(tmp_path, columns))
    columns = {**make_columns(), "dones": np.zeros(6, bool)}
    del columns["terminals"]
    with pytest.raises(dw.FormatError, match="'terminated' has 6 rows, the actions have 7"):
        dw.import_episodes(str(write_npz(tmp_path, columns)))


def test_actions_at_the_bounds(tmp_path):
    columns = make_columns()
    columns.update(actions=np.linspace(-2.0005, 2, 7)[:, None], observations=np.zeros((7, 3)), next_observations=np.zeros((7, 3)))
    episodes = dw.import_episodes(write_npz(tmp_path, columns), "Pendulum-v1")
    assert episodes.rows["action"].min() == -2 and episodes.rows["action"].max() == 2


def test_out_replaces_files_only(tmp_path):
    path = str(write_npz(tmp_path, make_columns()))
    assert "which is to be read" in data_sets.main([path, f"--out={path}"])
    os.mkfifo(tmp_path / "fifo")
    assert "it is no file" in data_sets.main([path, f"--out={tmp_path / 'fifo'}"])
    assert "it is no file" in data_sets.main([path, f"--out={tmp_path}"])
    os.symlink(tmp_path / "target", tmp_path / "link")
    assert data_sets.main([path, f"--out={tmp_path / 'link'}"]) is None
    assert os.path.islink(tmp_path / "link") and len(dw.read_episodes(str(tmp_path / "target"))) == 3
    assert "none" in data_sets.main([path, f"--out={tmp_path}/none/out"])
    assert not [name for name in os.listdir(tmp_path) if name.endswith(".tmp")]


@pytest.mark.parametrize("write", [write_npz, write_csv, write_minari])
@pytest.mark.parametrize("env", [[], ["--env=CartPole-v1"]])
def test_a_folder_of_files_has_the_episodes_of_one_file(tmp_path, write, env):
    path, one, folder = str(write(tmp_path, make_columns())), str(tmp_path / "one.episodes"), str(tmp_path / "files")
    assert data_sets.main([path, f"--out={one}", *env]) is None
    assert data_sets.main([path, f"--out={folder}", "--rows_per_file=4", *env]) is None
    assert sorted(os.listdir(folder)) == ["00000.episodes", "00001.episodes"]
    files = [dw.read_episodes(os.path.join(folder, name)) for name in sorted(os.listdir(folder))]
    whole = dw.read_episodes(one)
    assert [list(file.lengths) for file in files] == [[3], [2, 2]]
    assert [file.fields for file in files] == [whole.fields] * 2
    for name, column in whole.rows.items():
        np.testing.assert_array_equal(np.concatenate([file.rows[name] for file in files]), column)
    joined = str(tmp_path / "joined.episodes")
    assert data_sets.main([*(os.path.join(folder, name) for name in sorted(os.listdir(folder))), f"--out={joined}"]) is None
    assert (dw.read_episodes(joined).fields, dw.read_episodes(joined).returns) == (whole.fields, whole.returns)


@pytest.mark.parametrize("env", [[], ["--env=CartPole-v1"]])  # With an env, files are written before the damaged one is read.
def test_a_folder_that_cannot_be_finished_leaves_nothing(tmp_path, env):
    good = str(write_npz(tmp_path, make_columns()))
    (tmp_path / "bad.csv").write_text("obs_0,action,reward,done\n1,2\n")
    folder = tmp_path / "files"
    before = sorted(os.listdir(tmp_path))
    assert "bad.csv" in data_sets.main([good, str(tmp_path / "bad.csv"), f"--out={folder}/", "--rows_per_file=1", *env])
    assert sorted(os.listdir(tmp_path)) == before
    assert data_sets.main([good, f"--out={folder}/", "--rows_per_file=1", *env]) is None
    assert len(os.listdir(folder)) == 3
    assert "exists: expected a new folder" in data_sets.main([good, f"--out={folder}", "--rows_per_file=1"])
    assert "expected at least 1" in data_sets.main([good, f"--out={folder}2", "--rows_per_file=0"])


def test_files_that_do_not_fit_each_other_are_refused(tmp_path):
    first, parts, other = (str(tmp_path / name) for name in ("a.npz", "b.npz", "c.episodes"))
    columns = make_columns()
    np.savez(first, **columns)
    np.savez(parts, **{{"observations": "observations/x", "next_observations": "next_observations/x"}.get(name, name): column for name, column in columns.items()})
    assert "has the columns obs/x" in data_sets.main([first, parts, f"--out={tmp_path}/files", "--rows_per_file=9", "--env=CartPole-v1"])
    assert data_sets.main([first, f"--out={other}"]) is None
    bounded = str(tmp_path / "d.episodes")
    assert data_sets.main([first, f"--out={bounded}", "--env=CartPole-v1"]) is None
    assert "d.episodes' has the fields" in data_sets.main([other, bounded, f"--out={tmp_path}/joined.episodes"])
    assert data_sets.main([bounded, f"--out={tmp_path}/split", "--rows_per_file=3"]) is None
    assert dw.read_episodes(f"{tmp_path}/split/00000.episodes").env == "CartPole-v1"
