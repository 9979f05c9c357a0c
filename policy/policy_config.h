// Helpers for factories of policies: they read and check the configs of an algorithm, convert them
// to plain structs, and register it.
//
//   absl::StatusOr<std::unique_ptr<Policy>> Create(const PolicyConfig& policy,
//                                                  const MyConfig& config,
//                                                  const PolicyContext& context) {
//     std::vector<std::string> problems;
//     RequireSingleRows(policy, &problems);
//     DING_RETURN_IF_ERROR(ProblemsToStatus(problems));
//     ...
//   }
//   DING_REGISTER(PolicyRegistry(), "mine", Create, "my own");
//
// Factories collect problems, so that a user sees all of them at once (base/status_macros.h).
// create_policy() has already checked the ranges of all fields.
//
// Threads: thread-safe.
#ifndef DING_WORKER_POLICY_POLICY_CONFIG_H_
#define DING_WORKER_POLICY_POLICY_CONFIG_H_

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/params.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/actor/actor_description.h"
#include "ding_worker/policy/actor/describe_actor.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/policy.pb.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/policy/schedule.h"

namespace ding {

// Appends a problem if `field` does not have its default value although nothing reads it. `needs`
// names what must be set so that the field is read.
void RequireDefaultUnless(bool is_read, double value, double default_value, absl::string_view field,
                          absl::string_view needs, std::vector<std::string>* problems);
void RequireDefaultUnless(bool is_read, bool value, bool default_value, absl::string_view field,
                          absl::string_view needs, std::vector<std::string>* problems);
// For an algorithm that learns from single rows: appends a problem if the config asks for
// sequences.
void RequireSingleRows(const PolicyConfig& config, std::vector<std::string>* problems);
// Appends a problem if an algorithm's config sets `obs_clip` without `normalize_obs`.
template <typename Config>
void RequireObsClip(const Config& config, std::vector<std::string>* problems) {
  RequireDefaultUnless(config.normalize_obs(), config.obs_clip(), Config().obs_clip(), "obs_clip",
                       "normalize_obs", problems);
}

// Unpacks `config.params` into the algorithm's message; if it is not set, `params` is unchanged.
// kInvalidArgument, naming both types, if it is another message.
absl::Status UnpackParams(const PolicyConfig& config, google::protobuf::Message* params);

CollectAttributes CollectAttributesFromConfig(const PolicyConfig& config);
LearnAttributes LearnAttributesFromConfig(const PolicyConfig& config);
Schedule ScheduleFromConfig(const ScheduleConfig& config);

// Reads the options that all policies that learn have under the same names.
template <typename Options>
void ReadPolicyOptions(const PolicyConfig& config, const PolicyContext& context, Options* options) {
  options->seed = context.seed;
  options->collect = CollectAttributesFromConfig(config);
  options->learn = LearnAttributesFromConfig(config);
  options->modes = context.modes;
  options->reducer = context.reducer;
}

// Returns an entry for ActorDescriberRegistry(), made from a function that describes the actor by
// the algorithm's parameters.
template <typename Config>
ActorDescriber DescriberOf(absl::StatusOr<ActorDescription> (*describe)(const PolicyConfig&,
                                                                        const Config&,
                                                                        const Spec& action)) {
  return [describe](const PolicyConfig& policy,
                    const Spec& action) -> absl::StatusOr<ActorDescription> {
    Config config;
    DING_RETURN_IF_ERROR(UnpackParams(policy, &config));
    return describe(policy, config, action);
  };
}
// Does the same for an algorithm whose message contains the message of another algorithm in a
// field:
//   DescriberOf(DescribeQActor, &CqlConfig::dqn)
template <typename Base, typename Config>
ActorDescriber DescriberOf(absl::StatusOr<ActorDescription> (*describe)(const PolicyConfig&,
                                                                        const Base&,
                                                                        const Spec& action),
                           const Base& (Config::*base)() const) {
  return [describe, base](const PolicyConfig& policy,
                          const Spec& action) -> absl::StatusOr<ActorDescription> {
    Config config;
    DING_RETURN_IF_ERROR(UnpackParams(policy, &config));
    return describe(policy, (config.*base)(), action);
  };
}

// A field that may change. Its values are in [least, most], and above `least` if `above` is set.
struct ChangingField {
  std::string field;      // its name in configs
  std::string setting;    // the setting that carries its value
  double value = 0;       // its value in the config
  bool collects = false;  // whether it is a setting of the collect mode
  double least = 0;
  double most = std::numeric_limits<double>::infinity();
  bool above = false;
  // Fields that the config sets and that change the same value, such as "lr_decay_env_steps";
  // empty: none. With such a field CreateFieldSchedules() refuses a schedule.
  std::string rival = {};
};

// Creates the schedules of `config`; a factory names the fields that may change:
//
//   options.schedules = CreateFieldSchedules(
//       config, {{"learning_rate", "lr", my.learning_rate()}}, &problems);
//
// Appends a problem for each schedule that names none of `fields`, leaves the range of its field,
// never ends, or counts other steps (env steps or learner steps) than the schedule before it.
FieldSchedules CreateFieldSchedules(const PolicyConfig& config,
                                    const std::vector<ChangingField>& fields,
                                    std::vector<std::string>* problems);

}  // namespace ding

#endif  // DING_WORKER_POLICY_POLICY_CONFIG_H_
