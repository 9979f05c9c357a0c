#include "ding_worker/worker/saved_policy/saved_policy.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/base/allocation_count.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/checkpoint.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/env.h"
#include "ding_worker/learner/checkpoint.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/policy.pb.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/policy/testing/random_batch.h"
#include "ding_worker/worker/saved_policy/policy_description.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr char kDqn[] = R"(
type: "dqn"
params { [type.googleapis.com/ding.DqnConfig] {
  model { encoder_hidden_size: [16] } eps { start: 0.9 end: 0.1 decay: 100 } } })";
constexpr char kBc[] = R"(
type: "bc"
params { [type.googleapis.com/ding.BcConfig] {
  model { encoder_hidden_size: [16] } normalize_obs: true } })";
constexpr char kR2d2[] = R"(
type: "r2d2" unroll_len: 4
params { [type.googleapis.com/ding.R2d2Config] {
  dqn { model { type: "rnn" encoder_hidden_size: [16] recurrent { hidden_size: 8 } } } } })";

// Gives the policy parameters with which its best action differs from row to row.
void Randomize(Policy* policy) {
  StateDict model;
  ASSERT_THAT(policy->learn_mode()->SaveModel(&model), IsOk());
  Rng rng(4, "model");
  StateDict random;
  for (const std::string& name : model.Names()) {
    const TensorInfo info = model.Info(name).value();
    ASSERT_EQ(info.dtype, DType::kFloat32) << name;
    std::vector<float> values(static_cast<size_t>(NumElements(info.shape)));
    for (float& value : values) value = static_cast<float>(rng.Normal());
    const absl::string_view bytes(reinterpret_cast<const char*>(values.data()),
                                  values.size() * sizeof(float));
    ASSERT_THAT(random.Write(name, info.dtype, info.shape, {bytes}), IsOk());
  }
  ASSERT_THAT(policy->learn_mode()->LoadModel(&random), IsOk());
}

class SavedPolicyTest : public testing::Test {
 protected:
  SavedPolicyTest() : path_(JoinPath(testing::TempDir(), "saved_policy_test")) {
    EXPECT_THAT(RemoveRecursively(path_), IsOk());
    env_.name = "Env";
    env_.observation = MakeSpec({Box("obs", {4})}).value();
    env_.action = MakeSpec({Discrete("action", 3)}).value();
    info_.kind = kCheckpointKind;
    info_.fields["env_step"] = "1000";
  }

  // Makes the policy and saves its checkpoint, as training programs do.
  std::unique_ptr<Policy> Save(const std::string& text,
                               const std::function<void(Policy*)>& train = Randomize) {
    PolicyConfig config;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &config));
    PolicyContext context;
    context.observation = env_.observation;
    context.action = env_.action;
    std::unique_ptr<Policy> policy = create_policy(config, context).value();
    train(policy.get());
    info_.fields["policy"] = config.type();
    DescribePolicy(config, env_, &info_);
    EXPECT_THAT(
        WriteCheckpoint(
            path_, info_,
            {{kModelComponent,
              [&](StateWriter* writer) { return policy->learn_mode()->SaveModel(writer); }}}),
        IsOk());
    return policy;
  }

  Batch Observations(int64_t rows, uint64_t seed) const {
    return MakeObservationBatch(env_.observation, rows, seed);
  }

  // The actions of the eval mode.
  static std::vector<int64_t> Expected(Policy* policy, const Batch& obs) {
    EvalMode* const eval = policy->eval_mode();
    const BatchBuilder out = BatchBuilder::Create(eval->output_spec(), obs.rows()).value();
    std::vector<int> ids;
    for (int i = 0; i < obs.rows(); ++i) ids.push_back(i);
    EXPECT_THAT(eval->Forward(obs.view(), ids, {}, out.view()), IsOk());
    const absl::Span<int64_t> actions = out.column<int64_t>(0);
    return {actions.begin(), actions.end()};
  }
  static std::vector<int64_t> Acted(SavedPolicy* policy, const ColumnsView& obs,
                                    absl::Span<const int> ids = {}) {
    const absl::StatusOr<ColumnsView> actions = policy->Act(obs, ids);
    EXPECT_THAT(actions, IsOk());
    const absl::Span<const int64_t> column = actions->column<int64_t>(0);
    return {column.begin(), column.end()};
  }

  const std::string path_;
  EnvSpec env_;
  CheckpointInfo info_;
};

