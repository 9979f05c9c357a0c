// The task of a group of learners (GroupTask), and the reports of its status (GroupReporter).
//
// Ownership: the clock must outlive both.
// Threads:   thread-compatible; the aggregator's mutex guards them.
#ifndef DING_WORKER_ADAPTER_GROUP_TASK_H_
#define DING_WORKER_ADAPTER_GROUP_TASK_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "ding_worker/adapter/group_roster.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/interaction/messages.pb.h"

namespace ding {

// The state of a task that a group of learners trains: its generations and its next step. A
// generation is a fixed set of learners that train together.
//
//   kGathering ──► kRunning ── a member is lost, or a learner has come ──► kForming ──► kRunning ...
//
// The class sends no messages. NextStep() decides what to do, from the elapsed time and the states
// of the learners, and the aggregator does it. In a new generation the members have dense ranks.
// Rank 0 is the learner that loads the checkpoint, or else the one with the most iterations.
//
// Errors: TakePolicy() refuses every version that the coordinator would refuse.
class GroupTask {
 public:
  // The fields have the meaning of those in LearnerAggregator::Options.
  struct Options {
    int learner_num = 1;
    absl::Duration connect_timeout;
    absl::Duration form_timeout;
    absl::Duration admit_period;
    std::string address;  // where learners connect to; for messages only
    const Clock* clock = nullptr;
  };
  enum class Phase { kGathering, kRunning, kForming };
  struct Step {
    enum class Kind {
      kWait,
      kForm,   // begin a generation of all learners that are ready
      kBreak,  // end the present generation
      kFail    // fail the task
    };
    Kind kind = Kind::kWait;
    absl::Status failure;  // the reason; for kFail only
  };

  // `group_worker`: the coordinator's worker number of the group.
  GroupTask(const LearnerTask& task, uint32_t group_worker, const Options& options);

  const std::string& id() const { return task_.task_id(); }
  bool running() const { return phase_ == Phase::kRunning; }
  // The number of the last generation; 0 if there was none.
  uint32_t generation() const { return generation_; }
  // The members of the last generation, by rank.
  const std::vector<uint32_t>& members() const { return members_; }

  // Returns the task to send to this learner. If the task resumes, the first learner loads the
  // checkpoint.
  LearnerTask StartOn(uint32_t worker);
  // Whether the first generation cannot begin without this learner, because it loads the
  // checkpoint.
  bool NeedsForCheckpoint(uint32_t worker) const { return generation_ == 0 && loader_ == worker; }
  // The members that have not left the last generation within form_timeout after its end. The
  // caller gives them the task again before it calls NextStep().
  std::vector<uint32_t> Late(const GroupRoster& roster) const;
  // Returns the next step to take. Changes nothing.
  Step NextStep(const GroupRoster& roster) const;

  // Begins a generation of all learners that are ready. There must be at least one.
  void BeginGeneration(const GroupRoster& roster);
  // Returns the message that tells the member with this rank of the generation.
  FormGroup FormOf(size_t rank) const;
  // Ends the present generation; the next one is being formed.
  void EndGeneration() { EnterPhase(Phase::kForming); }

  // Notes a policy version that rank 0 has published.
  //   kInvalidArgument  it is not one of the next versions of the task's policy, or has another key
  absl::Status TakePolicy(const PolicyVersion& version);
  // Notes that the task has failed on a learner. The first failure counts, because it causes the
  // others.
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
  int64_t since_nanos_ = 0;  // when the phase began
  uint32_t generation_ = 0;
  std::vector<uint32_t> members_;
  std::optional<uint32_t> loader_;  // the learner that loads the checkpoint
  uint64_t newest_version_ = 0;
  absl::Status failure_;
};

// Fills in the status of one learner, for people: its name and process, and what it waits for.
// `task` is the group's task, or null if it has none.
void FillLearnerStatus(uint32_t worker, const GroupRoster::Learner& learner, const GroupTask* task,
                       const Clock* clock, WorkerStatus* status);

// Makes the reports of the group for the coordinator: one per period, if the group has changed.
class GroupReporter {
 public:
  GroupReporter(absl::Duration period, const Clock* clock);

  // Returns the report that is due now, or nullopt if none is. If there are more learners than the
  // coordinator accepts in a report (kMaxGroupMembers, kMaxGroupStatusBytes), the last ones are
  // left out.
  std::optional<GroupStatus> Next(const GroupRoster& roster, const GroupTask* task);

 private:
  const absl::Duration period_;
  const Clock* const clock_;
  // The learners at the time of the last report, each with what it waited for.
  std::vector<std::pair<uint32_t, std::string>> reported_;
  Timer since_report_;
};

}  // namespace ding

#endif  // DING_WORKER_ADAPTER_GROUP_TASK_H_
