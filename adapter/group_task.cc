#include "ding_worker/adapter/group_task.h"

#include <algorithm>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/interaction/control/protocol.h"
#include "ding_worker/interaction/store/store.h"

namespace ding {
namespace {

using State = GroupRoster::State;
using Step = GroupTask::Step;

// How many version numbers a policy may skip. Rank 0 counts by one. Without this limit, a learner
// could use the largest number that there is, and its successor could publish nothing.
constexpr uint64_t kMaxSkippedVersions = 1000;

Step Fail(const absl::Status& why) { return {Step::Kind::kFail, why}; }

// Returns what the learner waits for; empty if it is training.
std::string WaitsFor(const GroupRoster::Learner& learner, const GroupTask* task) {
  switch (learner.state) {
    case GroupRoster::State::kIdle:
      return "a task";
    case GroupRoster::State::kStarting:
      return "its own start";
    case GroupRoster::State::kReady:
      return "the group";
    case GroupRoster::State::kMember:
      return task != nullptr && task->running() ? "" : "the end of the last generation";
    case GroupRoster::State::kFailed:
      return "the next task, because this one failed here";
  }
  return "";
}

}  // namespace

GroupTask::GroupTask(const LearnerTask& task, uint32_t group_worker, const Options& options)
    : task_(task), group_worker_(group_worker), options_(options) {
  EnterPhase(Phase::kGathering);
}

// Only the first learner loads the checkpoint. The others copy the state of rank 0 when they join.
LearnerTask GroupTask::StartOn(uint32_t worker) {
  LearnerTask task = task_;
  task.set_group_worker(group_worker_);
  if (task.resume() && !loader_.has_value()) {
    loader_ = worker;
  } else {
    task.set_resume(false);
  }
  return task;
}

std::vector<uint32_t> GroupTask::Late(const GroupRoster& roster) const {
  if (phase_ != Phase::kForming || PhaseAge() < options_.form_timeout) return {};
  return roster.InState(State::kMember);
}

Step GroupTask::NextStep(const GroupRoster& roster) const {
  switch (phase_) {
    case Phase::kGathering:
      return WhenGathering(roster);
    case Phase::kForming:
      return WhenForming(roster);
    case Phase::kRunning:
      return WhenRunning(roster);
  }
  return {};
}

Step GroupTask::WhenGathering(const GroupRoster& roster) const {
  const std::vector<uint32_t> ready = roster.InState(State::kReady);
  const bool all = static_cast<int>(ready.size()) >= options_.learner_num;
  if (!all && PhaseAge() < options_.connect_timeout) return {};
  const bool resumes = !loader_.has_value() || std::count(ready.begin(), ready.end(), *loader_) > 0;
  if (ready.empty()) {
    return Fail(absl::UnavailableError(
        absl::StrCat("no connected learner: none was ready within ",
                     absl::FormatDuration(options_.connect_timeout), ", expected ",
                     options_.learner_num, " to join the aggregator at ", options_.address)));
  }
  if (resumes) return {Step::Kind::kForm, absl::OkStatus()};
  if (PhaseAge() < options_.connect_timeout) return {};
  return Fail(absl::CancelledError("the learner that loads the checkpoint is not ready"));
}

Step GroupTask::WhenForming(const GroupRoster& roster) const {
  if (!roster.InState(State::kMember).empty()) return {};
  const std::vector<uint32_t> ready = roster.InState(State::kReady);
  const bool somebody_learned = std::any_of(ready.begin(), ready.end(), [&roster](uint32_t worker) {
    return roster.Find(worker).ready.generation() > 0;
  });
  if (somebody_learned) return {Step::Kind::kForm, absl::OkStatus()};
  if (!failure_.ok()) return Fail(failure_);
  return Fail(absl::CancelledError("all learners of the group are gone"));
}

Step GroupTask::WhenRunning(const GroupRoster& roster) const {
  if (roster.InState(State::kMember).empty()) return Fail(failure_);
  if (roster.InState(State::kReady).empty() || PhaseAge() < options_.admit_period) return {};
  return {Step::Kind::kBreak, absl::OkStatus()};
}

void GroupTask::BeginGeneration(const GroupRoster& roster) {
  members_ = roster.InState(State::kReady);
  const auto rank_of = [&](uint32_t worker) {
    const GroupReady& ready = roster.Find(worker).ready;
    return std::make_tuple(!NeedsForCheckpoint(worker), ready.generation() == 0,
                           -ready.train_iter(), worker);
  };
  std::sort(members_.begin(), members_.end(),
            [&](uint32_t a, uint32_t b) { return rank_of(a) < rank_of(b); });
  // The first member is the one whose state all copy. The others follow in the order in which they
  // joined.
  std::sort(members_.begin() + 1, members_.end());
  ++generation_;
  EnterPhase(Phase::kRunning);
}

FormGroup GroupTask::FormOf(size_t rank) const {
  FormGroup form;
  form.set_task_id(task_.task_id());
  form.set_generation(generation_);
  form.set_rank(static_cast<int32_t>(rank));
  form.set_world_size(static_cast<int32_t>(members_.size()));
  // One version is skipped, because rank 0 of the previous generation may still be writing it.
  form.set_first_version(
      std::max(task_.first_version(), newest_version_ == 0 ? 1 : newest_version_ + 2));
  return form;
}

absl::Status GroupTask::TakePolicy(const PolicyVersion& version) {
  DING_RETURN_IF_ERROR(Annotate(CheckSteps(version.train_iter()), "train iterations"));
  const uint64_t lowest = std::max({task_.first_version(), newest_version_ + 1, uint64_t{1}});
  const std::string key = PolicyKey(task_.policy_id(), version.version(), group_worker_);
  if (version.policy_id() == task_.policy_id() && version.key() == key &&
      version.version() >= lowest && version.version() - lowest <= kMaxSkippedVersions) {
    newest_version_ = version.version();
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "version ", version.version(), " of policy '", version.policy_id(), "' with key '",
      version.key(), "', expected version ", lowest, " or one of the next ", kMaxSkippedVersions,
      " of policy '", task_.policy_id(), "' with key '", key, "'"));
}

