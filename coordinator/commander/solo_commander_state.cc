// Saves and loads the state of SoloCommander.
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
#include "ding_worker/coordinator/commander/trained_policy.h"
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

// Saves points in time as the time that has passed since, because the clock of the next process has another zero.
absl::Status SoloCommander::SaveState(StateWriter* writer) const {
  const int64_t now = deps_.clock->MonotonicNanos();
  SoloCommanderRecord record;
  record.set_collectors_running(collector_space_.running());
  record.set_learners_running(learner_space_.running());
  record.set_collector_tasks(collector_tasks_);
  record.set_learner_tasks(learner_tasks_);
  record.set_collections(collections_);
  record.set_evaluations(evaluations_);
  record.set_confirmations(confirmations_);
  record.set_models(models_);
  record.set_nanos_since_made(now - made_nanos_);
  record.set_total_collector_env_step(total_collector_env_step_);
  record.set_converged(converged_);
  record.mutable_last_eval_return()->Assign(last_eval_returns_.begin(), last_eval_returns_.end());
  for (const TrainedPolicy& policy : policies_) *record.add_policy() = ToRecord(policy, now);
  record.mutable_failed_learner_task()->Assign(failed_learner_tasks_.begin(),
                                               failed_learner_tasks_.end());
  if (confirmation_.has_value()) *record.mutable_confirmation() = *confirmation_;
  for (const auto& [name, best] : best_) *record.add_best() = best;
  return writer->WriteString(kState, record.SerializeAsString());
}

absl::Status SoloCommander::LoadState(StateReader* reader) {
  DING_ASSIGN_OR_RETURN(const std::string bytes, reader->ReadString(kState));
  SoloCommanderRecord record;
  const absl::Status parsed = ParseProto(bytes, &record);
  if (!parsed.ok()) {
    return absl::DataLossError(
        absl::StrCat("solo commander: its saved state cannot be parsed: ", parsed.message()));
  }
  DING_RETURN_IF_ERROR(CheckCounts(record));
  for (const LearnerTask& failed : record.failed_learner_task()) {
    const auto is_its = [&failed](const TrainedPolicyRecord& policy) {
      return policy.task().policy_id() == failed.policy_id();
    };
    if (std::none_of(record.policy().begin(), record.policy().end(), is_its)) {
      return absl::DataLossError(absl::StrCat("solo commander: a saved learner task trains ",
                                              failed.policy_id(),
                                              ", which is none of its policies"));
    }
  }
  const int64_t now = deps_.clock->MonotonicNanos();
  collector_space_.Restore(static_cast<int>(record.collectors_running()));
  learner_space_.Restore(static_cast<int>(record.learners_running()));
  collector_tasks_ = record.collector_tasks();
  learner_tasks_ = record.learner_tasks();
  collections_ = record.collections();
  evaluations_ = record.evaluations();
  confirmations_ = record.confirmations();
  models_ = record.models();
  made_nanos_ = now - record.nanos_since_made();
  total_collector_env_step_ = record.total_collector_env_step();
  converged_ = record.converged();
  last_eval_returns_ = {record.last_eval_return().begin(), record.last_eval_return().end()};
  last_eval_value_.reset();
  if (!last_eval_returns_.empty()) last_eval_value_ = MeanReturn(last_eval_returns_);
  policies_.clear();
  for (const TrainedPolicyRecord& policy : record.policy()) {
    policies_.push_back(FromRecord(policy, now));
  }
  failed_learner_tasks_ = {record.failed_learner_task().begin(),
                           record.failed_learner_task().end()};
  confirmation_.reset();
  if (record.has_confirmation()) confirmation_ = record.confirmation();
  best_.clear();
  for (const BestPolicy& best : record.best()) best_[best.name()] = best;
  return absl::OkStatus();
}

}  // namespace ding
