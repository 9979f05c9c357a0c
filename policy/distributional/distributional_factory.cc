// Registers policy types "c51", "rainbow", "qrdqn" and "iqn".
#include <cmath>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/actor/actor_description.h"
#include "ding_worker/policy/actor/describe_actor.h"
#include "ding_worker/policy/distributional/distributional.pb.h"
#include "ding_worker/policy/distributional/distributional_heads.h"
#include "ding_worker/policy/distributional/iqn_network.h"
#include "ding_worker/policy/dqn/dqn.h"
#include "ding_worker/policy/dqn/dqn.pb.h"
#include "ding_worker/policy/loss/distributional_loss.h"
#include "ding_worker/policy/mlp/mlp_structure.h"
#include "ding_worker/policy/network.h"
#include "ding_worker/policy/network_config.h"
#include "ding_worker/policy/noisy_network.h"
#include "ding_worker/policy/policy_config.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/policy/q_learning/dqn_config.h"
#include "ding_worker/policy/q_learning/q_network.h"

namespace ding {
namespace {

// Adds to the making of a policy what those of this folder share.
class Maker : public QPolicyMaker {
 public:
  Maker(const PolicyConfig& policy, const DqnConfig& dqn, const PolicyContext& context)
      : QPolicyMaker(policy, dqn, context), policy_(policy), context_(context) {
    RequireSingleRows(policy, problems());
    const DqnConfig defaults;
    if (dqn.loss() != defaults.loss() || dqn.huber_delta() != defaults.huber_delta()) {
      problems()->push_back(absl::StrCat("dqn.loss and dqn.huber_delta have no effect, because ",
                                         policy.type(), " has a loss of its own: remove them"));
    }
  }

  // Reads v_min, v_max and atoms of C51Config or RainbowConfig.
  template <typename Config>
  CategoricalSupport RequireSupport(const Config& config) {
    if (!(config.v_min() < config.v_max() && std::isfinite(config.v_max() - config.v_min()))) {
      problems()->push_back(absl::StrCat("v_min is ", config.v_min(), " and v_max ", config.v_max(),
                                         ", must be finite, and v_min below v_max"));
    }
    return {static_cast<float>(config.v_min()), static_cast<float>(config.v_max()), config.atoms()};
  }

  absl::StatusOr<std::unique_ptr<Policy>> CreatePolicy(std::unique_ptr<Network> network,
                                                       std::unique_ptr<QHead> head) {
    return DqnPolicy::Create(std::move(network), context_.action, *options(), context_.observation,
                             {policy_.type(), std::move(head)});
  }

