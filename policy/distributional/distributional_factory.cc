// Registers policy types "c51", "rainbow", "qrdqn" and "iqn".
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/problems.h"
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
#include "ding_worker/policy/q_learning/q_policy.h"
#include "ding_worker/policy/schedule.h"

namespace ding {
namespace {

constexpr char kDqnPrefix[] = "dqn.";

// One policy in the making: it collects the problems of all parts before it creates anything.
class Maker {
 public:
  Maker(absl::string_view algorithm, const PolicyConfig& config, const DqnConfig& dqn,
        const PolicyContext& context)
      : algorithm_(algorithm), config_(config), dqn_(dqn), context_(context) {
    AppendRunProblems(config, algorithm, &problems_, TakesSchedules::kYes);
    AppendProblems(dqn, kDqnPrefix, &problems_);
    const DqnConfig defaults;
    if (dqn.loss() != defaults.loss() || dqn.huber_delta() != defaults.huber_delta()) {
      problems_.push_back(absl::StrCat("dqn.loss and dqn.huber_delta have no effect, because ",
                                       algorithm, " has a loss of its own: remove them"));
    }
  }

  void Require(bool good, absl::string_view field, double value, absl::string_view range) {
    if (good && std::isfinite(value)) return;
    problems_.push_back(absl::StrCat(field, " is ", value, ", must be ", range));
  }
  // Returns `count`, or 2 if it is out of range, so that problems of the network are reported, too.
  int64_t RequireCount(absl::string_view field, int64_t count, int64_t low, int64_t high) {
    if (count >= low && count <= high) return count;
    problems_.push_back(absl::StrCat(field, " is ", count, ", must be in ", low, "..", high));
    return 2;
  }
  // Reads v_min, v_max and atoms of C51Config or RainbowConfig.
  template <typename Config>
  CategoricalSupport RequireSupport(const Config& config) {
    if (!(config.v_min() < config.v_max() && std::isfinite(config.v_max() - config.v_min()))) {
      problems_.push_back(absl::StrCat("v_min is ", config.v_min(), " and v_max ", config.v_max(),
                                       ", must be finite, and v_min below v_max"));
    }
    return {static_cast<float>(config.v_min()), static_cast<float>(config.v_max()),
            RequireCount("atoms", config.atoms(), 2, kMaxAtoms)};
  }
  // Noise takes the place of epsilon, which is then 0.
  void ExploreByNoise() {
    if (!IsDefaultEps(dqn_)) {
      problems_.push_back(absl::StrCat(
          "dqn.eps (type, start, end, decay) has no effect, because noise explores for ",
          algorithm_, ": remove it, or set noise_deviation to 0"));
    }
    has_eps_ = false;
    dqn_.mutable_eps()->set_start(0);
    dqn_.mutable_eps()->set_end(0);
  }

  // Creates a network with outputs for `head`, or fails with all problems.
  absl::StatusOr<std::unique_ptr<Network>> CreateNetwork(
      const QHead& head, const NetworkCreator& creator = create_network) {
    schedules_ = QSchedules(config_, dqn_, has_eps_, &problems_);
    absl::StatusOr<std::unique_ptr<Network>> network =
        CreateQNetwork(dqn_, context_, algorithm_, kDqnPrefix, &problems_, head, creator);
    DING_RETURN_IF_ERROR(
        ProblemsToStatus(problems_, absl::StrCat("policy type '", algorithm_, "'")));
    return network;
  }
  absl::StatusOr<std::unique_ptr<Policy>> CreatePolicy(std::unique_ptr<Network> network,
                                                       std::unique_ptr<QHead> head) {
    DqnOptions options = DqnOptionsFromConfig(config_, dqn_, context_);
    options.schedules = schedules_;
    return DqnPolicy::Create(std::move(network), context_.action, options, context_.observation,
                             {algorithm_, std::move(head)});
  }

