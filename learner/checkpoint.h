// Saves and loads a learner's checkpoint.
//
//   component    written by                    needed to
//   model        LearnMode::SaveModel          act; enough for an evaluation
//   train_state  LearnMode::SaveTrainState     continue training: optimizer, target networks, counters
//   learner      ILearner::SaveState           continue counting: iterations, env steps, averages
//
// Threads: call these functions on the learner's thread.
#ifndef DING_WORKER_LEARNER_CHECKPOINT_H_
#define DING_WORKER_LEARNER_CHECKPOINT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ding_worker/data/checkpoint.h"
#include "ding_worker/data/wire.h"
#include "ding_worker/policy/policy.h"

namespace ding {

class ILearner;
class LearnerView;

inline constexpr char kCheckpointKind[] = "ding_worker/train";
inline constexpr char kModelComponent[] = "model";

// Returns the components above, for a program that adds its own components. `learner` must outlive
// the result.
std::vector<CheckpointComponent> LearnerComponents(const ILearner& learner);
// Returns the fields "train_iter" and "env_step", which lists of checkpoints show.
CheckpointInfo CheckpointInfoOf(int64_t train_iter, int64_t env_step);
CheckpointInfo LearnerCheckpointInfo(const LearnerView& learner);

// Writes the components to the folder `path` and creates its parent if needed. If it fails, an
// existing checkpoint is unchanged.
absl::Status SaveLearnerCheckpoint(const ILearner& learner, const std::string& path);

// Loads policy, train state and counters. Nothing changes if the folder is damaged or the model
// does not fit the policy; the error names the policy type of the checkpoint.
absl::Status LoadLearnerCheckpoint(const std::string& path, ILearner* learner);
// Does the same, from an open checkpoint.
absl::Status LoadLearnerComponents(const CheckpointReader& checkpoint, ILearner* learner);

// Encode and decode the state that the next step depends on, and the counters, for a learner of the
// same model in another process. Averages are not included: each learner keeps its own.
absl::StatusOr<EncodedBatch> EncodeLearner(const LearnerView& learner);
absl::Status DecodeLearner(absl::string_view bytes, ILearner* learner);

// Opens the checkpoint at `path`: the folder of a checkpoint, or the folder of a run for its best
// checkpoint (CheckpointFolder()). kInvalidArgument if it is another kind of checkpoint.
absl::StatusOr<CheckpointReader> OpenTrainCheckpoint(const std::string& path);

}  // namespace ding

#endif  // DING_WORKER_LEARNER_CHECKPOINT_H_