TEST_F(SavedPolicyTest, ActsAsTheEvalModeOfTheRun) {
  const std::unique_ptr<Policy> trained = Save(kDqn);
  DING_ASSERT_OK_AND_ASSIGN(const auto policy, SavedPolicy::Load(path_));
  EXPECT_EQ(*policy->observation(), *env_.observation);
  EXPECT_EQ(*policy->action(), *env_.action);
  std::set<int64_t> taken;
  for (const int64_t rows : {1, 200, 3}) {
    const Batch obs = Observations(rows, /*seed=*/static_cast<uint64_t>(rows));
    const std::vector<int64_t> expected = Expected(trained.get(), obs);
    EXPECT_EQ(Acted(policy.get(), obs.view()), expected);
    taken.insert(expected.begin(), expected.end());
  }
  EXPECT_GT(taken.size(), 1u) << "the test cannot fail";
}

TEST_F(SavedPolicyTest, ActingAllocatesNothingWhileSizesRepeat) {
  for (const char* const config : {kDqn, kR2d2}) {
    Save(config);
    DING_ASSERT_OK_AND_ASSIGN(const auto policy, SavedPolicy::Load(path_));
    const Batch obs = Observations(8, 1);
    for (const int64_t rows : {8, 1, 8}) {
      ASSERT_THAT(policy->Act(obs.view().Slice(0, rows)), IsOk());
    }
    const int64_t before = AllocationCount();
    for (const int64_t rows : {8, 1, 8, 1}) {
      if (!policy->Act(obs.view().Slice(0, rows)).ok()) FAIL();
    }
    EXPECT_EQ(AllocationCount(), before) << config;
  }
}

TEST_F(SavedPolicyTest, TakesLegalActionsOnly) {
  FieldSpec mask = Scalar(kActionMaskField, DType::kBool);
  mask.shape = {3};
  env_.observation = MakeSpec({Box("obs/own", {4}), mask}).value();
  Save(kDqn);
  DING_ASSERT_OK_AND_ASSIGN(const auto policy, SavedPolicy::Load(path_));
  const BatchBuilder obs = BatchBuilder::Create(policy->observation(), 3).value();
  std::fill(obs.column<float>(0).begin(), obs.column<float>(0).end(), 0.5f);
  std::fill(obs.column<uint8_t>(1).begin(), obs.column<uint8_t>(1).end(), 0);
  for (const int i : {0, 1, 2}) obs.column<uint8_t>(1)[3 * i + i] = 1;
  EXPECT_EQ(Acted(policy.get(), obs.view()), (std::vector<int64_t>{0, 1, 2}));
  obs.column<uint8_t>(1)[8] = 0;
  EXPECT_THAT(policy->Act(obs.view()).status(), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(SavedPolicyTest, KeepsAStateForEachIdUntilItsEpisodeBegins) {
  env_.action = MakeSpec({Discrete("action", 50)}).value();  // so that a state shows in the action
  const std::unique_ptr<Policy> trained = Save(kR2d2);
  DING_ASSERT_OK_AND_ASSIGN(const auto policy, SavedPolicy::Load(path_));
  std::vector<Batch> steps;
  std::vector<std::vector<int64_t>> expected;
  for (uint64_t t = 0; t < 12; ++t) {
    steps.push_back(Observations(2, t));
    expected.push_back(Expected(trained.get(), steps.back()));
  }
  bool differs = false;
  for (int episode = 0; episode < 2; ++episode) {
    ASSERT_THAT(policy->Begin(), IsOk());
    for (size_t t = 0; t < steps.size(); ++t) {
      // One episode at a time, in an order of their own.
      EXPECT_EQ(Acted(policy.get(), steps[t].view().Slice(1, 1), {1})[0], expected[t][1]);
      EXPECT_EQ(Acted(policy.get(), steps[t].view().Slice(0, 1), {0})[0], expected[t][0]);
    }
  }
  for (size_t t = 0; t < steps.size(); ++t) {
    ASSERT_THAT(policy->Begin({0}), IsOk());
    differs |= Acted(policy.get(), steps[t].view().Slice(0, 1), {0})[0] != expected[t][0];
  }
  EXPECT_TRUE(differs) << "the policy has no memory";
}

TEST_F(SavedPolicyTest, NormalizesAsTheRunDid) {
  // The statistics are those of the rows of a training step.
  const std::unique_ptr<Policy> trained = Save(kBc, [&](Policy* policy) {
    std::vector<LearnStep> steps;
    for (uint64_t seed = 0; seed < 20; ++seed) {
      const Batch rows = MakeTransitionBatch(env_.observation, env_.action, 16, seed);
      EXPECT_THAT(policy->learn_mode()->Forward(rows, {}, &steps), IsOk());
    }
  });
  DING_ASSERT_OK_AND_ASSIGN(const CheckpointReader reader, CheckpointReader::Open(path_));
  DING_ASSERT_OK_AND_ASSIGN(const auto model, reader.Component(kModelComponent));
  DING_ASSERT_OK_AND_ASSIGN(const int64_t rows, model->ReadInt("model/statistics/obs/count"));
  EXPECT_EQ(rows, 320);
  DING_ASSERT_OK_AND_ASSIGN(const auto policy, SavedPolicy::Load(path_));
  const Batch obs = Observations(256, 1);
  EXPECT_EQ(Acted(policy.get(), obs.view()), Expected(trained.get(), obs));
}

TEST_F(SavedPolicyTest, SamplesAsItCollectsIfAskedTo) {
  const std::unique_ptr<Policy> trained = Save(kDqn);
  const Batch obs = Observations(2000, 1);
  const std::vector<int64_t> greedy = Expected(trained.get(), obs);
  const auto share = [&](uint64_t seed) {
    ActorOptions options;
    options.sample = true;
    options.seed = seed;
    const std::unique_ptr<SavedPolicy> policy = SavedPolicy::Load(path_, options).value();
    const std::vector<int64_t> acted = Acted(policy.get(), obs.view());
    int64_t other = 0;
    for (size_t i = 0; i < acted.size(); ++i) other += acted[i] != greedy[i];
    return static_cast<double>(other) / static_cast<double>(acted.size());
  };
  // Epsilon at env step 1000 is 0.1, and a third of the uniform actions is the greedy one.
  EXPECT_NEAR(share(1), 0.1 * 2 / 3, 0.02);
  EXPECT_EQ(share(1), share(1));
  EXPECT_NE(share(1), share(2));
}

TEST_F(SavedPolicyTest, RefusesWhatDoesNotFit) {
  Save(kDqn);
  DING_ASSERT_OK_AND_ASSIGN(const auto policy, SavedPolicy::Load(path_));
  const BatchBuilder wide = BatchBuilder::Create(MakeSpec({Box("obs", {5})}).value(), 1).value();
  EXPECT_THAT(policy->Act(wide.view()).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("'obs' is float32[5]"), HasSubstr("float32[4]"))));
  EXPECT_THAT(policy->Act(Observations(2, 1).view(), {0, 1, 2}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("3 ids for 2 rows")));
}

