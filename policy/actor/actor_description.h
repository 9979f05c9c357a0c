// The description of a policy in the manifest of a checkpoint. With it, an actor needs neither
// protobuf nor the training program. It says which network the component "model" contains, under
// which name, and how the outputs of the network become actions. It is JSON in the field "actor" of
// the manifest:
//
//   {"version":1,"policy":"ppo","parameters":"model/actor",
//    "network":{"encoder_hidden_size":[64,64],"activation":"tanh","head_hidden_size":0,"head_layer_num":0,
//               "dueling":false,
//               "conv":[{"channels":16,"kernel":3,"stride":1,"padding":0}],    only with convolutions
//               "recurrent":{"cell":"lstm","hidden_size":64}},                 only if recurrent
//    "head":"categorical",
//    "unused_outputs":["value"],                                    heads that acting does not need
//    "exploration":{"type":"exp","start":0.95,"end":0.1,"decay":10000},        only of heads of Q values
//    "distribution":{"kind":"atoms","size":51,"v_min":-10,"v_max":10},         only of "q_distribution"
//    "obs_clip":10}                                                 only with normalized observations
//
// The description of a policy that an actor cannot run is {"version":1,"problem":"..."}. Readers
// ignore members that they do not know. A change that readers must not ignore gets a new version.
//
// Threads: plain data and pure functions.
#ifndef DING_WORKER_POLICY_ACTOR_ACTOR_DESCRIPTION_H_
#define DING_WORKER_POLICY_ACTOR_ACTOR_DESCRIPTION_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ding_worker/policy/mlp/mlp_structure.h"
#include "ding_worker/policy/rnn/rnn_structure.h"
#include "ding_worker/policy/schedule.h"
#include "ding_worker/policy/torch/cnn_structure.h"

namespace ding {

// Fields of the manifest of a checkpoint.
inline constexpr char kActorField[] = "actor";
inline constexpr char kObservationField[] = "observation";  // data/spec_json.h
inline constexpr char kActionField[] = "action";            // likewise

inline constexpr int64_t kActorDescriptionVersion = 1;

// Types of heads; policy/actor/action_head.h says what they do.
inline constexpr char kQHead[] = "q";
inline constexpr char kQDistributionHead[] = "q_distribution";
inline constexpr char kCategoricalHead[] = "categorical";
inline constexpr char kNormalHead[] = "normal";
inline constexpr char kSquashedNormalHead[] = "squashed_normal";
inline constexpr char kTanhHead[] = "tanh";
inline constexpr char kTanhNormalHead[] = "tanh_normal";

struct ActorDescription {
  struct Recurrent {
    RnnCell cell = RnnCell::kLstm;
    int64_t hidden_size = 0;
  };
  // How Q values follow from the outputs of the network. Each Q value is the mean of a distribution
  // of returns.
  struct Distribution {
    enum class Kind {
      kAtoms,  // C51, Rainbow: [A, size] logits of the probabilities of returns from v_min to v_max
      kQuantiles,  // QR-DQN: [A, size] quantiles
      kFractions,  // IQN: [A] quantiles at each of `size` fractions, the middles of equal parts of [0, 1]
    };
    Kind kind = Kind::kQuantiles;
    int64_t size = 1;
    double v_min = 0;     // of kAtoms
    double v_max = 0;     // of kAtoms; above v_min
    int64_t cosines = 0;  // of kFractions: features of a fraction
    bool noisy = false;   // whether the head has noisy layers; the best action uses their means
  };
  std::string policy;             // type of the policy, for messages
  std::string parameters;         // scope of the network's parameters, "model" or "model/actor"
  std::vector<ConvOptions> conv;  // none: the network has no convolutions
  MlpOptions mlp;                 // layers before and after the recurrent one
  std::optional<Recurrent> recurrent;  // not set: not recurrent
  std::string head;
  std::vector<std::string> unused_outputs;
  std::optional<Distribution> distribution;  // of head "q_distribution"
  std::optional<Schedule> exploration;       // the probability of a random action by env step
  std::optional<double> obs_clip;            // set: observations are normalized

  bool IsDistributionOf(Distribution::Kind kind) const {
    return distribution.has_value() && distribution->kind == kind;
  }
};

std::string ActorDescriptionToJson(const ActorDescription& description);
// Returns the description of a policy that no actor can run; `problem` says why.
std::string ActorProblemToJson(absl::string_view problem);

// Parses a description.
//   kFailedPrecondition  it has another version, or no actor can run its policy
//   kInvalidArgument     it does not have the form above; the message says which part
absl::StatusOr<ActorDescription> ActorDescriptionFromJson(absl::string_view text);

}  // namespace ding

#endif  // DING_WORKER_POLICY_ACTOR_ACTOR_DESCRIPTION_H_