 private:
  const PolicyConfig& policy_;
  const PolicyContext& context_;
};

absl::StatusOr<std::unique_ptr<Policy>> CreateC51(const PolicyConfig& policy,
                                                  const C51Config& config,
                                                  const PolicyContext& context) {
  Maker maker(policy, config.dqn(), context);
  auto head = std::make_unique<CategoricalHead>(maker.RequireSupport(config));
  DING_ASSIGN_OR_RETURN(std::unique_ptr<Network> network, maker.CreateNetwork(*head));
  return maker.CreatePolicy(std::move(network), std::move(head));
}

absl::StatusOr<std::unique_ptr<Policy>> CreateRainbow(const PolicyConfig& policy,
                                                      const RainbowConfig& config,
                                                      const PolicyContext& context) {
  Maker maker(policy, config.dqn(), context);
  auto head = std::make_unique<CategoricalHead>(maker.RequireSupport(config));
  const double deviation = config.noise_deviation();
  if (deviation > 0) {
    maker.RefuseEps("noise explores for rainbow", "remove it, or set noise_deviation to 0");
    maker.options()->eps.start = 0;
    maker.options()->eps.end = 0;
  }
  DING_ASSIGN_OR_RETURN(std::unique_ptr<Network> network, maker.CreateNetwork(*head));
  if (deviation > 0) {
    DING_ASSIGN_OR_RETURN(network, NoisyNetwork::Create(std::move(network), deviation));
  }
  return maker.CreatePolicy(std::move(network), std::move(head));
}

absl::StatusOr<std::unique_ptr<Policy>> CreateQrdqn(const PolicyConfig& policy,
                                                    const QrdqnConfig& config,
                                                    const PolicyContext& context) {
  Maker maker(policy, config.dqn(), context);
  auto head =
      std::make_unique<QuantileHead>(config.quantiles(), static_cast<float>(config.kappa()));
  DING_ASSIGN_OR_RETURN(std::unique_ptr<Network> network, maker.CreateNetwork(*head));
  return maker.CreatePolicy(std::move(network), std::move(head));
}

absl::StatusOr<std::unique_ptr<Network>> CreateIqnNetwork(const NetworkConfig& config,
                                                          const SpecPtr& input,
                                                          const SpecPtr& outputs, uint64_t seed,
                                                          int64_t cosines) {
  if (config.type() != "mlp") {
    return absl::InvalidArgumentError(
        absl::StrCat("its type is '", config.type(),
                     "', but iqn multiplies features inside of its network: must be 'mlp'"));
  }
  DING_RETURN_IF_ERROR(RefuseDevices(config));
  DING_RETURN_IF_ERROR(RefuseConvolutions(config));
  DING_RETURN_IF_ERROR(RefuseRecurrence(config));
  DING_ASSIGN_OR_RETURN(const MlpOptions mlp, MlpOptionsWithEncoder(config));
  return IqnNetwork::Create({mlp, cosines}, input, outputs, seed);
}

absl::StatusOr<std::unique_ptr<Policy>> CreateIqn(const PolicyConfig& policy,
                                                  const IqnConfig& config,
                                                  const PolicyContext& context) {
  Maker maker(policy, config.dqn(), context);
  const auto kappa = static_cast<float>(config.kappa());
  const int64_t cosines = config.cosines();
  DING_ASSIGN_OR_RETURN(
      std::unique_ptr<Network> network,
      maker.CreateNetwork(QuantileHead(config.fractions(), kappa),
                          [cosines](const NetworkConfig& model, const SpecPtr& input,
                                    const SpecPtr& outputs, uint64_t seed) {
                            return CreateIqnNetwork(model, input, outputs, seed, cosines);
                          }));
  const absl::Span<const float> drawn = static_cast<const IqnNetwork&>(*network).fraction();
  return maker.CreatePolicy(std::move(network), std::make_unique<QuantileHead>(drawn, kappa));
}

DING_REGISTER(PolicyRegistry(), "c51", CreateC51,
              "C51: DQN on distributions of the return; discrete actions");
DING_REGISTER(PolicyRegistry(), "rainbow", CreateRainbow,
              "Rainbow: C51 with noisy layers, dueling, double, n-step, priorities");
DING_REGISTER(PolicyRegistry(), "qrdqn", CreateQrdqn,
              "QR-DQN: DQN on quantiles of the return; discrete actions");
DING_REGISTER(PolicyRegistry(), "iqn", CreateIqn,
              "IQN: DQN on quantiles of the return at random fractions; discrete actions");

// How the actors of these policies make Q values, as ActorDescription::Distribution.
using Distribution = ActorDescription::Distribution;

template <typename Config>
Distribution DistributionOfAtoms(const Config& config) {
  Distribution distribution;
  distribution.kind = Distribution::Kind::kAtoms;
  distribution.size = config.atoms();
  distribution.v_min = config.v_min();
  distribution.v_max = config.v_max();
  return distribution;
}
Distribution DistributionOf(const C51Config& config) { return DistributionOfAtoms(config); }
Distribution DistributionOf(const RainbowConfig& config) {
  Distribution distribution = DistributionOfAtoms(config);
  distribution.noisy = config.noise_deviation() > 0;
  return distribution;
}
Distribution DistributionOf(const QrdqnConfig& config) {
  Distribution distribution;
  distribution.size = config.quantiles();
  return distribution;
}
Distribution DistributionOf(const IqnConfig& config) {
  Distribution distribution;
  distribution.kind = Distribution::Kind::kFractions;
  distribution.size = config.fractions();
  distribution.cosines = config.cosines();
  return distribution;
}

template <typename Config>
absl::StatusOr<ActorDescription> Describe(const PolicyConfig& policy, const Config& config,
                                          const Spec& action) {
  DING_ASSIGN_OR_RETURN(ActorDescription description, DescribeQActor(policy, config.dqn(), action));
  description.head = kQDistributionHead;
  description.distribution = DistributionOf(config);
  if (description.distribution->noisy) description.exploration.reset();
  return description;
}

DING_REGISTER(ActorDescriberRegistry(), "c51", DescriberOf(Describe<C51Config>),
              "the mean of the atoms");
DING_REGISTER(ActorDescriberRegistry(), "rainbow", DescriberOf(Describe<RainbowConfig>),
              "the mean of the atoms, without noise");
DING_REGISTER(ActorDescriberRegistry(), "qrdqn", DescriberOf(Describe<QrdqnConfig>),
              "the mean of the quantiles");
DING_REGISTER(ActorDescriberRegistry(), "iqn", DescriberOf(Describe<IqnConfig>),
              "the mean of the quantiles at the middles of equal parts");

// What a config of these policies has unless it says otherwise.
constexpr char kDefaults[] = R"(
  policy.collect.n_sample=16  # SB3 zoo, dqn.yml, MountainCar: train_freq
  policy.learn.update_per_collect=8  # SB3 zoo, dqn.yml, MountainCar: gradient_steps
  policy.random_collect_size=1000  # SB3 zoo, dqn.yml, MountainCar: learning_starts
  policy.eval.evaluator.eval_freq=2500  # 5,000 env steps
  policy.learn.batch_size=64  # DI-engine, DQN
  policy.other.replay_buffer.replay_buffer_size=100000  # SB3 zoo, dqn.yml, CartPole
  policy.params.dqn.model.encoder_hidden_size=[128, 128, 64]  # DI-engine, DQN
  policy.params.dqn.target_update_freq=100  # DI-engine, DQN
)";
DING_REGISTER(PolicyDefaultsRegistry(), "c51", kDefaults, "those of DQN");
DING_REGISTER(PolicyDefaultsRegistry(), "rainbow", R"(
  [as c51: policy.params]
  policy.nstep=3  # Hessel et al. 2018, table 1
  policy.priority=true  # Hessel et al. 2018
  policy.other.replay_buffer.type=advanced  # Hessel et al. 2018: priorities
  policy.params.dqn.model.dueling=true  # Hessel et al. 2018
)",
              "those of DQN, with all extensions of the paper");
DING_REGISTER(PolicyDefaultsRegistry(), "qrdqn", kDefaults, "those of DQN");
DING_REGISTER(PolicyDefaultsRegistry(), "iqn", kDefaults, "those of DQN");

}  // namespace
}  // namespace ding
