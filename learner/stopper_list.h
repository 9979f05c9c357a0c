// The stoppers of a run, asked and saved together.
//
// Ownership: owns its stoppers.
// Threads:   thread-compatible.
//
// Example:
//   DING_ASSIGN_OR_RETURN(StopperList stoppers, StopperList::Create(config.stopper(), deps));
//   DING_RETURN_IF_ERROR(stoppers.Ask({env_step, train_iter, elapsed}));
//   if (!stoppers.why().empty()) ...
#ifndef DING_WORKER_LEARNER_STOPPER_LIST_H_
#define DING_WORKER_LEARNER_STOPPER_LIST_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/data/state.h"
#include "ding_worker/learner/stopper.h"
#include "ding_worker/learner/stopper.pb.h"
#include "ding_worker/learner/stopper_registry.h"
#include "google/protobuf/repeated_ptr_field.h"

namespace ding {

class StopperList {
 public:
  StopperList() = default;
  // kInvalidArgument lists the problems of all stoppers: unknown types, and what create_stopper() refuses.
  static absl::StatusOr<StopperList> Create(
      const google::protobuf::RepeatedPtrField<StopperConfig>& configs, const StopperDeps& deps);

  bool empty() const { return stoppers_.empty(); }
  // Asks them one after another, until one of them wants to stop; then none is asked again. An exception of a
  // stopper is the error kInternal.
  absl::Status Ask(const RunMoment& now);
  // The reason of the one that wants to stop, with its type; empty: the run goes on.
  const std::string& why() const { return why_; }

  // A stopper whose config is the same as when it was saved goes on where it was, any other begins anew. The
  // reason to stop is kept if all configs are the same. A state without stoppers is valid.
  absl::Status SaveState(StateWriter* writer) const;
  absl::Status LoadState(StateReader* reader);

 private:
  struct Entry {
    std::string name;    // for messages
    std::string config;  // its bytes
    std::unique_ptr<IStopper> stopper;
  };

  std::vector<Entry> stoppers_;
  std::string why_;
};

}  // namespace ding

#endif  // DING_WORKER_LEARNER_STOPPER_LIST_H_
