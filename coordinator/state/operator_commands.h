// Decides the requests of operators.
//
//     OperatorRequest ──Decide──► Decision: whom to drain, whether to stop, and the answer
//                        └──────► or an error: the sentence that the operator reads
//
// It remembers how many collectors are wanted. The coordinator carries out the decisions.
//
// Ownership: a value of the coordinator.
// Threads:   thread-compatible.
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
    bool stops = false;             // whether the run ends
  };

  OperatorCommands(int wanted_collectors, int max_collectors)
      : max_collectors_(max_collectors), wanted_collectors_(wanted_collectors) {}

  int wanted_collectors() const { return wanted_collectors_; }
  // Whether an operator has stopped the run.
  bool stop_wanted() const { return stop_wanted_; }

  // Decides a request. `buffers` are the names of all buffers. After an error nothing is changed.
  //   kNotFound            nothing has the name in the request
  //   kInvalidArgument     a number is out of range, or the request is to drain a learner or a buffer
  //   kFailedPrecondition  the collector is being drained already
  absl::StatusOr<Decision> Decide(const OperatorRequest& request, const WorkerRoster& workers,
                                  const std::vector<std::string>& buffers);

  // For the journal.
  void Save(StateRecord* state) const;
  // Continues from what Save() has written. With `goes_on_after_stop`, a run that was stopped goes on.
  void Load(const StateRecord& state, bool goes_on_after_stop);

 private:
  absl::StatusOr<Decision> Want(int64_t collectors, const WorkerRoster& workers);
  absl::StatusOr<Decision> Drain(const std::string& name, const WorkerRoster& workers,
                                 const std::vector<std::string>& buffers);

  const int max_collectors_;
  int wanted_collectors_;
  bool stop_wanted_ = false;
};

// Removes from a status everything that does not have this name, which may be that of a learner of an aggregator. An empty
// name leaves all of it.
void KeepNamed(const std::string& name, RunStatus* status);

}  // namespace internal_coordinator
}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_STATE_OPERATOR_COMMANDS_H_
