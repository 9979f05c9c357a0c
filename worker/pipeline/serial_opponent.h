// The opponent of a serial run in a game (the config's `opponent`): its policy and, if it learns,
// its replay buffer and learner. It learns as the policy does, from the rows of its own seats.
//
//     SelfPlayCollector ── TakeOpponentData() ──► buffer ──► learner ──► its policy ──► seats 1, 2, ...
//
// If the opponent learns, each checkpoint of the run has a checkpoint of the opponent beside it:
// ckpt/opponent_<name>. Resume points hold all of its parts, so that a run that is resumed goes on
// exactly.
//
// Ownership: the owner keeps it longer than the collector and the evaluators that use its policy.
// Threads:   thread-compatible.
// Errors:    name the field of the config, or say that they are the opponent's.
#ifndef DING_WORKER_WORKER_PIPELINE_SERIAL_OPPONENT_H_
#define DING_WORKER_WORKER_PIPELINE_SERIAL_OPPONENT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ding_worker/collector/serial/self_play_collector.h"
#include "ding_worker/coordinator/commander/base_serial_commander.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/checkpoint.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/env/env.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/worker/experiment.pb.h"
#include "ding_worker/worker/run_folder/run_checkpoints.h"
#include "ding_worker/worker/serial_registry.h"

namespace ding {

class SerialOpponent {
 public:
  // `config` has an opponent. `policy` has the attributes of the policy that the opponent plays
  // against.
  static absl::StatusOr<std::unique_ptr<SerialOpponent>> Create(const ExperimentConfig& config,
                                                                const EnvSpec& game,
                                                                const CollectAttributes& policy,
                                                                const ComponentDeps& deps);

  // How it plays in the collector.
  SelfPlayCollector::Opponent seat();
  // For evaluations, which may run in the middle of the collector's games: the policy keeps what it
  // remembers of those games.
  const std::shared_ptr<Policy>& policy() const { return policy_; }
  // Null if it does not learn, or is on-policy.
  IBuffer* buffer() { return buffer_.get(); }
  // Call it before Begin() and Learn(). The collector has seat() as its opponent, and must outlive
  // this object's use.
  void UseCollector(SelfPlayCollector* collector);

  // These do nothing if it does not learn.
  absl::Status Begin();
  void PrepareCollect();
  // Learns from the rows of the last collect while `may_train` returns true.
  absl::Status Learn(const std::function<bool()>& may_train);
  // Saves ckpt/opponent_<name>.
  absl::Status SaveCheckpoint(absl::string_view name, RunCheckpoints* checkpoints);
  // The parts of a resume point, beside the replay buffer.
  std::vector<CheckpointComponent> Components();
  absl::Status LoadComponents(const CheckpointReader& checkpoint);

 private:
  SerialOpponent(ExperimentConfig config, EnvSpec player)
      : config_(std::move(config)), player_(std::move(player)) {}

  bool learns() const { return learner_ != nullptr; }
  absl::Status CreateLearner(const CollectAttributes& policy, ComponentDeps deps);
  absl::Status Train(const Batch& batch);

  const ExperimentConfig config_;  // the config of a run of the opponent alone
  const EnvSpec player_;
  std::shared_ptr<Policy> policy_;
  // These two exist only if the opponent does not learn.
  std::shared_ptr<Policy> collecting_policy_;
  std::unique_ptr<CollectMode> without_exploration_;
  std::unique_ptr<IBuffer> buffer_;  // null: on-policy
  std::unique_ptr<ILearner> learner_;
  std::unique_ptr<BaseSerialCommander> commander_;
  SelfPlayCollector* collector_ = nullptr;
};

}  // namespace ding

#endif  // DING_WORKER_WORKER_PIPELINE_SERIAL_OPPONENT_H_
