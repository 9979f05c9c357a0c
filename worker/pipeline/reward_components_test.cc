// Runs in envs whose rewards have several components: a policy of one's own learns from them,
// reward_weights make one reward for the policies of this project, and without weights these refuse
// the env by name.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/types/span.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env.pb.h"
#include "ding_worker/env/env_registry.h"
#include "ding_worker/metrics/testing/recording_sink.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/policy.pb.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/worker/config/experiment_config.h"
#include "ding_worker/worker/experiment.pb.h"
#include "ding_worker/worker/pipeline/serial_pipeline.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr size_t kActions = 3;
constexpr size_t kGoals = 2;
// The rewards of the actions: each goal alone is served best by one of the first two, and both
// together by the last.
constexpr std::array<std::array<float, kGoals>, kActions> kRewards = {
    {{1, 0}, {0, 1}, {0.6f, 0.6f}}};

// Episodes of four steps with these rewards.
class TwoGoals : public Env {
 public:
  TwoGoals() {
    spec_.name = "TwoGoals";
    spec_.observation = *MakeSpec({Box("obs", {1})});
    spec_.action = *MakeSpec({Discrete("action", kActions)});
    spec_.reward_shape = {kGoals};
    spec_.max_episode_steps = 4;
  }
  const EnvSpec& spec() const override { return spec_; }
  absl::Status Reset(const EpisodeStart& /*start*/, const RowRef& obs) override {
    step_ = 0;
    obs.field<float>(0)[0] = 0;
    return absl::OkStatus();
  }
  absl::Status Step(const RowView& action, const RowRef& obs, StepResult* result) override {
    ++step_;
    obs.field<float>(0)[0] = static_cast<float>(step_);
    const auto& rewards = kRewards[static_cast<size_t>(action.scalar<int64_t>(0))];
    std::copy(rewards.begin(), rewards.end(), result->reward_components.begin());
    result->terminated = step_ == 4;
    return absl::OkStatus();
  }

 private:
  EnvSpec spec_;
  int64_t step_ = 0;
};

// The estimated reward of each action for each goal.
using Estimates = std::vector<float>;
constexpr char kModel[] = "model/estimates";

absl::Status Load(StateReader* reader, Estimates* estimates) {
  return reader->ReadSpan<float>(kModel, absl::MakeSpan(*estimates));
}

// The action whose worse goal is served best, which no single reward says.
int64_t BestOf(const Estimates& estimates) {
  std::array<float, kActions> worse;
  for (size_t a = 0; a < kActions; ++a) {
    worse[a] = std::min(estimates[a * kGoals], estimates[a * kGoals + 1]);
  }
  return std::max_element(worse.begin(), worse.end()) - worse.begin();
}

class Collects : public CollectMode {
 public:
  Collects(const PolicyConfig& config, const PolicyContext& context, Estimates* estimates)
      : output_(*MakeSpec({context.action->field(0)})),
        rng_(context.seed, "policy/collect"),
        estimates_(estimates) {
    attributes_.n_sample = config.n_sample();
    attributes_.reward_components = true;
  }
  const SpecPtr& output_spec() const override { return output_; }
  CollectAttributes attributes() const override { return attributes_; }
  absl::Status Forward(const ColumnsView& obs, absl::Span<const int> /*env_ids*/,
                       const NamedValues& /*settings*/, const MutableColumnsView& out) override {
    for (int64_t row = 0; row < obs.rows(); ++row) {
      out.column<int64_t>(0)[row] = rng_.Uniform() < 0.5
                                        ? static_cast<int64_t>(rng_.UniformInt(kActions))
                                        : BestOf(*estimates_);
    }
    return absl::OkStatus();
  }
  absl::Status LoadModel(StateReader* reader) override { return Load(reader, estimates_); }
  absl::Status SaveState(StateWriter* writer) const override {
    return writer->WriteRng("rng", rng_);
  }
  absl::Status LoadState(StateReader* reader) override { return reader->ReadRng("rng", &rng_); }

 private:
  const SpecPtr output_;
  CollectAttributes attributes_;
  Rng rng_;
  Estimates* const estimates_;
};

