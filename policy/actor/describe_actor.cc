#include "ding_worker/policy/actor/describe_actor.h"

#include "absl/strings/str_cat.h"
#include "ding_worker/base/call_user.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/policy/network_config.h"

namespace ding {

Registry<ActorDescriber>& ActorDescriberRegistry() {
  static auto* const registry = new Registry<ActorDescriber>("actor");
  return *registry;
}

absl::StatusOr<ActorDescription> DescribeActor(const PolicyConfig& config, const Spec& action) {
  const absl::StatusOr<ActorDescriber> describer = ActorDescriberRegistry().Find(config.type());
  if (!describer.ok()) {
    return absl::UnimplementedError(
        absl::StrCat("policy '", config.type(),
                     "' does not describe its actor, and so acts only in programs that link it. "
                     "To export it, register beside the policy how its config names the acting "
                     "network, such as DING_REGISTER(ActorDescriberRegistry(), \"",
                     config.type(),
                     "\", DescriberOf(DescribeQActor, &MyConfig::dqn), \"as dqn\"), and save a "
                     "checkpoint again"));
  }
  DING_ASSIGN_OR_RETURN(
      ActorDescription description,
      CallUser(absl::StrCat("the description of the actor of policy '", config.type(), "'"),
               [&] { return (*describer)(config, action); }));
  description.policy = config.type();
  return description;
}

absl::Status DescribeNetwork(const NetworkConfig& config, ActorDescription* description) {
  if (config.type() == "mlp" || config.type() == "torch_mlp" || config.type() == "torch_cnn") {
    DING_ASSIGN_OR_RETURN(description->mlp, MlpOptionsWithEncoder(config));
    for (const ConvConfig& conv : config.conv()) {
      description->conv.push_back({conv.channels(), conv.kernel(), conv.stride(), conv.padding()});
    }
    return absl::OkStatus();
  }
  if (config.type() == "rnn" || config.type() == "torch_rnn") {
    DING_ASSIGN_OR_RETURN(const RnnOptions options, RnnOptionsFromConfig(config));
    description->mlp = options.mlp;
    description->recurrent = {options.cell, options.hidden_size};
    return absl::OkStatus();
  }
  return absl::UnimplementedError(
      absl::StrCat("network '", config.type(),
                   "' is not one that actors compute: mlp, rnn, torch_mlp, torch_cnn, torch_rnn"));
}

}  // namespace ding
