// Decides the requests of operators.
//
//     OperatorRequest ──Decide──► Decision: whom to drain, whether to stop, and the answer
//                        └──────► or an error: the sentence that the operator reads
//
// It counts how many collectors there are to be. The coordinator carries the decision out.
//
// Ownership: a value of the coordinator.
// Threads:   thread-compatible: the caller holds the coordinator's lock.
#ifndef DING_WORKER_COORDINATOR_STATE_OPERATOR_COMMANDS_H_
#define DING_WORKER_COORDINATOR_STATE_OPERATOR_COMMANDS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/coordinator/journal/journal.pb.h"
#include "ding_worker/coordinator/state/worker_roster.h"
#include "ding_worker/interaction/messages.pb.h"

namespace ding {
namespace internal_coordinator {

class OperatorCommands {
 public:
  struct Decision {
    std::string message;            // the answer
    std::vector<uint32_t> drained;  // workers, in the order in which they are drained
    bool stops = false;             // the run ends
  };

  OperatorCommands(int wanted_collectors, int max_collectors)
      : max_collectors_(max_collectors), wanted_collectors_(wanted_collectors) {}

  int wanted_collectors() const { return wanted_collectors_; }
  // An operator has stopped the run.
  bool stop_wanted() const { return stop_wanted_; }

  // `buffers`: the names of all buffers. An error changes nothing.
  //   kNotFound            there is nothing of that name
  //   kInvalidArgument     a number out of range; a learner or buffer that is to be drained
  //   kFailedPrecondition  the collector is being drained already
  absl::StatusOr<Decision> Decide(const OperatorRequest& request, const WorkerRoster& workers,
                                  const std::vector<std::string>& buffers);

  // For the journal.
  void Save(StateRecord* state) const;
  // `goes_on_after_stop`: a run that was stopped goes on.
  void Load(const StateRecord& state, bool goes_on_after_stop);

 private:
  absl::StatusOr<Decision> Want(int64_t collectors, const WorkerRoster& workers);
  absl::StatusOr<Decision> Drain(const std::string& name, const WorkerRoster& workers,
                                 const std::vector<std::string>& buffers);

  const int max_collectors_;
  int wanted_collectors_;
  bool stop_wanted_ = false;
};

// Leaves in a status what is called so, also a learner of an aggregator; empty: all of it.
void KeepNamed(const std::string& name, RunStatus* status);

}  // namespace internal_coordinator
}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_STATE_OPERATOR_COMMANDS_H_
