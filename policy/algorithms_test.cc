// The conformance tests of all algorithms: a new one joins by one line.
#include <cstdint>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/data/tensor.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/policy.pb.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/policy/testing/algorithm_conformance.h"
#include "ding_worker/policy/testing/random_batch.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

// A config of `type` with params of the message `message`, whose network `model` is a small MLP.
std::string Config(const std::string& type, const std::string& message, const std::string& params,
                   const std::string& run = "priority: true") {
  return absl::StrCat("type: '", type, "' ", run, " params { [type.googleapis.com/ding.", message,
                      "] { ", params, " } }");
}

constexpr char kDqn[] =
    "dqn { model { encoder_hidden_size: [16, 8] dueling: true } learning_rate: 0.003 "
    "target_update_freq: 2 grad_clip_norm: 1 }";

std::string Distributional(const std::string& type, const std::string& message,
                           const std::string& params = "") {
  return Config(type, message, absl::StrCat(kDqn, params));
}

constexpr char kActorCritic[] =
    "actor_critic { model { encoder_hidden_size: [16, 8] } critic { encoder_hidden_size: [8] } "
    "learning_rate: 0.003 } ";

// A minibatch has all rows: how they are divided into several is drawn by each learner of a group.
AlgorithmCase OnPolicy(const std::string& type, const std::string& message,
                       const std::string& params = "") {
  AlgorithmCase c = {type,
                     Config(type, message, absl::StrCat(kActorCritic, params), "batch_size: 32")};
  c.make_batch = MakeOnPolicyBatch;
  c.needed_column = kColumnAdvantage;
  return c;
}

// Continuous actions that tanh squashes, and an entropy weight that follows the entropy.
AlgorithmCase SquashedPpo() {
  AlgorithmCase c =
      OnPolicy("ppo", "PpoConfig", "epoch_per_collect: 2 adv_norm: false target_entropy: -1");
  c.name = "ppo_squashed";
  c.config = absl::StrReplaceAll(
      c.config, {{"actor_critic {", "actor_critic { squash_actions: true entropy_weight: 0.01"}});
  c.action = *MakeSpec({Box("action", {2}, {-2, -1}, {2, 3})});
  return c;
}

// Sequences of 4 rows.
AlgorithmCase Impala() {
  AlgorithmCase c = {"impala",
                     Config("impala", "ImpalaConfig", kActorCritic, "batch_size: 8 unroll_len: 4")};
  c.make_batch = [](const SpecPtr& observation, const SpecPtr& action, int64_t rows,
                    uint64_t seed) {
    return MakeImpalaTestBatch(observation, action, rows, /*length=*/4, seed);
  };
  c.needed_column = kColumnLogProb;
  return c;
}

AlgorithmCase R2d2() {
  AlgorithmCase c = {
      "r2d2", Config("r2d2", "R2d2Config",
                     "dqn { model { type: 'rnn' encoder_hidden_size: [8] recurrent { cell: GRU "
                     "hidden_size: 3 } } learning_rate: 0.003 target_update_freq: 2 }",
                     "priority: true batch_size: 8 unroll_len: 4")};
  c.make_batch = [](const SpecPtr& observation, const SpecPtr& action, int64_t rows,
                    uint64_t seed) {
    RandomSequencesOptions options;
    options.sequences = rows / options.length;
    options.burn_in = 1;
    return MakeRandomSequences(observation, action, seed, options);
  };
  return c;
}

AlgorithmCase Imitation() {
  AlgorithmCase c = {
      "bc", Config("bc", "BcConfig", "model { encoder_hidden_size: [16, 8] } learning_rate: 0.003",
                   "batch_size: 32")};
  c.needed_column = "obs";
  return c;
}