class Learns : public LearnMode {
 public:
  Learns(const PolicyConfig& config, Estimates* estimates, bool takes_components)
      : estimates_(estimates) {
    attributes_.batch_size = config.batch_size();
    attributes_.reward_components = takes_components;
  }
  LearnAttributes attributes() const override { return attributes_; }
  absl::Status Forward(const Batch& data, const NamedValues& /*settings*/,
                       std::vector<LearnStep>* steps) override {
    steps->resize(1);
    const absl::Span<const float> rewards = data.column<float>("reward");
    if (static_cast<int64_t>(rewards.size()) != data.rows() * static_cast<int64_t>(kGoals)) {
      return absl::InvalidArgumentError(absl::StrCat(rewards.size(), " rewards"));
    }
    for (int64_t row = 0; row < data.rows(); ++row) {
      const auto action = static_cast<size_t>(data.column<int64_t>("action")[row]);
      for (size_t goal = 0; goal < kGoals; ++goal) {
        float& estimate = (*estimates_)[action * kGoals + goal];
        estimate += 0.2f * (rewards[static_cast<size_t>(row) * kGoals + goal] - estimate);
      }
    }
    return absl::OkStatus();
  }
  std::vector<std::string> monitor_vars() const override { return {}; }
  std::string info() const override { return "serves both goals"; }
  absl::Status SaveModel(StateWriter* writer) const override {
    return writer->WriteSpan<float>(kModel, *estimates_);
  }
  absl::Status LoadModel(StateReader* reader) override { return Load(reader, estimates_); }
  absl::Status SaveTrainState(StateWriter* /*writer*/) const override { return absl::OkStatus(); }
  absl::Status LoadTrainState(StateReader* /*reader*/) override { return absl::OkStatus(); }

 private:
  LearnAttributes attributes_;
  Estimates* const estimates_;
};

class Evaluates : public EvalMode {
 public:
  Evaluates(const PolicyContext& context, Estimates* estimates)
      : output_(*MakeSpec({context.action->field(0)})), estimates_(estimates) {}
  const SpecPtr& output_spec() const override { return output_; }
  absl::Status Forward(const ColumnsView& obs, absl::Span<const int> /*env_ids*/,
                       const NamedValues& /*settings*/, const MutableColumnsView& out) override {
    std::fill_n(out.column<int64_t>(0).begin(), obs.rows(), BestOf(*estimates_));
    return absl::OkStatus();
  }
  absl::Status LoadModel(StateReader* reader) override { return Load(reader, estimates_); }

 private:
  const SpecPtr output_;
  Estimates* const estimates_;
};

class NoSettings : public CommandMode {
 public:
  NamedValues GetSettingCollect(const NamedValues& /*info*/) override { return {}; }
};

// A policy of a user that learns from both rewards.
class ServesBoth : public Policy {
 public:
  ServesBoth(const PolicyConfig& config, const PolicyContext& context, bool takes_components)
      : collect_(config, context, &estimates_),
        learn_(config, &estimates_, takes_components),
        eval_(context, &estimates_) {}
  CollectMode* collect_mode() override { return &collect_; }
  LearnMode* learn_mode() override { return &learn_; }
  EvalMode* eval_mode() override { return &eval_; }
  CommandMode* command_mode() override { return &command_; }

 private:
  Estimates estimates_ = Estimates(kActions * kGoals, 0);
  Collects collect_;
  Learns learn_;
  Evaluates eval_;
  NoSettings command_;
};

PolicyCreator MakeServesBoth(bool takes_components) {
  return [=](const PolicyConfig& config,
             const PolicyContext& context) -> absl::StatusOr<std::unique_ptr<Policy>> {
    return std::make_unique<ServesBoth>(config, context, takes_components);
  };
}

constexpr char kConfig[] = R"(
exp_name: "test"
max_env_step: 400
env { type: "two_goals" collector_env_num: 2 evaluator_env_num: 2 n_evaluator_episode: 2 }
policy {
  $0
  learn { batch_size: 8 learner { hook { save_ckpt_after_iter: 0 } } }
  collect { n_sample: 8 }
  eval { evaluator { eval_freq: 20 } }
})";
constexpr char kServesBoth[] = "type: \"serves_both\"";
constexpr char kDqn[] = R"(type: "dqn"
  params { [type.googleapis.com/ding.DqnConfig] { model { encoder_hidden_size: [8] } } })";
constexpr char kActorCritic[] =
    "actor_critic { model { encoder_hidden_size: 4 } critic { encoder_hidden_size: 4 } }";

class RewardComponentsTest : public testing::Test {
 protected:
  RewardComponentsTest()
      : env_(&EnvRegistry(), "two_goals",
             [](const EnvConfig&) -> absl::StatusOr<std::unique_ptr<Env>> {
               return std::make_unique<TwoGoals>();
             }),
        policy_(&PolicyRegistry(), "serves_both", MakeServesBoth(true)) {
    std::string folder = absl::StrCat(testing::TempDir(), "/components_XXXXXX");
    folder_ = mkdtemp(folder.data());
    options_.exp_dir = folder_;
    options_.metrics = sink_;
  }
  ~RewardComponentsTest() override { EXPECT_THAT(RemoveRecursively(folder_), IsOk()); }

