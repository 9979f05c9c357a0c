// The list of the learners that are connected, with the state of each.
//
//            task                 ready                 generation
//     kIdle ──────► kStarting ──────────► kReady ─────────────────► kMember
//       ▲                                   ▲    ready again            │
//       └── end of the task (any state)     └───────────────────────────┘
//
// A learner on which the task fails is kFailed until the next task.
//
// Ownership: copies its arguments.
// Threads:   thread-compatible; the aggregator's mutex guards it.
// Errors:    an error means that this learner has done something wrong; nothing has changed then.
#ifndef DING_WORKER_ADAPTER_GROUP_ROSTER_H_
#define DING_WORKER_ADAPTER_GROUP_ROSTER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "ding_worker/interaction/messages.pb.h"

namespace ding {

class GroupRoster {
 public:
  enum class State {
    kIdle,      // has no task
    kStarting,  // was given the task
    kReady,     // waits for the next generation
    kMember,    // is in the present generation
    kFailed     // reported that the task failed
  };
  struct Learner {
    Hello hello;
    std::string peer;
    int64_t joined_nanos = 0;
    State state = State::kIdle;
    GroupReady ready;
    // The number and total bytes of the group values that it sent in the present generation.
    int values = 0;
    size_t value_bytes = 0;
  };

  // Whether a learner that says `hello` may join.
  //   kFailedPrecondition  another process has taken the place of this learner
  absl::Status CheckAdmissible(const Hello& hello) const;
  void Add(uint32_t worker, const Hello& hello, const std::string& peer, int64_t now_nanos);
  void Remove(uint32_t worker) { learners_.erase(worker); }

  bool Has(uint32_t worker) const { return learners_.count(worker) > 0; }
  // `worker` must be in the group.
  const Learner& Find(uint32_t worker) const { return learners_.at(worker); }
  void SetState(uint32_t worker, State state) { learners_.at(worker).state = state; }
  const std::map<uint32_t, Learner>& learners() const { return learners_; }
  int size() const { return static_cast<int>(learners_.size()); }
  std::vector<uint32_t> InState(State state) const;
  // The sum of the learners' resources, at most what the coordinator accepts from one worker.
  Resources resources() const;

  // Notes that a learner has started, or has left its generation, and waits for the next one.
  // `generation` is the present generation.
  //   kInvalidArgument     it has left another generation than the present one, or `ready` is
  //                        impossible
  //   kFailedPrecondition  its model differs from the model of the others
  absl::Status TakeReady(uint32_t worker, const GroupReady& ready, uint32_t generation);
  // Makes `members` the members of a new generation.
  void BeginGeneration(const std::vector<uint32_t>& members);
  // Counts a value that is sent to all members.
  //   kResourceExhausted  the learner has sent too many values in this generation, or too many
  //                       bytes
  absl::Status CountValue(uint32_t worker, const GroupValue& value);

 private:
  std::map<uint32_t, Learner> learners_;
};

}  // namespace ding

#endif  // DING_WORKER_ADAPTER_GROUP_ROSTER_H_
