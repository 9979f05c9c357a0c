// The learners of a group: who is connected, and what each of them is doing.
//
//            task                 ready                 generation
//     kIdle ──────► kStarting ──────────► kReady ─────────────────► kMember
//       ▲                                   ▲    ready, with its number  │
//       └── end of the task, from any       └───────────────────────────┘
//
// A learner whose task fails is kFailed until the next task.
//
// Ownership: owns copies of what it is given.
// Threads:   thread-compatible: the aggregator's mutex guards it.
// Errors:    says what a learner is to blame for, and changes nothing then.
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
    kStarting,  // was given one
    kReady,     // waits for a generation
    kMember,    // is in the present one
    kFailed     // says that its task failed
  };
  struct Learner {
    Hello hello;
    std::string peer;
    int64_t joined_nanos = 0;
    State state = State::kIdle;
    GroupReady ready;
    // That it sent in the present generation.
    int values = 0;
    size_t value_bytes = 0;
  };

  // kFailedPrecondition: another process has taken the place of this learner.
  absl::Status CheckAdmissible(const Hello& hello) const;
  void Add(uint32_t worker, const Hello& hello, const std::string& peer, int64_t now_nanos);
  void Remove(uint32_t worker) { learners_.erase(worker); }

  bool Has(uint32_t worker) const { return learners_.count(worker) > 0; }
  // `worker` is in the group.
  const Learner& Find(uint32_t worker) const { return learners_.at(worker); }
  void SetState(uint32_t worker, State state) { learners_.at(worker).state = state; }
  const std::map<uint32_t, Learner>& learners() const { return learners_; }
  int size() const { return static_cast<int>(learners_.size()); }
  std::vector<uint32_t> InState(State state) const;
  // What all of them have together, no more than the coordinator believes of one worker.
  Resources resources() const;

  // The learner has left its generation, or has started, and waits for the next; `generation`: the
  // present one.
  //   kInvalidArgument     it has left another generation than the present one, or says what cannot be
  //   kFailedPrecondition  its model is another one than the others'
  absl::Status TakeReady(uint32_t worker, const GroupReady& ready, uint32_t generation);
  // `members` are in a new generation.
  void BeginGeneration(const std::vector<uint32_t>& members);
  // Counts a value that is passed on to all members.
  //   kResourceExhausted  too many of them, or too many bytes
  absl::Status CountValue(uint32_t worker, const GroupValue& value);

 private:
  std::map<uint32_t, Learner> learners_;
};

}  // namespace ding

#endif  // DING_WORKER_ADAPTER_GROUP_ROSTER_H_
