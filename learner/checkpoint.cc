#include "ding_worker/learner/checkpoint.h"

#include <filesystem>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "ding_worker/base/call_user.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/state.h"
#include "ding_worker/data/wire.h"
#include "ding_worker/learner/learner.h"

namespace ding {
namespace {

constexpr char kTrainStateComponent[] = "train_state";
constexpr char kLearnerComponent[] = "learner";
constexpr char kTrainIter[] = "train_iter";
constexpr char kEnvStep[] = "env_step";
constexpr char kPolicy[] = "policy";  // its type, in the checkpoints of a run

}  // namespace

std::vector<CheckpointComponent> LearnerComponents(const ILearner& learner) {
  const LearnMode* const policy = learner.policy();
  return {
      {kModelComponent, [policy](StateWriter* writer) { return policy->SaveModel(writer); }},
      {kTrainStateComponent,
       [policy](StateWriter* writer) { return policy->SaveTrainState(writer); }},
      {kLearnerComponent,
       [&learner](StateWriter* writer) {
         return CallUser("the learner", [&] { return learner.SaveState(writer); });
       }},
  };
}

CheckpointInfo CheckpointInfoOf(int64_t train_iter, int64_t env_step) {
  return {kCheckpointKind,
          {{kTrainIter, absl::StrCat(train_iter)}, {kEnvStep, absl::StrCat(env_step)}}};
}

CheckpointInfo LearnerCheckpointInfo(const LearnerView& learner) {
  return CheckpointInfoOf(learner.train_iter(), learner.collector_envstep());
}

absl::Status SaveLearnerCheckpoint(const ILearner& learner, const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  if (!parent.empty()) DING_RETURN_IF_ERROR(CreateDirectories(parent));
  return WriteCheckpoint(path, LearnerCheckpointInfo(learner), LearnerComponents(learner));
}

absl::StatusOr<CheckpointReader> OpenTrainCheckpoint(const std::string& path) {
  DING_ASSIGN_OR_RETURN(CheckpointReader checkpoint,
                        CheckpointReader::Open(CheckpointFolder(path)));
  if (checkpoint.info().kind == kCheckpointKind) return checkpoint;
  return absl::InvalidArgumentError(absl::StrCat("checkpoint ", path, " is of kind '",
                                                 checkpoint.info().kind, "', expected '",
                                                 kCheckpointKind, "'"));
}

absl::Status LoadLearnerCheckpoint(const std::string& path, ILearner* learner) {
  DING_ASSIGN_OR_RETURN(const CheckpointReader checkpoint, OpenTrainCheckpoint(path));
  const auto policy = checkpoint.info().fields.find(kPolicy);
  const std::string of_policy = policy == checkpoint.info().fields.end()
                                    ? std::string()
                                    : absl::StrCat(" of a policy '", policy->second, "'");
  return Annotate(LoadLearnerComponents(checkpoint, learner),
                  absl::StrCat("checkpoint ", path, of_policy));
}

absl::Status LoadLearnerComponents(const CheckpointReader& checkpoint, ILearner* learner) {
  DING_ASSIGN_OR_RETURN(const std::unique_ptr<StateReader> model,
                        checkpoint.Component(kModelComponent));
  DING_ASSIGN_OR_RETURN(const std::unique_ptr<StateReader> train_state,
                        checkpoint.Component(kTrainStateComponent));
  DING_ASSIGN_OR_RETURN(const std::unique_ptr<StateReader> counters,
                        checkpoint.Component(kLearnerComponent));
  LearnMode* const policy = learner->policy();
  if (policy == nullptr) {
    return absl::FailedPreconditionError(
        "the learner has no policy yet: expected ResetPolicy() before");
  }
  DING_RETURN_IF_ERROR(Annotate(policy->LoadModel(model.get()), kModelComponent));
  DING_RETURN_IF_ERROR(Annotate(policy->LoadTrainState(train_state.get()), kTrainStateComponent));
  return Annotate(CallUser("the learner", [&] { return learner->LoadState(counters.get()); }),
                  kLearnerComponent);
}

absl::StatusOr<EncodedBatch> EncodeLearner(const LearnerView& learner) {
  return EncodeState([&learner](StateWriter* writer) -> absl::Status {
    ScopedStateWriter model(writer, kModelComponent);
    DING_RETURN_IF_ERROR(learner.policy()->SaveModel(&model));
    ScopedStateWriter train_state(writer, kTrainStateComponent);
    DING_RETURN_IF_ERROR(learner.policy()->SaveTrainState(&train_state));
    DING_RETURN_IF_ERROR(writer->WriteInt(kTrainIter, learner.train_iter()));
    return writer->WriteInt(kEnvStep, learner.collector_envstep());
  });
}

absl::Status DecodeLearner(absl::string_view bytes, ILearner* learner) {
  DING_ASSIGN_OR_RETURN(const std::shared_ptr<StateReader> state,
                        DecodeState(bytes, "the state of another learner"));
  DING_ASSIGN_OR_RETURN(const int64_t train_iter, state->ReadInt(kTrainIter));
  DING_ASSIGN_OR_RETURN(const int64_t envstep, state->ReadInt(kEnvStep));
  ScopedStateReader model(state.get(), kModelComponent);
  DING_RETURN_IF_ERROR(Annotate(learner->policy()->LoadModel(&model), kModelComponent));
  ScopedStateReader train_state(state.get(), kTrainStateComponent);
  DING_RETURN_IF_ERROR(
      Annotate(learner->policy()->LoadTrainState(&train_state), kTrainStateComponent));
  return CallUser("the learner", [&] { return learner->SetProgress(train_iter, envstep); });
}

}  // namespace ding