  absl::StatusOr<std::unique_ptr<SerialPipeline>> Create(
      const std::string& policy, const std::vector<std::string>& settings = {}) {
    const absl::StatusOr<ExperimentConfig> config =
        ParseExperimentConfig(absl::StrReplaceAll(kConfig, {{"$0", policy}}), "test", settings);
    EXPECT_THAT(config, IsOk());
    return SerialPipeline::Create(*config, options_);
  }

  ScopedRegistration<EnvCreator> env_;
  ScopedRegistration<PolicyCreator> policy_;
  std::string folder_;
  std::shared_ptr<RecordingSink> sink_ = std::make_shared<RecordingSink>();
  SerialOptions options_;
};

TEST_F(RewardComponentsTest, APolicyOfOnesOwnLearnsFromThem) {
  DING_ASSERT_OK_AND_ASSIGN(const auto pipeline, Create(kServesBoth));
  SerialResult result;
  ASSERT_THAT(pipeline->Run(&result), IsOk());
  ASSERT_TRUE(result.eval_value.has_value());
  EXPECT_NEAR(*result.eval_value, 4 * 1.2, 1e-5) << "the sum of both goals, in four steps";
  for (const char* const goal : {"evaluator_step/return_0_mean", "evaluator_step/return_1_mean"}) {
    const std::vector<double> means = sink_->ValuesOf(goal);
    ASSERT_FALSE(means.empty()) << goal;
    EXPECT_NEAR(means.back(), 4 * 0.6, 1e-5);
  }
}

// Goal 0 counts twice: action 0 is the best for the weighted sum.
TEST_F(RewardComponentsTest, WeightsMakeOneRewardForOtherPolicies) {
  DING_ASSERT_OK_AND_ASSIGN(const auto pipeline,
                            Create(kDqn, {"env.reward_weights=[2, 0.1]", "max_env_step=1500",
                                          "policy.learn.update_per_collect=4"}));
  SerialResult result;
  ASSERT_THAT(pipeline->Run(&result), IsOk());
  ASSERT_TRUE(result.eval_value.has_value());
  EXPECT_NEAR(*result.eval_value, 4 * 2.0, 1e-5);
  EXPECT_NEAR(sink_->ValuesOf("evaluator_step/return_0_mean").back(), 4, 1e-5);
}

TEST_F(RewardComponentsTest, PoliciesOfOneRewardRefuseTheEnvByName) {
  const std::string params = absl::StrCat("] { ", kActorCritic, " } }");
  const auto refuses = [](const std::string& policy) {
    return StatusIs(
        absl::StatusCode::kInvalidArgument,
        HasSubstr(absl::StrCat("policy '", policy,
                               "' learns from one reward per step, but the reward of env "
                               "'TwoGoals' is float32[2]: set env.reward_weights")));
  };
  EXPECT_THAT(Create(kDqn), refuses("dqn"));
  for (const auto& [name, message] :
       {std::pair("ppo", "PpoConfig"), std::pair("a2c", "A2cConfig")}) {
    EXPECT_THAT(Create(absl::StrCat("type: \"", name, "\" params { [type.googleapis.com/ding.",
                                    message, params)),
                refuses(name));
  }
  EXPECT_THAT(Create(absl::StrCat("type: \"impala\" params { [type.googleapis.com/ding.",
                                  "ImpalaConfig", params),
                     {"policy.other.replay_buffer={type:\"sequence\"}"}),
              refuses("impala"));
  EXPECT_THAT(
      Create(R"(type: "r2d2" params { [type.googleapis.com/ding.R2d2Config] {
                       dqn { model { type: "rnn" recurrent { hidden_size: 4 } } } } })",
             {"policy.other.replay_buffer={type:\"sequence\"}", "policy.collect.unroll_len=20"}),
      refuses("r2d2"));
}

// A policy that does not say that it takes components is refused, also if only its learn mode does
// not.
TEST_F(RewardComponentsTest, APolicyOfOnesOwnMustDeclareThem) {
  const ScopedRegistration<PolicyCreator> silent(&PolicyRegistry(), "silent",
                                                 MakeServesBoth(false));
  EXPECT_THAT(Create("type: \"silent\""),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("policy 'silent' learns from one reward per step"),
                             HasSubstr("or take a policy whose attributes say "
                                       "reward_components"))));
}

TEST_F(RewardComponentsTest, WeightsOfAnEnvWithOneRewardAreRefused) {
  EXPECT_THAT(Create(kDqn, {"env.type=CartPole-v0", "env.reward_weights=[1]"}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("reward_weights are [1], but the reward of env 'CartPole-v0' is "
                                 "float32[], expected no weights")));
}

}  // namespace
}  // namespace ding
