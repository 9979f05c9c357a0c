// What a learner's checkpoint holds, and how it comes back.
//
//   component    written by                    needed to
//   model        LearnMode::SaveModel          act: this one alone starts an evaluation
//   train_state  LearnMode::SaveTrainState     go on learning: optimizer, target networks, counters
//   learner      BaseLearner::SaveState        go on counting: iterations, env steps, averages
//
// Threads: on the learner's thread.
#ifndef DING_WORKER_LEARNER_CHECKPOINT_H_
#define DING_WORKER_LEARNER_CHECKPOINT_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ding_worker/data/checkpoint.h"
#include "ding_worker/data/wire.h"
#include "ding_worker/policy/policy.h"

namespace ding {

class BaseLearner;

inline constexpr char kCheckpointKind[] = "ding_worker/train";
inline constexpr char kModelComponent[] = "model";

// The components above, for a program that saves more beside them. `learner` must outlive them.
std::vector<CheckpointComponent> LearnerComponents(const BaseLearner& learner);
// "train_iter" and "env_step", for people and for lists of checkpoints.
CheckpointInfo LearnerCheckpointInfo(const BaseLearner& learner);

// Writes them to the folder `path`, whose parent is made if need be. Whatever fails, a checkpoint
// that was there stays.
absl::Status SaveLearnerCheckpoint(const BaseLearner& learner, const std::string& path);

// Loads policy, train state and counters. Nothing is loaded unless the folder is intact; a model
// that does not fit the policy changes nothing.
absl::Status LoadLearnerCheckpoint(const std::string& path, BaseLearner* learner);
// The same from a checkpoint that is open already.
absl::Status LoadLearnerComponents(const CheckpointReader& checkpoint, BaseLearner* learner);

// What the next step depends on, and the counters, in memory: for a learner of the same model in
// another process. Averages of the log are each one's own.
absl::StatusOr<EncodedBatch> EncodeLearner(const BaseLearner& learner);
absl::Status DecodeLearner(absl::string_view bytes, BaseLearner* learner);

// Opens the checkpoint at `path`; kInvalidArgument if it is of another kind.
absl::StatusOr<CheckpointReader> OpenTrainCheckpoint(const std::string& path);

}  // namespace ding

#endif  // DING_WORKER_LEARNER_CHECKPOINT_H_