TEST_F(SavedPolicyTest, SaysWhatTheCheckpointOrTheProgramLacks) {
  EXPECT_THAT(SavedPolicy::Load(path_).status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr(path_)));
  info_.fields = {{"policy", "dqn"}};
  ASSERT_THAT(WriteCheckpoint(path_, info_, {}), IsOk());
  EXPECT_THAT(SavedPolicy::Load(path_).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr(path_), HasSubstr("an earlier version"))));
  Save(kDqn);
  info_.fields["policy"] = "mine";
  ASSERT_THAT(WriteCheckpoint(path_, info_, {}), IsOk());
  EXPECT_THAT(SavedPolicy::Load(path_).status(),
              StatusIs(absl::StatusCode::kNotFound,
                       AllOf(HasSubstr("'mine', which this program does not have"),
                             HasSubstr("dqn"), HasSubstr("link"))));
  info_.fields["policy"] = "dqn";
  info_.fields["policy_config"] = R"(type: "dqn" params { [a.b/unknown.Message] {} })";
  ASSERT_THAT(WriteCheckpoint(path_, info_, {}), IsOk());
  EXPECT_THAT(SavedPolicy::Load(path_).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("unknown.Message")));
  info_.fields["action"] = "[]";
  info_.fields["policy_config"] = kDqn;
  info_.fields["observation"] = "{";
  ASSERT_THAT(WriteCheckpoint(path_, info_, {}), IsOk());
  EXPECT_THAT(SavedPolicy::Load(path_).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'observation'")));
  info_.fields.erase("observation");
  ASSERT_THAT(WriteCheckpoint(path_, info_, {}), IsOk());
  EXPECT_THAT(SavedPolicy::Load(path_).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("spaces")));
}