// `params` come after those that all algorithms with continuous actions have.
AlgorithmCase Continuous(const std::string& type, const std::string& message,
                         const std::string& params = "") {
  AlgorithmCase c = {
      type, Config(type, message,
                   absl::StrCat("continuous { model { encoder_hidden_size: [16, 8] } critic { "
                                "encoder_hidden_size: [8, 8] } actor_learning_rate: 0.003 "
                                "critic_learning_rate: 0.003 grad_clip_norm: 1 } ",
                                params))};
  c.action = *MakeSpec({Box("action", {2}, {-2, -1}, {2, 3})});
  return c;
}

AlgorithmCase Droq() {
  AlgorithmCase c = Continuous("sac", "SacConfig",
                               "critic_dropout: 0.2 critic_layer_norm: true actor_value: MEAN "
                               "actor_update_freq: 2");
  c.name = "droq";
  return c;
}

AlgorithmCase Redq() {
  AlgorithmCase c = Continuous(
      "sac", "SacConfig", "num_critics: 4 target_subset: 2 actor_value: MEAN actor_update_freq: 2");
  c.name = "redq";
  return c;
}

std::vector<AlgorithmCase> ContinuousAlgorithms() {
  return {Continuous("sac", "SacConfig"),
          Droq(),
          Redq(),
          Continuous("td3", "Td3Config"),
          Continuous("ddpg", "DdpgConfig"),
          Continuous("td3bc", "Td3BcConfig"),
          Continuous("iql", "IqlConfig")};
}

std::vector<AlgorithmCase> Algorithms() {
  std::vector<AlgorithmCase> algorithms = {
      {"dqn", Config("dqn", "DqnConfig",
                     "model { encoder_hidden_size: [16, 8] dueling: true } "
                     "learning_rate: 0.003 target_update_freq: 2 grad_clip_norm: 1")},
      {"c51", Distributional("c51", "C51Config", " atoms: 21")},
      {"rainbow", Distributional("rainbow", "RainbowConfig", " atoms: 21")},
      {"qrdqn", Distributional("qrdqn", "QrdqnConfig", " quantiles: 20")},
      {"iqn", Distributional("iqn", "IqnConfig", " fractions: 8")},
      {"cql", Config("cql", "CqlConfig", absl::StrCat(kDqn, " alpha: 0.5"))},
      {"discrete_sac",
       Config("discrete_sac", "DiscreteSacConfig",
              "model { encoder_hidden_size: [16, 8] } critic { encoder_hidden_size: [8] dueling: "
              "true } actor_learning_rate: 0.003 critic_learning_rate: 0.003 grad_clip_norm: 1")},
      OnPolicy("ppo", "PpoConfig", "epoch_per_collect: 2 adv_norm: false"),
      SquashedPpo(),
      OnPolicy("a2c", "A2cConfig"),
      Impala(),
      R2d2(),
      Imitation(),
  };
  for (const AlgorithmCase& c : ContinuousAlgorithms()) algorithms.push_back(c);
  return algorithms;
}

DING_TEST_ALGORITHMS(All, Algorithms());

// Algorithms whose losses have no targets that depend on the parameters, with smooth networks.
std::vector<AlgorithmCase> SmoothAlgorithms() {
  const LossGradient critic = {"critic_loss", "critic/", "critic_optimizer/"};
  const LossGradient actor = {"actor_loss", "model/actor/", "actor_optimizer/"};
  std::vector<AlgorithmCase> algorithms = {
      {"dqn", Config("dqn", "DqnConfig", "model { encoder_hidden_size: [16, 8] }")},
      {"cql", Config("cql", "CqlConfig", absl::StrCat(kDqn, " alpha: 0.5"))},
      OnPolicy("ppo", "PpoConfig", "epoch_per_collect: 2 adv_norm: false"),
      SquashedPpo(),
      OnPolicy("a2c", "A2cConfig"),
      Imitation(),
      Continuous("sac", "SacConfig"),
      Continuous("td3", "Td3Config", "actor_update_freq: 1")};
  for (AlgorithmCase& c : algorithms) {
    c.losses = {{}};
    if (c.name == "sac" || c.name == "td3") c.losses = {critic, actor};
    c.config = absl::StrReplaceAll(
        c.config, {{"encoder_hidden_size", "activation: TANH encoder_hidden_size"}});
  }
  return algorithms;
}

