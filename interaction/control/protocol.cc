#include "ding_worker/interaction/control/protocol.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "ding_worker/base/parse_proto.h"
#include "ding_worker/base/status_macros.h"

namespace ding {
namespace {

// The largest number of rows of one demand, in all its batches.
constexpr int64_t kMaxDemandRows = int64_t{1} << 22;
constexpr int64_t kMaxSteps = int64_t{1} << 40;
constexpr uint64_t kMaxVersion = uint64_t{1} << 60;

template <typename Message>
absl::StatusOr<Message> Parse(absl::string_view bytes, absl::string_view what) {
  Message message;
  const absl::Status parsed = ParseProto(bytes, &message);
  if (!parsed.ok()) return Annotate(parsed, absl::StrCat("from a ", what));
  if (message.message_case() == Message::MESSAGE_NOT_SET) {
    return absl::InvalidArgumentError(absl::StrCat("received an empty message from a ", what));
  }
  return message;
}

}  // namespace

ProtocolVersion CurrentProtocol() {
  ProtocolVersion version;
  version.set_major(kProtocolMajor);
  version.set_minor(kProtocolMinor);
  return version;
}

absl::Status CheckProtocol(const ProtocolVersion& peer) {
  if (peer.major() == kProtocolMajor) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("protocol version is ", peer.major(), ".", peer.minor(), ", expected ",
                   kProtocolMajor, ".x: start all processes of a run from one build"));
}

absl::Status CheckNotReplaced(const Hello& hello, const Hello& other) {
  const bool replaced =
      hello.previous_worker() > 0 && other.name() == hello.name() && other.pid() != hello.pid();
  if (!replaced) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(hello.name(), " (worker ", hello.previous_worker(),
                   ") was given up, and another process has taken its place"));
}

absl::StatusOr<WorkerMessage> ParseWorkerMessage(absl::string_view bytes) {
  return Parse<WorkerMessage>(bytes, "worker");
}

absl::StatusOr<CoordinatorMessage> ParseCoordinatorMessage(absl::string_view bytes) {
  return Parse<CoordinatorMessage>(bytes, "coordinator");
}

absl::Status CheckDemand(const LearnerDemand& demand) {
  // Compares with the quotient, because the product could overflow.
  if (demand.batch_size() >= 1 && demand.batches() >= 1 &&
      demand.batch_size() <= kMaxDemandRows / demand.batches()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "a demand for ", demand.batches(), " batches of ", demand.batch_size(),
      " rows, expected at least 1 batch of 1 row, and at most ", kMaxDemandRows, " rows"));
}

absl::Status CheckLearnerInfo(const LearnerInfo& info) {
  if (info.priority_size() != info.replay_unique_id_size() ||
      info.priority_size() != info.replay_buffer_idx_size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        info.priority_size(), " priorities for ", info.replay_unique_id_size(), " ids and ",
        info.replay_buffer_idx_size(), " places of rows, expected the same number of each"));
  }
  return CheckSteps(info.learner_step());
}

absl::Status CheckGroupStatus(const GroupStatus& group) {
  const bool nested =
      std::any_of(group.member().begin(), group.member().end(),
                  [](const WorkerStatus& member) { return member.member_size() > 0; });
  if (group.member_size() <= kMaxGroupMembers && group.ByteSizeLong() <= kMaxGroupStatusBytes &&
      !nested) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "the status of a group of ", group.member_size(), " learners in ", group.ByteSizeLong(),
      nested ? " bytes, with groups in it" : " bytes", ", expected at most ", kMaxGroupMembers,
      " learners in ", kMaxGroupStatusBytes, " bytes, none with a group of its own"));
}

absl::Status CheckSteps(int64_t steps) {
  if (steps >= 0 && steps <= kMaxSteps) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(steps, " steps, expected 0 to ", kMaxSteps));
}

absl::Status CheckVersion(uint64_t version) {
  if (version <= kMaxVersion) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("version ", version, " of a policy, expected at most ", kMaxVersion));
}

void ToSettings(const NamedValues& values, Settings* settings) {
  settings->Clear();
  for (const auto& [name, value] : values) {
    Setting* const setting = settings->Add();
    setting->set_name(name);
    setting->set_value(value);
  }
}

NamedValues FromSettings(const Settings& settings) {
  NamedValues values;
  for (const Setting& setting : settings) values.Set(setting.name(), setting.value());
  return values;
}

absl::string_view RoleName(Hello::Role role) {
  switch (role) {
    case Hello::COLLECTOR:
      return "collector";
    case Hello::LEARNER:
      return "learner";
    case Hello::OPERATOR:
      return "operator";
  }
  return "unknown";
}

}  // namespace ding
