// Runs the learner of a recorded run (recording.h) again, in one process and without collectors,
// and compares: the parameters must be the same bytes at every version that the run has published.
//
//     recording ──► batches, chunks ──► ItemLoader ──► learner ──► checkpoints in another folder
//         └───────► versions ────────────────────────────┴──► the same bytes?
//
// Each file of the recording begins with the first state of its learner. The files are compared one
// by one.
//
// Threads: to be called from main().
#ifndef DING_WORKER_WORKER_PROCESSES_REPLAY_H_
#define DING_WORKER_WORKER_PROCESSES_REPLAY_H_

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace ding {

struct ReplayOptions {
  std::string exp_dir;  // of the run
  std::string out;      // folder for the checkpoints of the replay; must be empty or not exist
  // The replay ends with the batch in which its learner reaches this iteration.
  int64_t until_iter = std::numeric_limits<int64_t>::max();
  std::vector<std::string>
      settings;  // "path=value": changes of the run's config, to see what they change
};

struct ReplayReport {
  bool same = false;
  std::string text;  // what was compared, and where the first difference is
};

//   kFailedPrecondition  the run was not recorded, its folder has another run's config,
//                        another version of ding_worker has recorded it, or it is still alive
//   kDataLoss            a part of the recording is damaged or gone; names it
//   kAlreadyExists       `out` is not empty
//   kInvalidArgument     a setting is wrong
absl::StatusOr<ReplayReport> Replay(const ReplayOptions& options);

// Returns a table of the rows from which the learner of the run learned in `train_iter`: where they
// are, who collected them, and by which version of the policy.
//   kNotFound    there is no such iteration in the recording
//   other codes  as above
absl::StatusOr<std::string> ShowIteration(const std::string& exp_dir, int64_t train_iter);

}  // namespace ding

#endif  // DING_WORKER_WORKER_PROCESSES_REPLAY_H_