 private:
  const std::string algorithm_;
  const PolicyConfig& config_;
  DqnConfig dqn_;
  const PolicyContext& context_;
  bool has_eps_ = true;
  FieldSchedules schedules_;
  std::vector<std::string> problems_;
};

absl::StatusOr<std::unique_ptr<Policy>> CreateC51(const PolicyConfig& config,
                                                  const PolicyContext& context) {
  C51Config c51;
  DING_RETURN_IF_ERROR(UnpackParams(config, &c51));
  Maker maker("c51", config, c51.dqn(), context);
  auto head = std::make_unique<CategoricalHead>(maker.RequireSupport(c51));
  DING_ASSIGN_OR_RETURN(std::unique_ptr<Network> network, maker.CreateNetwork(*head));
  return maker.CreatePolicy(std::move(network), std::move(head));
}

absl::StatusOr<std::unique_ptr<Policy>> CreateRainbow(const PolicyConfig& config,
                                                      const PolicyContext& context) {
  RainbowConfig rainbow;
  DING_RETURN_IF_ERROR(UnpackParams(config, &rainbow));
  Maker maker("rainbow", config, rainbow.dqn(), context);
  auto head = std::make_unique<CategoricalHead>(maker.RequireSupport(rainbow));
  const double deviation = rainbow.noise_deviation();
  maker.Require(deviation >= 0, "noise_deviation", deviation, "finite and at least 0");
  if (deviation > 0) maker.ExploreByNoise();
  DING_ASSIGN_OR_RETURN(std::unique_ptr<Network> network, maker.CreateNetwork(*head));
  if (deviation > 0) {
    DING_ASSIGN_OR_RETURN(network, NoisyNetwork::Create(std::move(network), deviation));
  }
  return maker.CreatePolicy(std::move(network), std::move(head));
}

absl::StatusOr<std::unique_ptr<Policy>> CreateQrdqn(const PolicyConfig& config,
                                                    const PolicyContext& context) {
  QrdqnConfig qrdqn;
  DING_RETURN_IF_ERROR(UnpackParams(config, &qrdqn));
  Maker maker("qrdqn", config, qrdqn.dqn(), context);
  maker.Require(qrdqn.kappa() > 0, "kappa", qrdqn.kappa(), "finite and above 0");
  auto head = std::make_unique<QuantileHead>(
      maker.RequireCount("quantiles", qrdqn.quantiles(), 1, kMaxQuantiles),
      static_cast<float>(qrdqn.kappa()));
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

absl::StatusOr<std::unique_ptr<Policy>> CreateIqn(const PolicyConfig& config,
                                                  const PolicyContext& context) {
  IqnConfig iqn;
  DING_RETURN_IF_ERROR(UnpackParams(config, &iqn));
  Maker maker("iqn", config, iqn.dqn(), context);
  maker.Require(iqn.kappa() > 0, "kappa", iqn.kappa(), "finite and above 0");
  const auto kappa = static_cast<float>(iqn.kappa());
  const int64_t fractions = maker.RequireCount("fractions", iqn.fractions(), 1, kMaxQuantiles);
  const int64_t cosines = maker.RequireCount("cosines", iqn.cosines(), 1, kMaxLayerWidth);
  DING_ASSIGN_OR_RETURN(
      std::unique_ptr<Network> network,
      maker.CreateNetwork(QuantileHead(fractions, kappa),
                          [cosines](const NetworkConfig& model, const SpecPtr& input,
                                    const SpecPtr& outputs, uint64_t seed) {
                            return CreateIqnNetwork(model, input, outputs, seed, cosines);
                          }));
  const absl::Span<const float> drawn = static_cast<const IqnNetwork&>(*network).fraction();
  return maker.CreatePolicy(std::move(network), std::make_unique<QuantileHead>(drawn, kappa));
}

DING_REGISTER(PolicyRegistry(), "c51", CreateC51,
              "C51: DQN on distributions of the return; discrete actions", &C51Config::descriptor);
DING_REGISTER(PolicyRegistry(), "rainbow", CreateRainbow,
              "Rainbow: C51 with noisy layers, dueling, double, n-step, priorities",
              &RainbowConfig::descriptor);
DING_REGISTER(PolicyRegistry(), "qrdqn", CreateQrdqn,
              "QR-DQN: DQN on quantiles of the return; discrete actions", &QrdqnConfig::descriptor);
DING_REGISTER(PolicyRegistry(), "iqn", CreateIqn,
              "IQN: DQN on quantiles of the return at random fractions; discrete actions",
              &IqnConfig::descriptor);

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
absl::StatusOr<ActorDescription> Describe(const PolicyConfig& policy, const Spec& /*action*/) {
  Config config;
  DING_RETURN_IF_ERROR(UnpackParams(policy, &config));
  DING_ASSIGN_OR_RETURN(ActorDescription description, DescribeQActor(policy, config.dqn()));
  description.head = kQDistributionHead;
  description.distribution = DistributionOf(config);
  if (description.distribution->noisy) description.exploration.reset();
  return description;
}

DING_REGISTER(ActorDescriberRegistry(), "c51", Describe<C51Config>, "the mean of the atoms");
DING_REGISTER(ActorDescriberRegistry(), "rainbow", Describe<RainbowConfig>,
              "the mean of the atoms, without noise");
DING_REGISTER(ActorDescriberRegistry(), "qrdqn", Describe<QrdqnConfig>,
              "the mean of the quantiles");
DING_REGISTER(ActorDescriberRegistry(), "iqn", Describe<IqnConfig>,
              "the mean of the quantiles at the middles of equal parts");

}  // namespace
}  // namespace ding
