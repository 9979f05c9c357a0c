// The data set of a supervised run: files of episodes (data/episodes.h), or the replay buffer of a
// run or of a file (replay_buffer/buffer_file.h), checked against the env and split into episodes
// to learn from and episodes that are held out.
//
// The rows to learn from are read when they are needed, file by file, so that they need not fit
// into memory. Held-out rows are in memory.
//
// Episodes are held out as a whole: rows of one episode resemble each other so much that a policy
// would be judged too well on rows whose neighbours it was trained on.
//
// Threads: thread-safe.
#ifndef DING_WORKER_WORKER_SETUP_DATA_SET_H_
#define DING_WORKER_WORKER_SETUP_DATA_SET_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "ding_worker/collector/evaluator/metric_evaluator.h"
#include "ding_worker/data/shuffled_epochs.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/env/env.h"
#include "ding_worker/worker/setup/episode_rows.h"

namespace ding {

struct DataSetOptions {
  // A file, a folder of files `*.episodes`, or the folder of a serial run or of one of its resume
  // points.
  std::string path;
  double held_out = 0.1;    // share of the episodes, above 0 and below 1; at least one is held out
  uint64_t seed = 0;        // determines which are held out: stream (seed, "data_set/held_out")
  int64_t window_rows = 0;  // the most rows to learn from that a file may have; 0: any number
};

// The files of a data set, and which of their episodes are held out.
class DataSetFiles;

struct DataSet {
  SpecPtr observation;
  SpecPtr action;
  RowParts training;  // observation fields, then "action"; a part is a file
  std::unique_ptr<IEvalData> held_out;
  uint32_t checksum = 0;    // of the episodes
  std::string description;  // for the log: "45 episodes (22500 rows) to learn from, ..."
  std::shared_ptr<const DataSetFiles> files;
};

// Opens and splits a data set. `env` may be null: the spaces then come from the first file.
//   kNotFound, kDataLoss, kFailedPrecondition  as from ReadEpisodes
//   kInvalidArgument  it has no episodes and no replay buffer, has fewer than 2 episodes, has other
//                     spaces than the env (lists the differences), a file that is larger than
//                     window_rows, or an action that does not exist
//   kInternal         it contains NaN or infinity; names column and row
// The values of a file are checked when it is read: here, if it has held-out episodes, else by
// RowParts::load of `training`. This reads a file again, and returns the errors of values and
//   kNotFound, kDataLoss, kFailedPrecondition  the file was removed, damaged or changed meanwhile
absl::StatusOr<DataSet> LoadDataSet(const DataSetOptions& options, const EnvSpec* env);

// Returns the rows of data.training with the fields of the next observation, "reward" and "discount"
// (data/sample_columns.h).
//   kInvalidArgument  it has no rewards, or rewards of several components
absl::StatusOr<RowParts> TransitionsOf(const DataSet& data, const TransitionOptions& options);

}  // namespace ding

#endif  // DING_WORKER_WORKER_SETUP_DATA_SET_H_
