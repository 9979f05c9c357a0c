// Fills in the defaults that policies register (PolicyDefaultsRegistry), so that a config with the
// types of env and policy alone learns. One place does it: what reads a config finds it complete.
//
// A default holds unless the config sets its field, or another alternative of a oneof. These are
// taken whole, so that a part of them is never combined with a part that a user wrote:
//
//   networks          no default of a network holds if the config sets any network of the policy
//   a type            if the config chooses another type than the default does, no further default
//                     of the same message holds: defaults of a buffer "sequence" are not for
//                     "naive"
//   params of buffers
//   priority          holds unless the config sets the type or the params of the buffer
//   rates             policy.collect.n_sample and unroll_len, policy.learn.update_per_collect,
//                     policy.random_collect_size and policy.eval.evaluator.eval_freq hold together,
//                     unless the config sets an amount, unroll_len, update_per_collect or data_set
//
// A line "[as ppo: policy.params.ppo]" of a registration stands for all lines of ppo. It is for a
// policy that is made from ppo, and has the params of ppo in the field `ppo` of its own. Lines
// behind it replace them.
//
// Threads: thread-safe (pure functions, and the registries, which are thread-safe).
#ifndef DING_WORKER_WORKER_CONFIG_POLICY_DEFAULTS_H_
#define DING_WORKER_WORKER_CONFIG_POLICY_DEFAULTS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "ding_worker/worker/experiment.pb.h"

namespace ding {

enum class ActionKind { kAny, kDiscrete, kContinuous };

// A line of the text that a policy registers.
struct PolicyDefault {
  std::string path, value;  // as in --set
  std::string source;       // where the value comes from
  ActionKind actions = ActionKind::kAny;
};

// Returns the defaults of a policy type, in their order; none if it has none.
std::vector<PolicyDefault> ListPolicyDefaults(absl::string_view type);

// Sets the defaults of config.policy.type. A resolved config, as a run saves it, stays as it is,
// so that a run that goes on keeps what it began with. If some defaults depend on the kind of
// actions, and the run has no data set, an env is made to ask it; none of them holds if that fails,
// and the run reports the env itself. Returns a problem for each default that cannot be set.
std::vector<std::string> ApplyPolicyDefaults(ExperimentConfig* config);

// The defaults of a policy type for either kind of actions, with values written as in a printed
// config.
class PolicyDefaultValues {
 public:
  explicit PolicyDefaultValues(absl::string_view type);
  // Returns the source if `value` is a default of the field at `path`, else null.
  const std::string* FindSource(absl::string_view path, absl::string_view value) const;

 private:
  struct Value {
    std::string path, value, source;
  };
  std::vector<Value> values_;
};

// Returns a sentence for each default of the policy that a resolved config has and that `error`
// names: "policy.params.squash_actions: true is a default of policy 'my_ppo' (source)".
std::vector<std::string> DefaultsInError(const ExperimentConfig& config, absl::string_view error);

// Prints a resolved config like PrintTextConfig(). Behind each value that is a default of its
// policy stands the source: "n_sample: 2048  # default of ppo: Schulman et al. 2017, table 3".
std::string PrintConfigWithSources(const ExperimentConfig& config);

}  // namespace ding

#endif  // DING_WORKER_WORKER_CONFIG_POLICY_DEFAULTS_H_
