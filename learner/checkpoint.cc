#include "ding_worker/learner/checkpoint.h"

#include <filesystem>
#include <memory>

#include "absl/strings/str_cat.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/state.h"
#include "ding_worker/data/state_wire.h"
#include "ding_worker/learner/base_learner.h"

namespace ding {
namespace {

constexpr char kTrainStateComponent[] = "train_state";
constexpr char kLearnerComponent[] = "learner";

absl::Status LoadComponents(StateReader* model, StateReader* train_state, StateReader* counters,
                            BaseLearner* learner) {
  LearnMode* const policy = learner->policy();
  DING_RETURN_IF_ERROR(Annotate(policy->LoadModel(model), kModelComponent));
  DING_RETURN_IF_ERROR(Annotate(policy->LoadTrainState(train_state), kTrainStateComponent));
  return Annotate(learner->LoadState(counters), kLearnerComponent);
}

}  // namespace

std::vector<CheckpointComponent> LearnerComponents(const BaseLearner& learner) {
  const LearnMode* const policy = learner.policy();
  return {
      {kModelComponent, [policy](StateWriter* writer) { return policy->SaveModel(writer); }},
      {kTrainStateComponent,
       [policy](StateWriter* writer) { return policy->SaveTrainState(writer); }},
      {kLearnerComponent, [&learner](StateWriter* writer) { return learner.SaveState(writer); }},
  };
}

CheckpointInfo LearnerCheckpointInfo(const BaseLearner& learner) {
  return {kCheckpointKind,
          {{"train_iter", absl::StrCat(learner.train_iter())},
           {"env_step", absl::StrCat(learner.collector_envstep())}}};
}

absl::Status SaveLearnerCheckpoint(const BaseLearner& learner, const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  if (!parent.empty()) DING_RETURN_IF_ERROR(CreateDirectories(parent));
  return WriteCheckpoint(path, LearnerCheckpointInfo(learner), LearnerComponents(learner));
}

absl::StatusOr<CheckpointReader> OpenTrainCheckpoint(const std::string& path) {
  DING_ASSIGN_OR_RETURN(CheckpointReader checkpoint, CheckpointReader::Open(path));
  if (checkpoint.info().kind == kCheckpointKind) return checkpoint;
  return absl::InvalidArgumentError(absl::StrCat("checkpoint ", path, " is of kind '",
                                                 checkpoint.info().kind, "', expected '",
                                                 kCheckpointKind, "'"));
}

absl::Status LoadLearnerCheckpoint(const std::string& path, BaseLearner* learner) {
  DING_ASSIGN_OR_RETURN(const CheckpointReader checkpoint, OpenTrainCheckpoint(path));
  return Annotate(LoadLearnerComponents(checkpoint, learner), absl::StrCat("checkpoint ", path));
}

absl::Status LoadLearnerComponents(const CheckpointReader& checkpoint, BaseLearner* learner) {
  DING_ASSIGN_OR_RETURN(const std::unique_ptr<StateReader> model,
                        checkpoint.Component(kModelComponent));
  DING_ASSIGN_OR_RETURN(const std::unique_ptr<StateReader> train_state,
                        checkpoint.Component(kTrainStateComponent));
  DING_ASSIGN_OR_RETURN(const std::unique_ptr<StateReader> counters,
                        checkpoint.Component(kLearnerComponent));
  return LoadComponents(model.get(), train_state.get(), counters.get(), learner);
}

absl::StatusOr<EncodedBatch> EncodeLearner(const BaseLearner& learner) {
  return EncodeState([&learner](StateWriter* writer) {
    for (const CheckpointComponent& component : LearnerComponents(learner)) {
      ScopedStateWriter scoped(writer, component.name);
      DING_RETURN_IF_ERROR(component.save(&scoped));
    }
    return absl::OkStatus();
  });
}

absl::Status DecodeLearner(absl::string_view bytes, BaseLearner* learner) {
  DING_ASSIGN_OR_RETURN(const std::shared_ptr<StateReader> state,
                        DecodeState(bytes, "the state of another learner"));
  ScopedStateReader model(state.get(), kModelComponent);
  ScopedStateReader train_state(state.get(), kTrainStateComponent);
  ScopedStateReader counters(state.get(), kLearnerComponent);
  return LoadComponents(&model, &train_state, &counters, learner);
}

}  // namespace ding
