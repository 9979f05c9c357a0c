// Stoppers by name, and all stoppers of a run (StopperList).
//
// Example: a stopper of your own.
//   DING_REGISTER(
//       StopperRegistry(), "all_lost",
//       [](const StopperConfig&, const NoParams&, const StopperDeps&) {
//         return std::make_unique<AllLostStopper>();
//       },
//       "ends the run when all episodes of an evaluation are lost");
//
//   stopper { type: "all_lost" }
#ifndef DING_WORKER_LEARNER_STOPPER_REGISTRY_H_
#define DING_WORKER_LEARNER_STOPPER_REGISTRY_H_

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ding_worker/base/module.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/data/state.h"
#include "ding_worker/learner/stopper.h"
#include "ding_worker/learner/stopper.pb.h"
#include "google/protobuf/repeated_ptr_field.h"

namespace ding {

// Facts about the run. A stopper refuses a config with which it could never stop this run.
struct StopperDeps {
  bool has_evaluations = true;  // whether the run plays episodes to evaluate
  // The highest mean return that the env's reward bounds allow.
  double max_return = std::numeric_limits<double>::infinity();
  // The time after which the run ends in any case; infinite if there is no such limit.
  absl::Duration max_time = absl::InfiniteDuration();
  // The most evaluations that the run's budget allows; the highest number if there is no such
  // limit.
  int64_t max_evaluations = std::numeric_limits<int64_t>::max();
};

// Stoppers (base/module.h); some are linked with the registry. A factory returns kInvalidArgument
// if the parameters are wrong or the stopper could never end the run. The message says what was
// found and what is expected.
using StopperCreator = Module<std::unique_ptr<IStopper>, StopperConfig, const StopperDeps&>;
ModuleRegistry<StopperCreator>& StopperRegistry();

// Makes the stopper that `config` names, with the errors of ModuleRegistry::Create().
inline absl::StatusOr<std::unique_ptr<IStopper>> create_stopper(const StopperConfig& config,
                                                                const StopperDeps& deps) {
  return StopperRegistry().Create(config, deps);
}

// The stoppers of a run, which are called and saved together.
//
// Ownership: owns its stoppers.
// Threads:   thread-compatible.
//
// Example:
//   DING_ASSIGN_OR_RETURN(StopperList stoppers, StopperList::Create(config.stopper(), deps));
//   DING_RETURN_IF_ERROR(stoppers.Ask({env_step, train_iter, elapsed}));
//   if (!stoppers.why().empty()) ...
class StopperList {
 public:
  StopperList() = default;
  // kInvalidArgument lists the problems of all stoppers: unknown types, and what create_stopper()
  // refuses.
  static absl::StatusOr<StopperList> Create(
      const google::protobuf::RepeatedPtrField<StopperConfig>& configs, const StopperDeps& deps);

  bool empty() const { return stoppers_.empty(); }
  // Calls the stoppers one after another, until one wants to stop; then none is called again. An
  // exception of a stopper is the error kInternal.
  absl::Status Ask(const RunMoment& now);
  // The reason of the stopper that wants to stop, with its type; empty: the run goes on.
  const std::string& why() const { return why_; }

  // Save and load. A stopper whose config equals the saved one continues; any other stopper begins
  // anew. The reason to stop is kept if all configs are the same. A state without stoppers is
  // valid.
  absl::Status SaveState(StateWriter* writer) const;
  absl::Status LoadState(StateReader* reader);

 private:
  struct Entry {
    std::string name;    // for messages
    std::string config;  // its bytes
    std::unique_ptr<IStopper> stopper;
    bool has_info = false;  // whether an evaluation has had its info() value
  };

  std::vector<Entry> stoppers_;
  std::string why_;
};

}  // namespace ding

#endif  // DING_WORKER_LEARNER_STOPPER_REGISTRY_H_
