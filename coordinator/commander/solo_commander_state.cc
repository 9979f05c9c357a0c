// Saves and loads the state of SoloCommander.
#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/parse_proto.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/coordinator/commander/solo_commander.h"
#include "ding_worker/coordinator/commander/trained_policy.h"
#include "ding_worker/coordinator/commander/trained_policy.pb.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/interaction/messages.pb.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

namespace ding {
namespace {

constexpr char kPolicies[] = "policies";  // their number, in a saved state
constexpr char kConfirmations[] = "confirmations";
constexpr char kConfirmation[] = "confirmation";  // the last one
constexpr char kBest[] = "best";                  // the number of best versions

// Returns an error if a count of the message, or of a message in it, is beyond kMaxSavedCount.
absl::Status CheckCounts(const google::protobuf::Message& message) {
  using google::protobuf::FieldDescriptor;
  std::vector<const FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->is_repeated()) continue;
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      DING_RETURN_IF_ERROR(CheckCounts(message.GetReflection()->GetMessage(message, field)));
    }
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_INT64) continue;
    const int64_t count = message.GetReflection()->GetInt64(message, field);
    if (count >= -1 && count <= kMaxSavedCount) continue;
    return absl::DataLossError(absl::StrCat("solo commander: the saved '", field->full_name(),
                                            "' is ", count, ", expected -1 to ", kMaxSavedCount));
  }
  return absl::OkStatus();
}

// Reads a message that was saved under this name.
absl::Status ReadMessage(const std::string& name, StateReader* reader,
                         google::protobuf::Message* message) {
  DING_ASSIGN_OR_RETURN(const std::string bytes, reader->ReadString(name));
  const absl::Status parsed = ParseProto(bytes, message);
  if (parsed.ok()) return CheckCounts(*message);
  return absl::DataLossError(absl::StrCat("solo commander: ", name, " is not a ",
                                          message->GetTypeName(), ": ", parsed.message()));
}

}  // namespace

// Saves points in time as the time that has passed since, because the clock of the next process has another zero.
absl::Status SoloCommander::SaveState(StateWriter* writer) const {
  const int64_t now = deps_.clock->MonotonicNanos();
  const std::pair<const char*, int64_t> numbers[] = {
      {"collectors_running", collector_space_.running()},
      {"learners_running", learner_space_.running()},
      {"collector_tasks", collector_tasks_},
      {"learner_tasks", learner_tasks_},
      {"collections", collections_},
      {"evaluations", evaluations_},
      {"models", models_},
      {"nanos_since_made", now - made_nanos_},
      {"total_collector_env_step", total_collector_env_step_},
      {"converged", converged_ ? 1 : 0},
      {"last_eval_returns_size", static_cast<int64_t>(last_eval_returns_.size())},
      {kPolicies, static_cast<int64_t>(policies_.size())},
      {"failed_learner_tasks", static_cast<int64_t>(failed_learner_tasks_.size())},
      {kConfirmations, confirmations_},
      {kBest, static_cast<int64_t>(best_.size())}};
  for (const auto& [name, number] : numbers) DING_RETURN_IF_ERROR(writer->WriteInt(name, number));
  if (!last_eval_returns_.empty()) {
    DING_RETURN_IF_ERROR(writer->WriteSpan<double>("last_eval_returns", last_eval_returns_));
  }
  for (size_t i = 0; i < policies_.size(); ++i) {
    DING_RETURN_IF_ERROR(writer->WriteString(absl::StrCat("policy/", i),
                                             ToRecord(policies_[i], now).SerializeAsString()));
  }
  for (size_t i = 0; i < failed_learner_tasks_.size(); ++i) {
    DING_RETURN_IF_ERROR(writer->WriteString(absl::StrCat("failed_learner_task/", i),
                                             failed_learner_tasks_[i].SerializeAsString()));
  }
  if (confirmation_.has_value()) {
    DING_RETURN_IF_ERROR(writer->WriteString(kConfirmation, confirmation_->SerializeAsString()));
  }
  int64_t number = 0;
  for (const auto& [name, best] : best_) {
    DING_RETURN_IF_ERROR(
        writer->WriteString(absl::StrCat("best/", number++), best.SerializeAsString()));
  }
  return absl::OkStatus();
}

