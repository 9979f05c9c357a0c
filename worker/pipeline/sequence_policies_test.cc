// Tests of serial runs whose policy learns from sequences of rows: what is collected, and what is
// refused; and of a replay buffer that does not fit the env.
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
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

// The attributes of a policy of type "fake".
struct Says {
  bool sequences = false;     // it learns from sequences
  bool stores_state = false;  // it writes a field "state" beside the action
};

// The collect mode of DQN with other attributes.
class FakeCollectMode : public CollectMode {
 public:
  FakeCollectMode(CollectMode* dqn, const Says& says, int64_t unroll_len)
      : dqn_(dqn), unroll_len_(unroll_len) {
    std::vector<FieldSpec> fields = {dqn->output_spec()->field(0)};
    if (says.stores_state) fields.push_back(Box("state", {2}));
    output_ = *MakeSpec(std::move(fields));
  }

  const SpecPtr& output_spec() const override { return output_; }
  CollectAttributes attributes() const override {
    CollectAttributes attributes = dqn_->attributes();
    attributes.unroll_len = unroll_len_;
    return attributes;
  }
  absl::Status Forward(const ColumnsView& obs, absl::Span<const int> env_ids,
                       const NamedValues& settings, const MutableColumnsView& out) override {
    return dqn_->Forward(obs, env_ids, settings, out);
  }
  absl::Status LoadModel(StateReader* reader) override { return dqn_->LoadModel(reader); }
  absl::Status SaveState(StateWriter* writer) const override { return dqn_->SaveState(writer); }
  absl::Status LoadState(StateReader* reader) override { return dqn_->LoadState(reader); }

 private:
  CollectMode* const dqn_;
  const int64_t unroll_len_;
  SpecPtr output_;
};

// The learn mode of DQN with other attributes.
class FakeLearnMode : public LearnMode {
 public:
  FakeLearnMode(LearnMode* dqn, const Says& says) : dqn_(dqn), says_(says) {}

  LearnAttributes attributes() const override {
    LearnAttributes attributes = dqn_->attributes();
    attributes.sequences = says_.sequences;
    return attributes;
  }
  absl::Status Forward(const Batch& data, const NamedValues& settings,
                       std::vector<LearnStep>* steps) override {
    return dqn_->Forward(data, settings, steps);
  }
  std::vector<std::string> monitor_vars() const override { return dqn_->monitor_vars(); }
  std::string info() const override { return dqn_->info(); }
  absl::Status SaveModel(StateWriter* writer) const override { return dqn_->SaveModel(writer); }
  absl::Status LoadModel(StateReader* reader) override { return dqn_->LoadModel(reader); }
  absl::Status SaveTrainState(StateWriter* writer) const override {
    return dqn_->SaveTrainState(writer);
  }
  absl::Status LoadTrainState(StateReader* reader) override { return dqn_->LoadTrainState(reader); }

 private:
  LearnMode* const dqn_;
  const Says says_;
};

class FakePolicy : public Policy {
 public:
  FakePolicy(std::unique_ptr<Policy> dqn, const Says& says, int64_t unroll_len)
      : dqn_(std::move(dqn)),
        collect_(dqn_->collect_mode(), says, unroll_len),
        learn_(dqn_->learn_mode(), says) {}

  CollectMode* collect_mode() override { return &collect_; }
  LearnMode* learn_mode() override { return &learn_; }
  EvalMode* eval_mode() override { return dqn_->eval_mode(); }
  CommandMode* command_mode() override { return dqn_->command_mode(); }

 private:
  const std::unique_ptr<Policy> dqn_;
  FakeCollectMode collect_;
  FakeLearnMode learn_;
};

PolicyCreator FakePolicyCreator(const Says& says) {
  return [says](PolicyConfig config,
                const PolicyContext& context) -> absl::StatusOr<std::unique_ptr<Policy>> {
    const int64_t unroll_len = config.unroll_len();
    config.set_type("dqn");
    config.clear_unroll_len();
    absl::StatusOr<std::unique_ptr<Policy>> dqn = create_policy(config, context);
    if (!dqn.ok()) return dqn;
    return std::make_unique<FakePolicy>(*std::move(dqn), says, unroll_len);
  };
}

constexpr char kConfig[] = R"(
exp_name: "test"
env { type: "CartPole-v0" collector_env_num: 1 evaluator_env_num: 1 n_evaluator_episode: 1 }
policy {
  type: "fake"
  params { [type.googleapis.com/ding.DqnConfig] { model { encoder_hidden_size: [8] } } }
  learn { batch_size: 8 learner { hook { save_ckpt_after_iter: 0 } } }
  collect { n_sample: 1 }
})";