INSTANTIATE_TEST_SUITE_P(Smooth, AlgorithmConformance, testing::ValuesIn(SmoothAlgorithms()),
                         testing::PrintToStringParamName());

// Algorithms that choose among the legal actions only.
std::vector<AlgorithmCase> MaskedAlgorithms() {
  std::vector<AlgorithmCase> algorithms = {
      {"dqn_soft_target", Config("dqn", "DqnConfig",
                                 "model { encoder_hidden_size: [16, 8] } learning_rate: 0.003 "
                                 "target_update_theta: 0.1")},
      {"discrete_sac",
       Config("discrete_sac", "DiscreteSacConfig", "model { encoder_hidden_size: [16, 8] }")},
      R2d2()};
  for (AlgorithmCase& c : algorithms) c.observation = MaskedObservation(3);
  return algorithms;
}

INSTANTIATE_TEST_SUITE_P(Masked, PolicyConformance,
                         testing::ValuesIn(PolicyCasesOf(MaskedAlgorithms())),
                         testing::PrintToStringParamName());

// Algorithms whose updates several threads may share, with networks and batches that are large
// enough for it.
class LearnThreadsTest : public testing::TestWithParam<AlgorithmCase> {
 protected:
  // Returns all that is saved after a few updates.
  static TensorMap Learn(int threads) {
    const AlgorithmCase& c = GetParam();
    PolicyConfig config;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
        absl::StrReplaceAll(c.config,
                            {{"[16, 8]", "[40, 72]"},
                             {"[8, 8]", "[64, 48]"},
                             {"grad_clip_norm: 1", absl::StrCat("learn_threads: ", threads)}}),
        &config));
    PolicyContext context;
    context.observation = c.observation;
    context.action = c.action;
    context.seed = 3;
    auto policy = create_policy(config, context);
    EXPECT_THAT(policy, IsOk());
    std::vector<LearnStep> steps;
    for (uint64_t seed = 0; seed < 6; ++seed) {
      EXPECT_THAT((*policy)->learn_mode()->Forward(
                      c.make_batch(c.observation, c.action, /*rows=*/150, seed), {}, &steps),
                  IsOk());
    }
    StateDict state;
    EXPECT_THAT((*policy)->learn_mode()->SaveModel(&state), IsOk());
    EXPECT_THAT((*policy)->learn_mode()->SaveTrainState(&state), IsOk());
    return state.tensors();
  }
};

std::vector<AlgorithmCase> AlgorithmsWithThreads() {
  std::vector<AlgorithmCase> algorithms = ContinuousAlgorithms();
  for (const AlgorithmCase& c : Algorithms()) {
    constexpr absl::string_view kQLearning[] = {"dqn", "c51", "rainbow", "qrdqn", "iqn", "cql"};
    if (absl::c_linear_search(kQLearning, c.name)) algorithms.push_back(c);
  }
  return algorithms;
}

INSTANTIATE_TEST_SUITE_P(All, LearnThreadsTest, testing::ValuesIn(AlgorithmsWithThreads()),
                         testing::PrintToStringParamName());

TEST_P(LearnThreadsTest, ManyThreadsLearnTheBytesOfOne) {
  const TensorMap alone = Learn(1);
  ASSERT_FALSE(alone.empty());
  for (const int threads : {2, 3}) {
    const TensorMap together = Learn(threads);
    ASSERT_EQ(together.size(), alone.size());
    for (const auto& [name, tensor] : alone) {
      const Tensor* const other = together.Find(name);
      ASSERT_NE(other, nullptr) << name;
      EXPECT_TRUE(other->bytes() == tensor.bytes()) << name << ", " << threads << " threads";
    }
  }
}

}  // namespace
}  // namespace ding
