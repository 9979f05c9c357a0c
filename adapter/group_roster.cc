#include "ding_worker/adapter/group_roster.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "ding_worker/adapter/merge.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/interaction/control/protocol.h"

namespace ding {
namespace {

// Limits of the group values that a learner sends in one generation. It needs few of them to
// connect with the others, and all members receive each.
constexpr int kMaxValues = 16;
constexpr size_t kMaxValueBytes = size_t{1} << 20;

}  // namespace

absl::Status GroupRoster::CheckAdmissible(const Hello& hello) const {
  for (const auto& [worker, learner] : learners_) {
    DING_RETURN_IF_ERROR(CheckNotReplaced(hello, learner.hello));
  }
  return absl::OkStatus();
}

void GroupRoster::Add(uint32_t worker, const Hello& hello, const std::string& peer,
                      int64_t now_nanos) {
  Learner& learner = learners_[worker];
  learner.hello = hello;
  learner.peer = peer;
  learner.joined_nanos = now_nanos;
}

std::vector<uint32_t> GroupRoster::InState(State state) const {
  std::vector<uint32_t> found;
  for (const auto& [worker, learner] : learners_) {
    if (learner.state == state) found.push_back(worker);
  }
  return found;
}

Resources GroupRoster::resources() const {
  std::vector<Resources> all;
  for (const auto& [worker, learner] : learners_) all.push_back(learner.hello.resources());
  Resources merged = MergeResources(all);
  merged.set_cpus(std::min(merged.cpus(), kMaxCpus));
  merged.set_memory_bytes(std::min(merged.memory_bytes(), kMaxMemoryBytes));
  merged.set_gpus(std::min(merged.gpus(), kMaxGpus));
  return merged;
}

absl::Status GroupRoster::TakeReady(uint32_t worker, const GroupReady& ready, uint32_t generation) {
  Learner& learner = learners_.at(worker);
  if (learner.state == State::kMember && ready.generation() != generation) {
    return absl::InvalidArgumentError(absl::StrCat(learner.hello.name(), " has left generation ",
                                                   ready.generation(), ", expected generation ",
                                                   generation, ", of which it is a member"));
  }
  if (ready.train_iter() < 0 || ready.model_digest().empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        learner.hello.name(), " is ready at iteration ", ready.train_iter(), " with digest '",
        ready.model_digest(), "', expected at least 0 and the digest of its model"));
  }
  for (const auto& [id, other] : learners_) {
    const bool in_group = other.state == State::kReady || other.state == State::kMember;
    if (id == worker || !in_group || ready.model_digest() == other.ready.model_digest()) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "the model of ", learner.hello.name(), " has digest ", ready.model_digest(), ", expected ",
        other.ready.model_digest(),
        " as in the rest of the group: the names or shapes of its parameters differ; start all "
        "learners from one build"));
  }
  learner.state = State::kReady;
  learner.ready = ready;
  return absl::OkStatus();
}

void GroupRoster::BeginGeneration(const std::vector<uint32_t>& members) {
  for (const uint32_t member : members) {
    Learner& learner = learners_.at(member);
    learner.state = State::kMember;
    learner.values = 0;
    learner.value_bytes = 0;
  }
}

absl::Status GroupRoster::CountValue(uint32_t worker, const GroupValue& value) {
  Learner& learner = learners_.at(worker);
  const size_t bytes = learner.value_bytes + value.ByteSizeLong();
  if (learner.values >= kMaxValues || bytes > kMaxValueBytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        learner.values + 1, " values of ", bytes, " bytes in generation ", value.generation(),
        ", expected at most ", kMaxValues, " values and ", kMaxValueBytes, " bytes"));
  }
  ++learner.values;
  learner.value_bytes = bytes;
  return absl::OkStatus();
}

}  // namespace ding