class FindCheckpointTest : public testing::Test {
 protected:
  FindCheckpointTest() : run_(JoinPath(testing::TempDir(), "find_checkpoint_test")) {
    EXPECT_THAT(RemoveRecursively(run_), IsOk());
    EXPECT_THAT(CreateDirectories(run_), IsOk());
  }

  // Writes <run>/<folder>/<name>.
  void Write(const std::string& name, int train_iter, int env_step,
             const std::string& folder = "ckpt") const {
    EXPECT_THAT(CreateDirectories(JoinPath(run_, folder)), IsOk());
    CheckpointInfo info;
    info.fields = {{"train_iter", absl::StrCat(train_iter)}, {"env_step", absl::StrCat(env_step)}};
    EXPECT_THAT(WriteCheckpoint(Path(name, folder), info, {}), IsOk());
  }
  std::string Path(const std::string& name, const std::string& folder = "ckpt") const {
    return JoinPath(JoinPath(run_, folder), name);
  }

  const std::string run_;
};

TEST_F(FindCheckpointTest, TakesTheBestOfARun) {
  Write("ckpt_best", 5, 50);
  Write("iteration_9", 9, 90);
  for (const std::string& folder : {run_, JoinPath(run_, "ckpt")}) {
    DING_ASSERT_OK_AND_ASSIGN(const FoundCheckpoint found, FindCheckpoint(folder));
    EXPECT_EQ(found.path, Path("ckpt_best"));
    EXPECT_EQ(found.note, "");
  }
  DING_ASSERT_OK_AND_ASSIGN(const FoundCheckpoint asked, FindCheckpoint(Path("iteration_9")));
  EXPECT_EQ(asked.path, Path("iteration_9"));
  EXPECT_EQ(asked.note, "");
}

TEST_F(FindCheckpointTest, WithoutABestTakesTheNewestAndSaysSo) {
  Write("iteration_9", 9, 90);
  Write("iteration_10", 10, 90);
  Write("learner_resume", 10, 95);
  Write("z.tmp.1.2", 11, 95);
  Write("z.old.1", 12, 95);
  Write("z_damaged", 13, 95);
  ASSERT_THAT(WriteFileAtomically(JoinPath(Path("z_damaged"), "manifest.json"), "{"), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const FoundCheckpoint found, FindCheckpoint(run_));
  EXPECT_EQ(found.path, Path("learner_resume"));
  EXPECT_THAT(found.note, AllOf(HasSubstr("no ckpt_best"), HasSubstr("learner_resume"),
                                HasSubstr("train iteration 10")));
}

TEST_F(FindCheckpointTest, RefusesWhatHasNoCheckpoint) {
  EXPECT_THAT(FindCheckpoint(run_ + "x").status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("there is no '")));
  EXPECT_THAT(FindCheckpoint(run_).status(),
              StatusIs(absl::StatusCode::kNotFound,
                       AllOf(HasSubstr(run_), HasSubstr("has no checkpoints"))));
  ASSERT_THAT(CreateDirectories(JoinPath(run_, "ckpt")), IsOk());
  EXPECT_THAT(FindCheckpoint(run_).status(), StatusIs(absl::StatusCode::kNotFound));
  const std::string file = JoinPath(run_, "result.json");
  ASSERT_THAT(WriteFileAtomically(file, "{}"), IsOk());
  EXPECT_THAT(FindCheckpoint(file).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("is a file")));
  Write("iteration_1", 1, 1);
  ASSERT_THAT(WriteFileAtomically(JoinPath(Path("iteration_1"), "manifest.json"), "{"), IsOk());
  EXPECT_THAT(FindCheckpoint(run_).status(), StatusIs(absl::StatusCode::kDataLoss));
}

TEST_F(FindCheckpointTest, ListsTheFoldersOfSeveralPolicies) {
  Write("iteration_1", 1, 1, "ckpt_policy_0");
  Write("iteration_2", 2, 1, "ckpt_policy_1");
  EXPECT_THAT(FindCheckpoint(run_).status(),
              StatusIs(absl::StatusCode::kNotFound,
                       AllOf(HasSubstr("several policies"), HasSubstr("/ckpt_policy_0"),
                             HasSubstr("/ckpt_policy_1"))));
  DING_ASSERT_OK_AND_ASSIGN(const FoundCheckpoint found,
                            FindCheckpoint(JoinPath(run_, "ckpt_policy_1")));
  EXPECT_EQ(found.path, Path("iteration_2", "ckpt_policy_1"));
}

}  // namespace
}  // namespace ding
