// Wrappers that the config puts around an env: they enforce bounds of observations, or sum up
// components of the reward.
//
// Ownership: an env owns the env inside of it.
// Threads:   as Env; ObservationBounds is thread-compatible.
#ifndef DING_WORKER_ENV_ENV_ADAPTERS_H_
#define DING_WORKER_ENV_ENV_ADAPTERS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/env/env.h"

namespace ding {

// EnvConfig::OutOfBounds, for code without protobuf.
enum class OutOfBounds { kError, kClip, kWarn };

// Enforces the bounds and categories of a spec on observations, for untrusted envs. Keeps copies of
// the bounds.
//
// Example:
//   ObservationBounds bounds(spec, OutOfBounds::kClip);
//   DING_RETURN_IF_ERROR(bounds.Enforce(env_id, row));
class ObservationBounds {
 public:
  ObservationBounds(const EnvSpec& spec, OutOfBounds mode);

  // `row` must be an observation of the spec. Clips values outside of their bounds, or leaves them,
  // with occasional warnings; `env_id` is for their text, -1 if it is not known. The manager of the
  // env handles NaN and infinity.
  //   kOutOfRange  mode ERROR, or WARN and a category: names the first such element, its value and
  //                the bounds
  absl::Status Enforce(int env_id, const RowRef& row);

 private:
  // A field that has bounds, with the bounds of each element in the precision of the values.
  struct Field {
    int index = 0;
    std::vector<double> low;
    std::vector<double> high;
    bool is_category = false;
  };

  template <typename T>
  absl::Status EnforceField(int env_id, const Field& field, const RowRef& row);
  void Warn(int env_id, const std::string& found, const char* consequence);

  const std::string name_;
  const OutOfBounds mode_;
  std::vector<Field> fields_;
  int64_t warned_ = 0;  // values outside of their bounds so far
};

// Returns an env that enforces the bounds of its observations by ObservationBounds.
std::unique_ptr<Env> MakeBoundedEnv(std::unique_ptr<Env> env, OutOfBounds mode);

// Returns an env whose reward is the weighted sum of the components of another env's reward. All
// algorithms can learn from it, and collectors, buffers and learners see no components.
//
//   reward = sum over c of weight_c * component_c, in float64, rounded to float32
//
// The return of an episode is the sum of these rewards. StepResult::component_returns has the
// returns of the components. kInvalidArgument unless `weights` has a finite number for each
// component of the reward of `env`.
//
// Example:
//   DING_ASSIGN_OR_RETURN(std::unique_ptr<Env> env, DeepSea::Create());  // treasure, time
//   DING_ASSIGN_OR_RETURN(env, MakeWeightedReward(std::move(env), {1, 0.1}));
absl::StatusOr<std::unique_ptr<Env>> MakeWeightedReward(std::unique_ptr<Env> env,
                                                        std::vector<double> weights);

}  // namespace ding

#endif  // DING_WORKER_ENV_ENV_ADAPTERS_H_
