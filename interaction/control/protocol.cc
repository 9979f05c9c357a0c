#include "ding_worker/interaction/control/protocol.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
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

constexpr double kMaxSeconds = 1e9;

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

std::string ForPeople(absl::string_view text) {
  std::string shown(text.substr(0, kMaxTextBytes));
  for (char& c : shown) {
    if (absl::ascii_iscntrl(static_cast<unsigned char>(c))) c = ' ';
  }
  if (text.size() > kMaxTextBytes) absl::StrAppend(&shown, " ...");
  return shown;
}

absl::Status CheckResources(const Resources& resources) {
  if (resources.cpus() >= 0 && resources.cpus() <= kMaxCpus && resources.memory_bytes() >= 0 &&
      resources.memory_bytes() <= kMaxMemoryBytes && resources.gpus() >= 0 &&
      resources.gpus() <= kMaxGpus) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("a worker with ", resources.cpus(), " cores, ", resources.memory_bytes(),
                   " bytes of memory and ", resources.gpus(), " GPUs, expected 0 to ", kMaxCpus,
                   ", 0 to ", kMaxMemoryBytes, " and 0 to ", kMaxGpus));
}

absl::Status CheckHelloFields(const Hello& hello) {
  const std::string& name = hello.name();
  const bool controls = std::any_of(name.begin(), name.end(), [](char c) {
    return absl::ascii_iscntrl(static_cast<unsigned char>(c));
  });
  if (controls || name.size() > kMaxNameBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a worker's name of ", name.size(), " bytes",
                     controls ? " with control characters" : "", ": '", ForPeople(name),
                     "', expected at most ", kMaxNameBytes, " bytes and no control characters"));
  }
  // The logs of the run are coordinator*, metrics.csv and events.jsonl.
  if (absl::StrContains(name, '/') || absl::StartsWith(name, ".") || name == "coordinator" ||
      name == "metrics" || absl::EndsWith(name, "events")) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a worker's name is '", name, "': its logs have this name, so it must not have a '/', ",
        "begin with a '.', end with 'events', or be 'coordinator' or 'metrics'"));
  }
  return CheckResources(hello.resources());
}

absl::Status CheckProgress(const ProgressReport& progress) {
  DING_RETURN_IF_ERROR(CheckSteps(progress.cur_step()));
  DING_RETURN_IF_ERROR(Annotate(CheckSteps(progress.cur_sample()), "samples"));
  return Annotate(CheckSteps(progress.cur_episode()), "episodes");
}

absl::Status CheckCollectorFinished(const CollectorFinished& info) {
  DING_RETURN_IF_ERROR(CheckSteps(info.step_count()));
  DING_RETURN_IF_ERROR(Annotate(CheckSteps(info.sample_count()), "samples"));
  DING_RETURN_IF_ERROR(Annotate(CheckSteps(info.env_num()), "envs"));
  DING_RETURN_IF_ERROR(Annotate(CheckSteps(info.predefined_episode_count()), "episodes"));
  DING_RETURN_IF_ERROR(Annotate(CheckSteps(info.real_episode_count()), "episodes"));
  DING_RETURN_IF_ERROR(Annotate(CheckSteps(info.abnormal_episode_count()), "abnormal episodes"));
  if (info.train_iter() != -1) {
    DING_RETURN_IF_ERROR(Annotate(CheckSteps(info.train_iter()), "the policy's train iterations"));
  }
  if (!(info.duration_seconds() >= 0 && info.duration_seconds() <= kMaxSeconds)) {
    return absl::InvalidArgumentError(absl::StrCat("a task of ", info.duration_seconds(),
                                                   " seconds, expected 0 to ", kMaxSeconds));
  }
  for (const double episode_return : info.episode_return()) {
    if (std::isfinite(episode_return)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("an episode's return is ", episode_return, ", expected a finite number"));
  }
  if (!std::isfinite(info.eval_score())) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the score of an evaluation is ", info.eval_score(), ", expected a finite number"));
  }
  for (const InfoValue& value : info.info()) {
    const bool counts = value.count() >= 1 && value.count() <= info.episode_return_size();
    if (std::isfinite(value.mean()) && counts) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "an info value of ", value.count(), " episodes has the mean ", value.mean(),
        ", expected a finite number, of 1 to ", info.episode_return_size(), " episodes"));
  }
  if (info.episode_return_size() > info.step_count()) {
    return absl::InvalidArgumentError(absl::StrCat(info.episode_return_size(), " episodes in ",
                                                   info.step_count(),
                                                   " steps, expected at least one step for each"));
  }
  if (info.game_result_size() == 0 || info.game_result_size() == info.episode_return_size()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(info.game_result_size(), " results for ",
                                                 info.episode_return_size(),
                                                 " games, expected one for each game"));
}

absl::Status CheckPriorities(const LearnerInfo& info) {
  for (const float priority : info.priority()) {
    if (priority >= 0 && std::isfinite(priority)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("priority ", priority, ", expected a finite number of at least 0"));
  }
  return absl::OkStatus();
}

absl::Status CheckBadChunks(const BadChunks& bad) {
  const bool known = std::all_of(bad.chunk().begin(), bad.chunk().end(),
                                 [](const BadChunk& chunk) { return chunk.chunk() >= 0; });
  if (known && bad.chunk_size() >= 1 && bad.chunk_size() <= kMaxBadChunks) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "a report of ", bad.chunk_size(), " chunks", known ? "" : ", one with a number below 0",
      ", expected 1 to ", kMaxBadChunks, " chunks with numbers of at least 0"));
}

}  // namespace ding