absl::Status SoloCommander::LoadConfirmations(StateReader* reader) {
  if (!reader->Info(kConfirmations).ok()) return absl::OkStatus();  // written before there were any
  DING_ASSIGN_OR_RETURN(const int64_t confirmations, reader->ReadCount(kConfirmations));
  DING_ASSIGN_OR_RETURN(const int64_t count, reader->ReadCount(kBest));
  std::optional<ConfirmationResult> confirmation;
  if (reader->Info(kConfirmation).ok()) {
    DING_RETURN_IF_ERROR(ReadMessage(kConfirmation, reader, &confirmation.emplace()));
  }
  std::map<std::string, BestPolicy> best;
  for (int64_t i = 0; i < count; ++i) {
    BestPolicy one;
    DING_RETURN_IF_ERROR(ReadMessage(absl::StrCat("best/", i), reader, &one));
    best[one.name()] = std::move(one);
  }
  confirmations_ = confirmations;
  confirmation_ = std::move(confirmation);
  best_ = std::move(best);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<TrainedPolicy>> SoloCommander::LoadOnlyPolicy(
    StateReader* reader) const {
  std::map<std::string, int64_t> number;
  for (const char* name :
       {"has_current", "learner_step", "evaluating", "nanos_since_evaluation", "learner_tasks",
        "collectors_running", "collected_since_evaluation", "evaluations",
        "total_collector_env_step", "total_sample_count", "total_episode_count"}) {
    DING_ASSIGN_OR_RETURN(number[name], reader->ReadCount(name, /*least=*/-1));
  }
  std::vector<TrainedPolicy> policies;
  if (number["has_current"] == 0) return policies;
  TrainedPolicy& policy = policies.emplace_back();
  DING_ASSIGN_OR_RETURN(*policy.task.mutable_policy_id(), reader->ReadString("current_policy_id"));
  DING_ASSIGN_OR_RETURN(*policy.task.mutable_buffer_id(), reader->ReadString("current_buffer_id"));
  policy.task.set_task_id(absl::StrCat("learner_task_", number["learner_tasks"] - 1));
  *policy.task.mutable_resources() = options_.learner_resources;
  policy.learner_step = number["learner_step"];
  policy.env_steps = number["total_collector_env_step"];
  policy.sample_count = number["total_sample_count"];
  policy.episode_count = number["total_episode_count"];
  policy.running = static_cast<int>(number["collectors_running"]);
  policy.evaluating = number["evaluating"] != 0;
  if (number["nanos_since_evaluation"] >= 0) {
    policy.eval_began_nanos = deps_.clock->MonotonicNanos() - number["nanos_since_evaluation"];
  }
  policy.collected_since_evaluation = number["collected_since_evaluation"] != 0;
  policy.evaluations = number["evaluations"];
  return policies;
}

absl::Status SoloCommander::LoadState(StateReader* reader) {
  std::map<std::string, int64_t> number;
  for (const char* name :
       {"collectors_running", "learners_running", "collector_tasks", "learner_tasks", "collections",
        "evaluations", "models", "nanos_since_made", "total_collector_env_step", "converged",
        "last_eval_returns_size", "failed_learner_tasks"}) {
    DING_ASSIGN_OR_RETURN(number[name], reader->ReadCount(name, /*least=*/-1));
  }
  // The numbers come from a file, so the size is compared with that of the tensor before memory is taken.
  std::vector<double> returns;
  if (number["last_eval_returns_size"] != 0) {
    DING_ASSIGN_OR_RETURN(const TensorInfo info, reader->Info("last_eval_returns"));
    if (info.shape != Shape{number["last_eval_returns_size"]}) {
      return absl::DataLossError(absl::StrCat("solo commander: last_eval_returns are not the ",
                                              number["last_eval_returns_size"],
                                              " that last_eval_returns_size says"));
    }
    returns.resize(static_cast<size_t>(number["last_eval_returns_size"]));
    DING_RETURN_IF_ERROR(reader->ReadSpan("last_eval_returns", absl::MakeSpan(returns)));
  }
  const int64_t now = deps_.clock->MonotonicNanos();
  std::vector<TrainedPolicy> policies;
  if (reader->Info(kPolicies).ok()) {
    DING_ASSIGN_OR_RETURN(const int64_t count, reader->ReadCount(kPolicies));
    for (int64_t i = 0; i < count; ++i) {
      TrainedPolicyRecord record;
      DING_RETURN_IF_ERROR(ReadMessage(absl::StrCat("policy/", i), reader, &record));
      policies.push_back(FromRecord(record, now));
    }
  } else {
    DING_ASSIGN_OR_RETURN(policies, LoadOnlyPolicy(reader));
    if (!policies.empty()) policies.front().eval_returns = returns;
  }
  std::deque<LearnerTask> failed;
  for (int64_t i = 0; i < number["failed_learner_tasks"]; ++i) {
    const std::string name = absl::StrCat("failed_learner_task/", i);
    DING_RETURN_IF_ERROR(ReadMessage(name, reader, &failed.emplace_back()));
    const auto is_its = [&failed](const TrainedPolicy& policy) {
      return policy.task.policy_id() == failed.back().policy_id();
    };
    if (std::none_of(policies.begin(), policies.end(), is_its)) {
      return absl::DataLossError(absl::StrCat("solo commander: ", name, " trains ",
                                              failed.back().policy_id(),
                                              ", which is none of its policies"));
    }
  }
  DING_RETURN_IF_ERROR(LoadConfirmations(reader));
  collector_space_.Restore(static_cast<int>(number["collectors_running"]));
  learner_space_.Restore(static_cast<int>(number["learners_running"]));
  collector_tasks_ = number["collector_tasks"];
  learner_tasks_ = number["learner_tasks"];
  collections_ = number["collections"];
  evaluations_ = number["evaluations"];
  models_ = number["models"];
  made_nanos_ = now - number["nanos_since_made"];
  total_collector_env_step_ = number["total_collector_env_step"];
  converged_ = number["converged"] != 0;
  policies_ = std::move(policies);
  last_eval_returns_ = std::move(returns);
  last_eval_value_.reset();
  if (!last_eval_returns_.empty()) last_eval_value_ = MeanReturn(last_eval_returns_);
  failed_learner_tasks_ = std::move(failed);
  return absl::OkStatus();
}

}  // namespace ding