void GroupTask::TakeFailure(const absl::Status& why) {
  // Later failures are consequences: those learners could not take a step because the first one
  // could not.
  if (failure_.ok()) failure_ = why;
}

void GroupTask::EnterPhase(Phase phase) {
  phase_ = phase;
  since_nanos_ = options_.clock->MonotonicNanos();
}

absl::Duration GroupTask::PhaseAge() const {
  return absl::Nanoseconds(options_.clock->MonotonicNanos() - since_nanos_);
}

void FillLearnerStatus(uint32_t worker, const GroupRoster::Learner& learner, const GroupTask* task,
                       const Clock* clock, WorkerStatus* status) {
  status->set_worker(worker);
  status->set_name(learner.hello.name());
  status->set_role(learner.hello.role());
  status->set_peer(learner.peer);
  status->set_pid(learner.hello.pid());
  *status->mutable_resources() = learner.hello.resources();
  status->set_alive_seconds(
      absl::ToDoubleSeconds(absl::Nanoseconds(clock->MonotonicNanos() - learner.joined_nanos)));
  if (task != nullptr && learner.state != GroupRoster::State::kIdle) {
    status->set_task_id(task->id());
  }
  status->set_waits_for(WaitsFor(learner, task));
}

GroupReporter::GroupReporter(absl::Duration period, const Clock* clock)
    : period_(period), clock_(clock), since_report_(clock) {}

std::optional<GroupStatus> GroupReporter::Next(const GroupRoster& roster, const GroupTask* task) {
  if (since_report_.Elapsed() < period_) return std::nullopt;
  std::vector<std::pair<uint32_t, std::string>> now;
  for (const auto& [worker, learner] : roster.learners()) {
    now.emplace_back(worker, WaitsFor(learner, task));
  }
  if (now == reported_) return std::nullopt;
  GroupStatus group;
  for (const auto& [worker, learner] : roster.learners()) {
    if (group.member_size() == kMaxGroupMembers) break;
    FillLearnerStatus(worker, learner, task, clock_, group.add_member());
    if (group.ByteSizeLong() <= kMaxGroupStatusBytes) continue;
    group.mutable_member()->RemoveLast();
    break;
  }
  reported_ = std::move(now);
  since_report_ = Timer(clock_);
  return group;
}

}  // namespace ding
