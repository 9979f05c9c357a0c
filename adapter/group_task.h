// A task of a group of learners: the generations in which they learn it, and what is to come next.
//
//   kGathering ──► kRunning ── a member is gone, or a learner has come ──► kForming ──► kRunning ...
//
// It sends nothing: NextStep() says what follows from the time that has passed and the states of the
// learners, and the aggregator does it. In a new generation the members have dense ranks; rank 0 is
// the learner that loads the checkpoint, or the one that is the farthest.
//
// Ownership: the clock outlives it.
// Threads:   thread-compatible: the aggregator's mutex guards it.
// Errors:    TakePolicy() refuses what the coordinator would refuse.
#ifndef DING_WORKER_ADAPTER_GROUP_TASK_H_
#define DING_WORKER_ADAPTER_GROUP_TASK_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "ding_worker/adapter/group_roster.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/interaction/messages.pb.h"

namespace ding {

class GroupTask {
 public:
  // As of LearnerAggregator::Options.
  struct Options {
    int learner_num = 1;
    absl::Duration connect_timeout;
    absl::Duration form_timeout;
    absl::Duration admit_period;
    std::string address;  // that learners join, for people
    const Clock* clock = nullptr;
  };
  enum class Phase { kGathering, kRunning, kForming };
  struct Step {
    enum class Kind {
      kWait,
      kForm,   // a generation of all that are ready
      kBreak,  // the present generation
      kFail    // the task
    };
    Kind kind = Kind::kWait;
    absl::Status failure;  // of kFail
  };

  // `group_worker`: the number by which the coordinator knows the group.
  GroupTask(const LearnerTask& task, uint32_t group_worker, const Options& options);

  const std::string& id() const { return task_.task_id(); }
  bool running() const { return phase_ == Phase::kRunning; }
  // The last one; 0: there was none.
  uint32_t generation() const { return generation_; }
  // The members of the last generation, by rank.
  const std::vector<uint32_t>& members() const { return members_; }

  // The task as one learner is given it: the first one loads the checkpoint, if there is one.
  LearnerTask StartOn(uint32_t worker);
  // Whether the first generation cannot begin without this learner.
  bool NeedsForCheckpoint(uint32_t worker) const { return generation_ == 0 && loader_ == worker; }
  // Members that have not left the generation that is over, and have had the time for it: they begin
  // anew, before NextStep() is asked.
  std::vector<uint32_t> Late(const GroupRoster& roster) const;
  Step NextStep(const GroupRoster& roster) const;

  // Begins a generation of all learners that are ready, of which there are some.
  void BeginGeneration(const GroupRoster& roster);
  // What a member is told of the generation.
  FormGroup FormOf(size_t rank) const;
  void EndGeneration() { EnterPhase(Phase::kForming); }

  // A policy that rank 0 has published.
  //   kInvalidArgument  not the next version of the task's policy, or under another key
  absl::Status TakePolicy(const PolicyVersion& version);
  // A learner's task has failed. The first failure is the reason of all that follow.
  void TakeFailure(const absl::Status& why);

 private:
  void EnterPhase(Phase phase);
  absl::Duration PhaseAge() const;
  Step WhenGathering(const GroupRoster& roster) const;
  Step WhenForming(const GroupRoster& roster) const;
  Step WhenRunning(const GroupRoster& roster) const;

  LearnerTask task_;
  uint32_t group_worker_;
  Options options_;
  Phase phase_ = Phase::kGathering;
  int64_t since_nanos_ = 0;  // of the phase
  uint32_t generation_ = 0;
  std::vector<uint32_t> members_;
  std::optional<uint32_t> loader_;  // of the checkpoint
  uint64_t newest_version_ = 0;
  absl::Status failure_;
};

}  // namespace ding

#endif  // DING_WORKER_ADAPTER_GROUP_TASK_H_
