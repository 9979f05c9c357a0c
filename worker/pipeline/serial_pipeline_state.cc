// The part of SerialPipeline that saves: the components of checkpoints and resume points.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/checkpoint.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/worker/pipeline/serial_pipeline.h"
#include "ding_worker/worker/run_folder/run_checkpoints.h"
#include "ding_worker/worker/setup/experiment_setup.h"

namespace ding {
namespace {

// The components of a resume point, in the order in which they are loaded: model and train_state
// come before all others (see LearnMode::LoadModel).
constexpr char kCollectPolicy[] = "collect_policy";
constexpr char kCollectorEnv[] = "collector_env";
constexpr char kEvaluatorEnv[] = "evaluator_env";
constexpr char kCollector[] = "collector";
constexpr char kEvaluator[] = "evaluator";
constexpr char kReplayBuffer[] = "replay_buffer";
constexpr char kOverlap[] = "overlap";  // a component of overlapped runs
constexpr char kHasNewRowsField[] = "has_new_rows";

// Adds up the bytes that it is given.
class ByteCounter : public StateWriter {
 public:
  bool needs_values(DType /*dtype*/) const override { return false; }
  absl::Status Write(absl::string_view, DType, absl::Span<const int64_t>,
                     absl::Span<const absl::string_view> parts) override {
    for (const absl::string_view part : parts) bytes_ += static_cast<int64_t>(part.size());
    return absl::OkStatus();
  }
  int64_t bytes() const { return bytes_; }

 private:
  int64_t bytes_ = 0;
};

}  // namespace

std::vector<CheckpointComponent> SerialPipeline::ActingComponents() {
  if (!collector_env_->has_statistics()) return {};
  // While a round overlaps, a hook that saves a checkpoint gets the statistics of before the round:
  // the envs are changing them on the other thread.
  if (env_statistics_ != nullptr) return {{kEnvStatisticsComponent, env_statistics_}};
  return {{kEnvStatisticsComponent,
           [this](StateWriter* writer) { return collector_env_->SaveStatistics(writer); }}};
}

absl::Status SerialPipeline::SaveBeside(absl::string_view name) {
  return opponent_ == nullptr ? absl::OkStatus()
                              : opponent_->SaveCheckpoint(name, loop_.checkpoints());
}

absl::Status SerialPipeline::PrepareEvaluation() {
  return CopyEnvStatistics(*collector_env_, evaluator_env_.get());
}

std::vector<CheckpointComponent> SerialPipeline::Components() {
  std::vector<CheckpointComponent> components = {
      ComponentOf(kCollectPolicy, collect_mode()), ComponentOf(kCollectorEnv, collector_env_.get()),
      ComponentOf(kEvaluatorEnv, evaluator_env_.get()), ComponentOf(kCollector, collector_.get()),
      ComponentOf(kEvaluator, evaluator_.get())};
  if (opponent_ != nullptr) {
    for (CheckpointComponent& component : opponent_->Components()) {
      components.push_back(std::move(component));
    }
  }
  if (second_thread_ != nullptr) {
    components.push_back({kOverlap, [this](StateWriter* writer) {
                            return writer->WriteInt(kHasNewRowsField, has_new_rows_);
                          }});
  }
  return components;
}

std::vector<std::pair<std::string, IBuffer*>> SerialPipeline::Buffers() {
  std::vector<std::pair<std::string, IBuffer*>> buffers;
  if (buffer_ != nullptr) buffers.emplace_back(kReplayBuffer, buffer_.get());
  if (opponent_ != nullptr && opponent_->buffer() != nullptr) {
    buffers.emplace_back(absl::StrCat("opponent_", kReplayBuffer), opponent_->buffer());
  }
  return buffers;
}

absl::Status SerialPipeline::AddSnapshots(std::vector<CheckpointComponent>* components) {
  std::vector<std::string> left_out;
  for (const auto& [name, buffer] : Buffers()) {
    StateSnapshot replay = buffer->Snapshot();
    ByteCounter size;
    DING_RETURN_IF_ERROR(replay(&size));
    if (size.bytes() > config_.resume().max_replay_bytes()) {
      left_out.push_back(absl::StrCat(name, " has ", size.bytes()));
      continue;
    }
    components->push_back({name, std::move(replay)});
  }
  if (!left_out.empty()) {
    DING_LOG_FIRST_N(WARNING, 1)
        << absl::StrJoin(left_out, ", ") << " bytes, more than resume.max_replay_bytes ("
        << config_.resume().max_replay_bytes()
        << "): it is not in resume points, and is empty when the run is resumed";
  }
  return absl::OkStatus();
}

absl::Status SerialPipeline::LoadComponents(const CheckpointReader& checkpoint) {
  std::vector<int> restarted;
  DING_RETURN_IF_ERROR(LoadComponent(checkpoint, kCollectPolicy, collect_mode()));
  DING_RETURN_IF_ERROR(LoadComponent(checkpoint, kCollectorEnv, [&](StateReader* reader) {
    return collector_env_->LoadState(reader, &restarted);
  }));
  std::vector<int> evaluators_restarted;  // Evaluations begin new episodes anyway.
  DING_RETURN_IF_ERROR(LoadComponent(checkpoint, kEvaluatorEnv, [&](StateReader* reader) {
    return evaluator_env_->LoadState(reader, &evaluators_restarted);
  }));
  DING_RETURN_IF_ERROR(LoadComponent(checkpoint, kCollector, collector_.get()));
  if (!restarted.empty()) {
    DING_LOG(WARNING)
        << "envs " << absl::StrJoin(restarted, ", ")
        << " cannot save their state: they begin new episodes, the run goes on inexactly. What "
           "they kept from episode to episode, such as the level of a curriculum, is lost, also in "
           "the envs that evaluate. A Python env saves it by get_state() and set_state(state), one "
           "in C++ by SaveState() and LoadState()";
    DING_RETURN_IF_ERROR(collector_->DropEpisodes(restarted));
  }
  DING_RETURN_IF_ERROR(LoadComponent(checkpoint, kEvaluator, evaluator_.get()));
  if (second_thread_ != nullptr) {
    DING_RETURN_IF_ERROR(
        LoadComponent(checkpoint, kOverlap, [this](StateReader* reader) -> absl::Status {
          DING_ASSIGN_OR_RETURN(const int64_t has_new_rows, reader->ReadInt(kHasNewRowsField));
          has_new_rows_ = has_new_rows != 0;
          return absl::OkStatus();
        }));
  }
  if (opponent_ != nullptr) DING_RETURN_IF_ERROR(opponent_->LoadComponents(checkpoint));
  // An on-policy run has no buffers, and keeps nothing from one collect to the next.
  const std::vector<std::string> names = checkpoint.Components();
  for (const auto& [name, buffer] : Buffers()) {
    if (std::find(names.begin(), names.end(), name) != names.end()) {
      DING_RETURN_IF_ERROR(LoadComponent(checkpoint, name, buffer));
      const std::string lost = buffer->lost_rows();
      DING_LOG_IF(WARNING, !lost.empty()) << name << ": " << lost;
      continue;
    }
    DING_LOG(WARNING) << "the resume point is without " << name
                      << ": the run goes on inexactly, with an empty one";
    buffer->Clear();
  }
  return absl::OkStatus();
}

}  // namespace ding
