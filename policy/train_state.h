// The state that a learn mode saves beside its model: optimizers, networks, counters, random streams.
//
// The parts are saved in the order in which they were added. Load() reads and checks all parts before it changes one.
//
// Ownership: keeps pointers to the parts, which must outlive it and stay where they are.
// Threads:   thread-compatible.
//
// Example, in the constructor of a learn mode:
//   state()->AddNetwork("target_model", target_.get());
//   state()->AddSeed("noise_seed", &noise_seed_);
#ifndef DING_WORKER_POLICY_TRAIN_STATE_H_
#define DING_WORKER_POLICY_TRAIN_STATE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/data/state.h"
#include "ding_worker/policy/adam.h"
#include "ding_worker/policy/network.h"

namespace ding {

class TrainState {
 public:
  // Parameters with the layout `info`, as tensors "<scope>/<parameter>".
  void AddParameters(const std::string& scope, const std::vector<ParameterInfo>& info,
                     absl::Span<float> values);
  void AddNetwork(const std::string& scope, Network* network);
  void AddAdam(const std::string& scope, Adam* adam);
  void AddRng(const std::string& name, Rng* rng);
  void AddCount(const std::string& name, int64_t* count);
  void AddSeed(const std::string& name, uint64_t* seed);
  // A number in [least, most], which may be infinite; the number itself must be finite.
  void AddNumber(const std::string& name, double least, double most,
                 const std::function<double()>& get, const std::function<void(double)>& set);

  absl::Status Save(StateWriter* writer) const;
  //   kNotFound, kInvalidArgument  a part is missing or does not fit; nothing is changed
  absl::Status Load(StateReader* reader);

 private:
  struct Part {
    std::function<absl::Status(StateWriter*)> save;
    // Reads and checks the part, and returns what makes it the current one.
    std::function<absl::StatusOr<std::function<void()>>(StateReader*)> read;
  };

  template <typename T>
  void Add(std::function<absl::Status(StateWriter*)> save,
           std::function<absl::StatusOr<T>(StateReader*)> read,
           std::function<void(const T&)> apply);

  std::vector<Part> parts_;
};

}  // namespace ding

#endif  // DING_WORKER_POLICY_TRAIN_STATE_H_
