// The data set of a supervised run: a file of episodes (data/episodes.h), or the replay buffer of a
// run or of a file (replay_buffer/buffer_file.h), checked against the env and split into a training
// part and a held-out part.
//
// Episodes are held out as a whole: rows of one episode resemble each other so much that a policy
// would be judged too well on rows whose neighbours it was trained on.
//
// Threads: thread-safe (pure functions).
#ifndef DING_WORKER_WORKER_SETUP_DATA_SET_H_
#define DING_WORKER_WORKER_SETUP_DATA_SET_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "ding_worker/collector/evaluator/metric_evaluator.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/env/env.h"

namespace ding {

// For policies that learn from transitions (LearnAttributes::transitions).
struct TransitionOptions {
  int64_t nstep = 1;
  double gamma = 0.99;
};

struct DataSetOptions {
  std::string path;       // a file, or the folder of a serial run or of one of its resume points
  double held_out = 0.1;  // share of the episodes, above 0 and below 1; at least one is held out
  uint64_t seed = 0;      // determines which are held out: stream (seed, "data_set/held_out")
  std::optional<TransitionOptions> transitions = std::nullopt;
};

struct DataSet {
  SpecPtr observation;
  SpecPtr action;
  // Observation fields, then "action"; with DataSetOptions::transitions also the fields of the next
  // observation, "reward" and "discount" (data/sample_columns.h).
  Batch training;
  std::unique_ptr<IEvalData> held_out;
  uint32_t checksum = 0;    // of the episodes
  std::string description;  // for the log: "45 episodes (22500 rows) to learn from, ..."
};

// Loads and splits a data set. `env` may be null: the spaces then come from the file.
//   kNotFound, kDataLoss, kFailedPrecondition  as from ReadEpisodes
//   kInvalidArgument  it has no episodes and no replay buffer, has fewer than 2 episodes, has other
//                     spaces than the env (lists the differences), or has an action that does not
//                     exist
//   kInternal         it contains NaN or infinity; names column and row
//   kInvalidArgument  with transitions: it has no rewards, or rewards of several components
absl::StatusOr<DataSet> LoadDataSet(const DataSetOptions& options, const EnvSpec* env);

}  // namespace ding

#endif  // DING_WORKER_WORKER_SETUP_DATA_SET_H_
