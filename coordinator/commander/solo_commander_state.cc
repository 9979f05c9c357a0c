// The state of a SoloCommander: shows it in the status of the run, saves and loads it.
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/parse_proto.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/coordinator/commander/solo_commander.h"
#include "ding_worker/coordinator/commander/trained_policy.pb.h"
#include "ding_worker/data/state.h"
#include "ding_worker/interaction/messages.pb.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

namespace ding {
namespace {

constexpr char kState[] = "solo_commander";

// Returns an error if a count of the message, or of a message in it, is beyond kMaxSavedCount.
absl::Status CheckCounts(const google::protobuf::Message& message) {
  using google::protobuf::FieldDescriptor;
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      const int size = field->is_repeated() ? reflection.FieldSize(message, field) : 1;
      for (int i = 0; i < size; ++i) {
        DING_RETURN_IF_ERROR(CheckCounts(field->is_repeated()
                                             ? reflection.GetRepeatedMessage(message, field, i)
                                             : reflection.GetMessage(message, field)));
      }
    }
    if (field->is_repeated() || field->cpp_type() != FieldDescriptor::CPPTYPE_INT64) continue;
    const int64_t count = reflection.GetInt64(message, field);
    if (count >= -1 && count <= kMaxSavedCount) continue;
    return absl::DataLossError(absl::StrCat("solo commander: the saved '", field->full_name(),
                                            "' is ", count, ", expected -1 to ", kMaxSavedCount));
  }
  return absl::OkStatus();
}

}  // namespace

void SoloCommander::AddStatus(RunStatus* status) const {
  auto* const bests = status->mutable_best_policy();
  *bests = state_.best();
  std::sort(bests->begin(), bests->end(),
            [](const BestPolicy& a, const BestPolicy& b) { return a.name() < b.name(); });
  if (state_.has_confirmation()) *status->mutable_confirmation() = state_.confirmation();
  if (!trains_several()) return;
  for (const TrainedPolicy& policy : policies()) {
    TrainedPolicyStatus* const added = status->add_trained_policy();
    added->set_policy_id(policy.task().policy_id());
    added->set_task_id(policy.task().task_id());
    added->set_envstep(policy.env_steps());
    added->set_train_iter(policy.learner_step());
    if (policy.has_newest()) added->set_policy_version(policy.newest().version());
    if (const auto value = EvalValue(policy)) added->set_eval_value(*value);
    *added->mutable_eval_return() = policy.eval_return();
    added->set_converged(policy.converged());
  }
}

absl::Status SoloCommander::SaveState(StateWriter* writer) const {
  SoloCommanderState saved = state_;
  saved.set_collectors_running(collector_space_.running());
  saved.set_learners_running(learner_space_.running());
  // The clock of the next process has another zero.
  saved.set_nanos_since_made(RunNanos());
  return writer->WriteString(kState, saved.SerializeAsString());
}

absl::Status SoloCommander::LoadState(StateReader* reader) {
  DING_ASSIGN_OR_RETURN(const std::string bytes, reader->ReadString(kState));
  SoloCommanderState saved;
  const absl::Status parsed = ParseProto(bytes, &saved);
  if (!parsed.ok()) {
    return absl::DataLossError(
        absl::StrCat("solo commander: its saved state cannot be parsed: ", parsed.message()));
  }
  DING_RETURN_IF_ERROR(CheckCounts(saved));
  for (const LearnerTask& failed : saved.failed_learner_task()) {
    const auto is_its = [&failed](const TrainedPolicy& policy) {
      return policy.task().policy_id() == failed.policy_id();
    };
    if (std::none_of(saved.policy().begin(), saved.policy().end(), is_its)) {
      return absl::DataLossError(absl::StrCat("solo commander: a saved learner task trains ",
                                              failed.policy_id(),
                                              ", which is none of its policies"));
    }
  }
  collector_space_.Restore(static_cast<int>(saved.collectors_running()));
  learner_space_.Restore(static_cast<int>(saved.learners_running()));
  made_nanos_ = deps_.clock->MonotonicNanos() - saved.nanos_since_made();
  state_ = std::move(saved);
  unmeasured_.clear();
  return absl::OkStatus();
}

}  // namespace ding