class SequencePoliciesTest : public testing::Test {
 protected:
  SequencePoliciesTest() {
    std::string folder = absl::StrCat(testing::TempDir(), "/sequences_XXXXXX");
    folder_ = mkdtemp(folder.data());
  }
  ~SequencePoliciesTest() override { EXPECT_THAT(RemoveRecursively(folder_), IsOk()); }

  absl::StatusOr<std::unique_ptr<SerialPipeline>> Create(const Says& says,
                                                         const std::vector<std::string>& settings) {
    const ScopedRegistration<PolicyCreator> fake(&PolicyRegistry(), "fake",
                                                 FakePolicyCreator(says));
    const absl::StatusOr<ExperimentConfig> config =
        ParseExperimentConfig(kConfig, "test", settings);
    if (!config.ok()) return config.status();
    SerialOptions options;
    options.exp_dir = folder_;
    return SerialPipeline::Create(*config, options);
  }

  std::string folder_;
};

std::string SequenceBuffer(const std::string& params) {
  return absl::StrCat(
      "policy.other.replay_buffer={type:'sequence' params"
      "{[type.googleapis.com/ding.SequenceBufferConfig] {",
      params, "}}}");
}

TEST_F(SequencePoliciesTest, ARunCollectsSamplesOfUnrollLenRows) {
  // An episode of CartPole has 8 steps at least.
  const std::vector<std::string> settings = {"policy.collect.unroll_len=4",
                                             "policy.random_collect_size=2", "max_env_step=9"};
  DING_ASSERT_OK_AND_ASSIGN(const auto pipeline, Create({}, settings));
  SerialResult result;
  ASSERT_THAT(pipeline->Run(&result), IsOk());
  // Two samples at random and, of the round after them, four rows or the rest of the episode.
  EXPECT_GT(result.env_step, 8);
  EXPECT_LE(result.env_step, 12);
  EXPECT_EQ(pipeline->buffer()->count(), result.env_step);
}

TEST_F(SequencePoliciesTest, ABufferOfRowsIsRefused) {
  Says says;
  says.sequences = true;
  EXPECT_THAT(Create(says, {}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("policy.other.replay_buffer.type is 'naive'"),
                             HasSubstr("policy 'fake' learns from sequences of rows"),
                             HasSubstr("expected 'sequence', or 'episode'"))));
}

TEST_F(SequencePoliciesTest, RowsThatASequenceBufferAddsAreRefusedForAPolicyOfRows) {
  for (const char* unroll_len : {"policy.collect.unroll_len=1", "policy.collect.unroll_len=4"}) {
    SCOPED_TRACE(unroll_len);
    EXPECT_THAT(Create({}, {unroll_len, SequenceBuffer("unroll_len: 4 padding: true burn_in: 1")}),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr("padding is true"), HasSubstr("burn_in is 1"),
                               HasSubstr("policy 'fake' learns from every row of a batch"))));
    EXPECT_THAT(Create({}, {unroll_len, SequenceBuffer("unroll_len: 4")}), IsOk());
  }
}

TEST_F(SequencePoliciesTest, GoalsInHindsightAreRefusedForAnEnvWithoutGoals) {
  EXPECT_THAT(Create({}, {"policy.other.replay_buffer={type:'hindsight' params"
                          "{[type.googleapis.com/ding.HindsightBufferConfig] {radius: 0.1}}}"}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("policy.other.replay_buffer.type is 'hindsight'"),
                             HasSubstr("env 'CartPole-v0'"), HasSubstr("no 'obs/achieved_goal'"))));
}

TEST_F(SequencePoliciesTest, RowsAtRandomWithoutAFieldOfTheOthersAreRefused) {
  Says says;
  says.stores_state = true;
  EXPECT_THAT(Create(says, {}), IsOk());
  EXPECT_THAT(Create(says, {"policy.random_collect_size=5"}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("policy.random_collect_size is 5"), HasSubstr("'state'"),
                             HasSubstr("expected 0"))));
}

TEST_F(SequencePoliciesTest, TheLastSampleIsForOnPolicyPoliciesWithSamplesOfSeveralRows) {
  EXPECT_THAT(Create({}, {"policy.collect.last_sample=DROP"}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("policy.collect.last_sample is DROP, expected NULL_PADDING"),
                             HasSubstr("policy.collect.unroll_len is 1"))));
  EXPECT_THAT(
      Create({}, {"policy.collect.last_sample=LAST", "policy.collect.unroll_len=4"}),
      StatusIs(
          absl::StatusCode::kInvalidArgument,
          HasSubstr("policy.collect.last_sample is LAST, which has no effect in a serial run")));
  EXPECT_THAT(
      Create({}, {"policy.collect.last_sample=NULL_PADDING", "policy.collect.unroll_len=4"}),
      IsOk());
}

}  // namespace
}  // namespace ding
