// Finds the checkpoint that a person means by the folder of a run.
//
// Threads: thread-safe (pure functions).
#ifndef DING_WORKER_WORKER_RUN_FIND_CHECKPOINT_H_
#define DING_WORKER_WORKER_RUN_FIND_CHECKPOINT_H_

#include <string>

#include "absl/status/statusor.h"

namespace ding {

struct FoundCheckpoint {
  std::string path;
  std::string
      note;  // for people: why this one, if it is neither the given folder nor ckpt_best; else empty
};

// `path` is the folder of a checkpoint, of a run, or of a run's checkpoints. Of several, ckpt_best is taken; without
// it the one with the most train iterations (of those the most env steps), which is said in the note.
//   kNotFound         there is no such folder, or it has no checkpoints; a run with several policies has a folder for
//                     each, which the message lists
//   kInvalidArgument  it is a file
absl::StatusOr<FoundCheckpoint> FindCheckpoint(const std::string& path);

}  // namespace ding

#endif  // DING_WORKER_WORKER_RUN_FIND_CHECKPOINT_H_
