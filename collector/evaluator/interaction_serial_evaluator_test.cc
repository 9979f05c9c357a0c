#include "ding_worker/collector/evaluator/interaction_serial_evaluator.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/file_testing.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/collector/testing/fake_env_manager.h"
#include "ding_worker/collector/testing/fake_policy.h"
#include "ding_worker/collector/testing/serial_parts.h"
#include "ding_worker/data/extreme_numbers.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/base_env_manager.h"
#include "ding_worker/env/classic_control/cartpole.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/testing/scripted_env.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/metrics/testing/recording_sink.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using End = FakeEnvManager::End;
using Episode = FakeEnvManager::Episode;
using Options = InteractionSerialEvaluator::Options;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

// Episodes of env i have i + 1 steps.
Episode ByEnv(int env_id, int64_t /*episode*/) { return {env_id + 1, End::kTerminated}; }

struct Fixture : SerialParts {
  explicit Fixture(FakeEnvManager::Options env_options = {}, Options options = {})
      : SerialParts(std::move(env_options), /*attributes=*/{}, "eval"),
        evaluator(Make<InteractionSerialEvaluator>(std::move(options))) {}

  std::unique_ptr<InteractionSerialEvaluator> evaluator;
};

TEST(InteractionSerialEvaluatorTest, ShouldEval) {
  Options options;
  options.eval_freq = 10;
  Fixture f({}, options);
  const std::vector<std::pair<int64_t, bool>> expected = {{0, true},  {0, false},  {5, false},
                                                          {9, false}, {10, true},  {15, false},
                                                          {20, true}, {20, false}, {30, true}};
  for (const auto& [iter, due] : expected) {
    EXPECT_EQ(f.evaluator->ShouldEval(iter), due) << "iteration " << iter;
  }
}

TEST(InteractionSerialEvaluatorTest, EnvsPlayExactlyTheirQuota) {
  // With envs of very different speed, the fast ones must stop at their quota (D28).
  for (const bool subsets : {false, true}) {
    FakeEnvManager::Options env_options = WithScript(3, [](int env_id, int64_t) {
      return Episode{1 + 20 * env_id, End::kTruncated};
    });
    env_options.subsets = subsets;
    Fixture f(env_options);
    EvalOptions eval;
    eval.n_episode = 7;
    DING_ASSERT_OK_AND_ASSIGN(const EvalResult result, f.evaluator->Eval(eval));
    std::map<int, int64_t> steps;
    for (const FakeEnvManager::Event& event : f.envs.events()) ++steps[event.env_id];
    EXPECT_EQ(steps[0], 3 * 1);
    EXPECT_EQ(steps[1], 2 * 21);
    EXPECT_EQ(steps[2], 2 * 41);
    EXPECT_EQ(result.episode_return.size(), 7u);
  }
}

// Env 0 never ends an episode.
Episode EndlessEnv(int env_id, int64_t /*episode*/) {
  return {env_id == 0 ? std::numeric_limits<int64_t>::max() : 2, End::kTerminated};
}

TEST(InteractionSerialEvaluatorTest, Eval_EpisodeWithoutAnEnd_IsCutAndCounts) {
  for (const bool late : {false, true}) {
    FakeEnvManager::Options env_options = WithScript(2, EndlessEnv);
    env_options.late = late;
    Options options;
    options.max_episode_steps = 5;
    Fixture f(env_options, options);
    EvalOptions eval;
    eval.n_episode = 4;
    DING_ASSERT_OK_AND_ASSIGN(const EvalResult result, f.evaluator->Eval(eval));
    // Episodes 1 and 2 of env 0, with rewards of 100, 101, ... and 200, 201, ...
    EXPECT_THAT(result.episode_return, ElementsAre(510, 1010, 201, 401));
    EXPECT_EQ(result.envstep_count, 2 * 5 + 2 * 2);
    EXPECT_THAT(result.episode_info,
                ElementsAre(Pair("eval_episode_return", ElementsAre(510, 1010, 201, 401))));
  }
}

TEST(InteractionSerialEvaluatorTest, Eval_NoLimitIsSet_EndsAllTheSame) {
  Fixture f(WithScript(2, EndlessEnv));
  EvalOptions eval;
  eval.n_episode = 2;
  DING_ASSERT_OK_AND_ASSIGN(const EvalResult result, f.evaluator->Eval(eval));
  EXPECT_EQ(result.envstep_count, Options::kMaxEpisodeSteps + 2);
}

TEST(InteractionSerialEvaluatorTest, UsesTheFirstEpisodesOfEachEnv) {
  FakeEnvManager::Options env_options = WithScript(2, ByEnv);
  env_options.info = [](int env_id, int64_t) {
    return env_id == 0 ? NamedValues{{"goals", 1}} : NamedValues{{"goals", 2}, {"fouls", 4}};
  };
  Fixture f(env_options);
  EvalOptions eval;
  eval.n_episode = 4;
  DING_ASSERT_OK_AND_ASSIGN(const EvalResult result, f.evaluator->Eval(eval));
  // The reset at the beginning of Eval() ended episode 0.
  EXPECT_THAT(result.episode_return, ElementsAre(100, 200, 100 + 101, 200 + 201));
  EXPECT_EQ(result.mean_return, (100 + 200 + 201 + 401) / 4.0);
  EXPECT_THAT(result.episode_info,
              ElementsAre(Pair("eval_episode_return", ElementsAre(100, 200, 201, 401)),
                          Pair("info/fouls", ElementsAre(4, 4)),
                          Pair("info/goals", ElementsAre(1, 1, 2, 2))));
  EXPECT_FALSE(result.stop);
}

TEST(InteractionSerialEvaluatorTest, StatisticsOfTheEnv_ReplaceNoMetric) {
  const NamedValues metrics_of_ours = {
      {"reward", -1}, {"reward_mean", -2},    {"episode_count", -3}, {"eval_episode_return", -4},
      {"score", -5},  {"info/reward", -6},    {"evaluate_time", -7}, {"", -8},
      {"a b/c", -9},  {"two\nlines\xff", -10}};
  FakeEnvManager::Options env_options = WithScript(2, ByEnv);
  Fixture plain(env_options);
  env_options.info = [&](int, int64_t) { return metrics_of_ours; };
  Fixture f(env_options);
  EvalOptions eval;
  eval.n_episode = 4;
  eval.train_iter = 1;
  DING_ASSERT_OK_AND_ASSIGN(const EvalResult expected, plain.evaluator->Eval(eval));
  DING_ASSERT_OK_AND_ASSIGN(const EvalResult result, f.evaluator->Eval(eval));
  EXPECT_EQ(result.mean_return, expected.mean_return);
  for (const std::string& tag : plain.sink->ScalarTags()) {
    EXPECT_EQ(f.sink->ValuesOf(tag), plain.sink->ValuesOf(tag)) << tag;
  }
  EXPECT_THAT(f.sink->ValuesOf("eval_iter/info/reward_mean"), ElementsAre(-1));
  EXPECT_THAT(f.sink->ValuesOf("eval_iter/info/reward_mean_mean"), ElementsAre(-2));
  EXPECT_THAT(f.sink->ValuesOf("eval_iter/info/info/reward_mean"), ElementsAre(-6));
  EXPECT_THAT(f.sink->ValuesOf("eval_iter/info/_mean"), ElementsAre(-8));
  EXPECT_THAT(f.sink->ValuesOf("eval_iter/info/a b/c_mean"), ElementsAre(-9));
  EXPECT_THAT(f.sink->ValuesOf("eval_iter/info/two\\x0Alines\\xFF_mean"), ElementsAre(-10));
}

TEST(InteractionSerialEvaluatorTest, AStatisticOfSomeEpisodes_HasACount) {
  FakeEnvManager::Options env_options = WithScript(2, ByEnv);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  env_options.info = [nan](int env_id, int64_t) {
    return env_id == 0 ? NamedValues{{"all", 1}, {"some", 1}, {"odd", 3}, {"never", nan}}
                       : NamedValues{{"all", 0}, {"odd", nan}, {"never", -nan}};
  };
  Fixture f(env_options);
  EvalOptions eval;
  eval.n_episode = 4;
  ASSERT_THAT(f.evaluator->Eval(eval), IsOk());
  EXPECT_THAT(f.sink->ValuesOf("eval_iter/info/all_mean"), ElementsAre(0.5));
  EXPECT_THAT(f.sink->ValuesOf("eval_iter/info/all_count"), ElementsAre());
  EXPECT_THAT(f.sink->ValuesOf("eval_iter/info/some_mean"), ElementsAre(1));
  EXPECT_THAT(f.sink->ValuesOf("eval_iter/info/some_count"), ElementsAre(2));
  EXPECT_THAT(f.sink->ValuesOf("eval_iter/info/some_not_finite"), ElementsAre());
  EXPECT_THAT(f.sink->ValuesOf("eval_iter/info/odd_mean"), ElementsAre(3));
  EXPECT_THAT(f.sink->ValuesOf("eval_iter/info/odd_count"), ElementsAre(2));
  EXPECT_THAT(f.sink->ValuesOf("eval_iter/info/odd_not_finite"), ElementsAre(2));
  EXPECT_THAT(f.sink->ValuesOf("eval_iter/info/never_mean"), ElementsAre());
  EXPECT_THAT(f.sink->ValuesOf("eval_iter/info/never_count"), ElementsAre(0));
  EXPECT_THAT(f.sink->ValuesOf("eval_iter/info/never_not_finite"), ElementsAre(4));
}

TEST(InteractionSerialEvaluatorTest, ResetsThePolicyAtTheEndOfEpisodes) {
  Fixture f(WithScript(2, ByEnv));
  f.policy.resets.clear();
  EvalOptions eval;
  eval.n_episode = 2;
  ASSERT_THAT(f.evaluator->Eval(eval), IsOk());
  EXPECT_THAT(f.policy.resets, ElementsAre(ElementsAre(), ElementsAre(0), ElementsAre(1)));
}

TEST(InteractionSerialEvaluatorTest, PassesSettingsToThePolicy) {
  Fixture f;
  EvalOptions eval;
  eval.policy_settings.Set("eps", 0.25);
  ASSERT_THAT(f.evaluator->Eval(eval), IsOk());
  EXPECT_EQ(f.policy.last_settings.Get("eps"), 0.25);
}

TEST(InteractionSerialEvaluatorTest, WritesMetrics) {
  Fixture f(WithScript(2, ByEnv));
  f.policy.on_forward = [&](absl::Span<const int>) {
    f.clock.Advance(absl::Seconds(1));
    return absl::OkStatus();
  };
  EvalOptions eval;
  eval.n_episode = 4;
  eval.train_iter = 50;
  eval.envstep = 800;
  ASSERT_THAT(f.evaluator->Eval(eval), IsOk());
  // 6 env steps in 4 vector steps: env 0 plays in the first two of them.
  const std::map<std::string, double> expected = {
      {"episode_count", 4},        {"abnormal_episode_count", 0},
      {"envstep_count", 6},        {"avg_envstep_per_episode", 1.5},
      {"evaluate_time", 4},        {"avg_envstep_per_sec", 1.5},
      {"avg_time_per_episode", 1},  // D30: seconds per episode
      {"reward_mean", 225.5},      {"reward_max", 401},
      {"reward_min", 100},         {"eval_episode_return_mean", 225.5},
  };
  for (const auto& [metric, value] : expected) {
    EXPECT_THAT(f.sink->ValuesOf("eval_iter/" + metric), ElementsAre(value)) << metric;
    EXPECT_THAT(f.sink->ValuesOf("eval_step/" + metric), ElementsAre(value)) << metric;
  }
  const double variance = (125.5 * 125.5 + 25.5 * 25.5 + 24.5 * 24.5 + 175.5 * 175.5) / 4;
  EXPECT_THAT(f.sink->ValuesOf("eval_iter/reward_std"),
              ElementsAre(testing::DoubleNear(std::sqrt(variance), 1e-9)));
  EXPECT_EQ(f.sink->ScalarTags().size(), 2 * (expected.size() + 1));
  for (const RecordingSink::ScalarRecord& record : f.sink->scalars()) {
    EXPECT_EQ(record.step, record.tag.rfind("eval_iter/", 0) == 0 ? 50 : 800) << record.tag;
  }
}

// Each evaluation plays the next episode, whose return is its number times 100 (plus one step).
struct Judged {
  explicit Judged(double stop_value)
      : f(WithScript(1, ByEnv), [&] {
          Options options;
          options.n_episode = 1;
          options.stop_value = stop_value;
          return options;
        }()) {}

  absl::StatusOr<EvalResult> Eval(int64_t train_iter) {
    EvalOptions eval;
    eval.train_iter = train_iter;
    eval.save_checkpoint = [this](absl::string_view name) {
      saved.emplace_back(name);
      return save_status;
    };
    return f.evaluator->Eval(eval);
  }

  Fixture f;
  std::vector<std::string> saved;
  absl::Status save_status;
};

TEST(InteractionSerialEvaluatorTest, StopsAtTheStopValueOnceTrainingHasBegun) {
  Judged judged(100);
  DING_ASSERT_OK_AND_ASSIGN(const EvalResult before, judged.Eval(0));
  EXPECT_FALSE(before.stop);
  DING_ASSERT_OK_AND_ASSIGN(const EvalResult after, judged.Eval(1));
  EXPECT_TRUE(after.stop);
  Judged never(1e6);
  DING_ASSERT_OK_AND_ASSIGN(const EvalResult low, never.Eval(1));
  EXPECT_FALSE(low.stop);
}

TEST(InteractionSerialEvaluatorTest, SavesTheBest) {
  Judged judged(1e10);
  ASSERT_THAT(judged.Eval(1), IsOk());
  EXPECT_THAT(judged.saved, ElementsAre("ckpt_best"));
  EXPECT_EQ(judged.f.evaluator->best_return(), 100);
  ASSERT_THAT(judged.Eval(2), IsOk());
  EXPECT_EQ(judged.saved.size(), 2u);

  // A result that is not better is not saved.
  StateDict state;
  ASSERT_THAT(state.WriteDouble("best_return", 1e9), IsOk());
  ASSERT_THAT(state.WriteInt("last_eval_iter", 2), IsOk());
  ASSERT_THAT(state.WriteInt("last_render_iter", -1), IsOk());
  ASSERT_THAT(judged.f.evaluator->LoadState(&state), IsOk());
  ASSERT_THAT(judged.Eval(3), IsOk());
  EXPECT_EQ(judged.saved.size(), 2u);
}

TEST(InteractionSerialEvaluatorTest, AFailedSaveDoesNotCountAsTheBest) {
  Judged judged(1e10);
  judged.save_status = absl::ResourceExhaustedError("disk full");
  EXPECT_THAT(judged.Eval(1), StatusIs(absl::StatusCode::kResourceExhausted,
                                       AllOf(HasSubstr("ckpt_best"), HasSubstr("disk full"))));
  EXPECT_EQ(judged.f.evaluator->best_return(), -std::numeric_limits<double>::infinity());
}

// An env of the real manager that reports the "eval_episode_return" of a script.
struct OwnReturn {
  explicit OwnReturn(double value) {
    script->info.Set("eval_episode_return", value);
    envs = *BaseEnvManager::Create({}, {ScriptedEnvFactory(script)});
    Options options;
    options.n_episode = 1;
    options.stop_value = -1e10;
    evaluator = *InteractionSerialEvaluator::Create(options, envs.get(), &policy, {});
  }

  std::shared_ptr<ScriptedEnvScript> script = std::make_shared<ScriptedEnvScript>();
  std::unique_ptr<BaseEnvManager> envs;
  FakePolicy policy{{}, 2};
  std::unique_ptr<InteractionSerialEvaluator> evaluator;
};

TEST(InteractionSerialEvaluatorTest, OwnReturnThatIsNan_IsAnErrorAndNeverTheBest) {
  OwnReturn nan(std::numeric_limits<double>::quiet_NaN());
  int saved = 0;
  EvalOptions eval;
  eval.train_iter = 1;
  eval.save_checkpoint = [&](absl::string_view) {
    ++saved;
    return absl::OkStatus();
  };
  EXPECT_THAT(nan.evaluator->Eval(eval),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("eval_episode_return")));
  EXPECT_EQ(saved, 0);
  EXPECT_EQ(nan.evaluator->best_return(), -std::numeric_limits<double>::infinity());

  OwnReturn number(7);
  DING_ASSERT_OK_AND_ASSIGN(const EvalResult good, number.evaluator->Eval(eval));
  EXPECT_EQ(good.mean_return, 7);
  EXPECT_TRUE(good.stop);
  EXPECT_EQ(saved, 1);
}

TEST(InteractionSerialEvaluatorTest, AbnormalEpisodesDoNotCount) {
  Fixture f(WithScript(2, [](int env_id, int64_t episode) {
    const bool abnormal = env_id == 1 && episode < 3;
    return Episode{2, abnormal ? End::kAbnormal : End::kTerminated};
  }));
  f.policy.resets.clear();
  EvalOptions eval;
  eval.n_episode = 2;
  DING_ASSERT_OK_AND_ASSIGN(const EvalResult result, f.evaluator->Eval(eval));
  EXPECT_THAT(result.episode_return, ElementsAre(201, 601));
  // The steps: 2 of env 0; of env 1, one of each abnormal episode and 2 of the good one.
  EXPECT_THAT(f.sink->ValuesOf("eval_iter/envstep_count"), ElementsAre(6));
  EXPECT_EQ(result.abnormal_episode_count, 2) << "a reset ended the first one";
  EXPECT_THAT(f.sink->ValuesOf("eval_iter/abnormal_episode_count"), ElementsAre(2));
  EXPECT_THAT(f.policy.resets,
              ElementsAre(ElementsAre(), ElementsAre(1, 0), ElementsAre(1), ElementsAre(1)));
}

TEST(InteractionSerialEvaluatorTest, NamesAnEnvThatStaysAbnormal) {
  Options options;
  options.max_abnormal = 3;
  Fixture f(WithScript(2,
                       [](int env_id, int64_t) {
                         return Episode{4, env_id == 1 ? End::kAbnormal : End::kTerminated};
                       }),
            options);
  EXPECT_THAT(f.evaluator->Eval({}),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       AllOf(HasSubstr("eval: env 1"), HasSubstr("3 times"))));
}

TEST(InteractionSerialEvaluatorTest, ReturnsAnErrorForEnvsThatAreDoneTooEarly) {
  FakeEnvManager::Options env_options = WithScript(2, ByEnv);
  env_options.episode_num = 1;
  Fixture f(env_options);
  EvalOptions eval;
  eval.n_episode = 4;
  EXPECT_THAT(f.evaluator->Eval(eval),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("env 0 is DONE")));
  eval.n_episode = 2;
  EXPECT_THAT(f.evaluator->Eval(eval), IsOk());
}

TEST(InteractionSerialEvaluatorTest, PolicyErrorsAndExceptionsNameThePolicy) {
  Fixture f;
  f.policy.on_forward = [](absl::Span<const int>) { return absl::DataLossError("lost"); };
  EXPECT_THAT(f.evaluator->Eval({}),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("eval: policy: lost")));
  f.policy.on_forward = [](absl::Span<const int>) -> absl::Status {
    throw std::runtime_error("thrown");
  };
  EXPECT_THAT(f.evaluator->Eval({}), StatusIs(absl::StatusCode::kInternal,
                                              AllOf(HasSubstr("policy"), HasSubstr("thrown"))));
  f.policy.on_forward = nullptr;
  EXPECT_THAT(f.evaluator->Eval({}), IsOk());
}

TEST(InteractionSerialEvaluatorTest, ChecksItsConfiguration) {
  FakeEnvManager envs({});
  FakePolicy policy;
  Options bad;
  bad.eval_freq = 0;
  bad.n_episode = 2;
  bad.max_abnormal = 0;
  bad.stop_value = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(InteractionSerialEvaluator::Create(bad, &envs, nullptr, {}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("eval_freq is 0"), HasSubstr("n_episode is 2 for 3 envs"),
                             HasSubstr("max_abnormal is 0"), HasSubstr("stop_value is NaN"),
                             HasSubstr("no policy"))));
  EXPECT_THAT(InteractionSerialEvaluator::Create({}, nullptr, &policy, {}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no env manager")));
  FakePolicy other({}, MakeSpec({Box("action", {2})}).value());
  EXPECT_THAT(
      InteractionSerialEvaluator::Create({}, &envs, &other, {}),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("float32[2]"), HasSubstr("'Fake'"), HasSubstr("int64[] in 0..3"))));
  EXPECT_EQ(envs.launches(), 0);
}

TEST(InteractionSerialEvaluatorTest, ResetEnvAndResetPolicy) {
  Fixture f(WithScript(1, ByEnv));
  EXPECT_TRUE(f.evaluator->ShouldEval(0));
  FakeEnvManager others(WithScript(2, ByEnv));
  ASSERT_THAT(f.evaluator->ResetEnv(&others), IsOk());
  EXPECT_EQ(others.launches(), 1);
  FakePolicy policy;
  ASSERT_THAT(f.evaluator->ResetPolicy(&policy), IsOk());
  ASSERT_THAT(f.evaluator->Eval({}), IsOk());
  EXPECT_FALSE(others.events().empty());
  EXPECT_TRUE(f.envs.events().empty());
  EXPECT_GT(policy.rows, 0);
  EXPECT_FALSE(f.evaluator->ShouldEval(0));

  ASSERT_THAT(f.evaluator->Reset(nullptr, nullptr), IsOk());
  EXPECT_EQ(f.evaluator->best_return(), -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(f.evaluator->ShouldEval(0));
}

TEST(InteractionSerialEvaluatorTest, ContinuesFromASavedState) {
  Options options;
  options.eval_freq = 10;
  Fixture a(WithScript(1, ByEnv), options);
  EXPECT_TRUE(a.evaluator->ShouldEval(25));
  ASSERT_THAT(a.evaluator->Eval({}), IsOk());
  StateDict state;
  ASSERT_THAT(a.evaluator->SaveState(&state), IsOk());

  Fixture b(WithScript(1, ByEnv), options);
  ASSERT_THAT(b.evaluator->LoadState(&state), IsOk());
  EXPECT_EQ(b.evaluator->best_return(), a.evaluator->best_return());
  EXPECT_FALSE(b.evaluator->ShouldEval(25));
  EXPECT_FALSE(b.evaluator->ShouldEval(34));
  EXPECT_TRUE(b.evaluator->ShouldEval(35));

  ForEachExtremeNumber(state, [&](StateDict* damaged) {
    EXPECT_THAT(b.evaluator->LoadState(damaged), StatusIs(absl::StatusCode::kInvalidArgument));
  });

  StateDict incomplete;
  ASSERT_THAT(incomplete.WriteDouble("best_return", 5), IsOk());
  EXPECT_THAT(b.evaluator->LoadState(&incomplete), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_EQ(b.evaluator->best_return(), a.evaluator->best_return());
}

// Videos.

FakeEnvManager::Options WithPictures(int env_num) {
  FakeEnvManager::Options options = WithScript(env_num, ByEnv);
  options.can_render = true;
  return options;
}

EvalOptions At(int64_t train_iter, int64_t envstep, bool force_render = false) {
  EvalOptions options;
  options.train_iter = train_iter;
  options.envstep = envstep;
  options.force_render = force_render;
  return options;
}

std::vector<std::string> ImageTags(const RecordingSink& sink) {
  std::vector<std::string> tags;
  for (const RecordingSink::ImageRecord& image : sink.images()) tags.push_back(image.tag);
  return tags;
}

TEST(InteractionSerialEvaluatorTest, FilmsTheWorstTheMedianAndTheBest) {
  const std::string folder = testing::TempDir() + "/films";
  ASSERT_THAT(RemoveRecursively(folder), IsOk());
  Options options;
  options.n_episode = 3;
  options.figure_path = folder + "/of/eval";
  Fixture f(WithPictures(3), options);
  ASSERT_THAT(f.evaluator->Eval(At(7, 70)), IsOk());
  EXPECT_THAT(f.sink->images(), IsEmpty()) << "nobody asked";
  ASSERT_THAT(f.evaluator->Eval(At(7, 70, /*force_render=*/true)), IsOk());
  EXPECT_THAT(ImageTags(*f.sink), ElementsAre("eval_train_iter/worst", "eval_train_iter/median",
                                              "eval_train_iter/best"));
  for (const RecordingSink::ImageRecord& image : f.sink->images()) {
    EXPECT_EQ(image.step, 7);
    EXPECT_EQ(image.width, 2);
    EXPECT_EQ(image.height, 1);
    const std::string which = image.tag.substr(image.tag.find('/') + 1);
    DING_ASSERT_OK_AND_ASSIGN(
        const std::string file,
        ReadFile(options.figure_path + "/eval_train_iter_7_" + which + ".gif"));
    EXPECT_EQ(file, image.file);
    EXPECT_EQ(file.substr(0, 6), "GIF89a");
  }
  // Env 2 plays the longest episodes, and has the highest return.
  EXPECT_GT(f.sink->images()[2].file.size(), f.sink->images()[0].file.size());
  DING_ASSERT_OK_AND_ASSIGN(const auto files, ListDirectory(options.figure_path));
  EXPECT_EQ(files.size(), 3u) << "something else was left there";
}

TEST(InteractionSerialEvaluatorTest, FilmsAtItsFrequency) {
  for (const bool envstep : {false, true}) {
    Options options;
    options.render_freq = 10;
    if (envstep) options.render_mode = InteractionSerialEvaluator::RenderMode::kEnvstep;
    Fixture f(WithPictures(3), options);
    std::vector<int64_t> filmed;
    for (const int64_t now : {0, 5, 9, 15, 18, 19, 25, 40}) {
      const size_t before = f.sink->images().size();
      ASSERT_THAT(f.evaluator->Eval(envstep ? At(-1, now) : At(now, -1)), IsOk());
      if (f.sink->images().size() > before) filmed.push_back(now);
    }
    EXPECT_THAT(filmed, ElementsAre(9, 19, 40));
    StateDict state;
    ASSERT_THAT(f.evaluator->SaveState(&state), IsOk());
    Fixture resumed(WithPictures(3), options);
    ASSERT_THAT(resumed.evaluator->LoadState(&state), IsOk());
    ASSERT_THAT(resumed.evaluator->Eval(At(49, 49)), IsOk());
    EXPECT_THAT(resumed.sink->images(), IsEmpty());
    ASSERT_THAT(resumed.evaluator->Eval(At(50, 50)), IsOk());
    EXPECT_FALSE(resumed.sink->images().empty());
  }
}

TEST(InteractionSerialEvaluatorTest, FilmsACartPole) {
  const std::vector<EnvFactory> factories(2, [] { return CreateCartPole("CartPole-v0", 200); });
  DING_ASSERT_OK_AND_ASSIGN(const auto envs, BaseEnvManager::Create({}, factories));
  FakePolicy policy({}, 2);
  ComponentDeps deps;
  const auto sink = std::make_shared<RecordingSink>();
  deps.metrics = sink;
  DING_ASSERT_OK_AND_ASSIGN(const auto evaluator,
                            InteractionSerialEvaluator::Create({}, envs.get(), &policy, deps));
  ASSERT_THAT(evaluator->Eval(At(1, 1, true)), IsOk());
  ASSERT_EQ(sink->images().size(), 4u);
  for (const RecordingSink::ImageRecord& image : sink->images()) {
    EXPECT_EQ(image.width, 600);
    EXPECT_EQ(image.height, 400);
    // Without encoding each would take 720 kB.
    EXPECT_LT(image.file.size(), 2000000u);
  }
}

TEST(InteractionSerialEvaluatorTest, NamesAnEnvThatCannotBeRendered) {
  Fixture f;
  EXPECT_THAT(f.evaluator->Eval(At(1, 1, true)),
              StatusIs(absl::StatusCode::kUnimplemented,
                       AllOf(HasSubstr("eval: a video is due, but env 0 cannot be rendered"),
                             HasSubstr("nothing to see"))));
  EXPECT_TRUE(f.envs.events().empty());
  EXPECT_THAT(f.evaluator->Eval(At(1, 1)), IsOk());
}

TEST(InteractionSerialEvaluatorTest, NamesItInTheFirstEvaluationIfVideosAreDueLater) {
  Options options;
  options.render_freq = 1000;
  Fixture f({}, options);
  EXPECT_THAT(f.evaluator->Eval(At(0, 0)),
              StatusIs(absl::StatusCode::kUnimplemented,
                       AllOf(HasSubstr("eval: render_freq asks for videos, but env 0 cannot"),
                             HasSubstr("nothing to see"))));
  EXPECT_TRUE(f.envs.events().empty());
  // An evaluation that belongs to no iteration, as of a checkpoint, makes no videos.
  EXPECT_THAT(f.evaluator->Eval(EvalOptions()), IsOk());

  const std::string file = testing::TempDir() + "/no_folder";
  ASSERT_THAT(WriteFileAtomically(file, "x"), IsOk());
  options.figure_path = file + "/videos";
  Fixture without_folder(WithPictures(3), options);
  EXPECT_THAT(without_folder.evaluator->Eval(At(0, 0)).status().message(),
              HasSubstr("no_folder/videos' cannot be written"));
}

TEST(InteractionSerialEvaluatorTest, AFullDiskCostsTheVideosAlone) {
  const std::string folder = testing::TempDir() + "/full";
  ASSERT_THAT(RemoveRecursively(folder), IsOk());
  Options options;
  options.render_freq = 10;
  options.figure_path = folder;
  Fixture f(WithPictures(3), options);
  {
    const FileSizeLimit full(20);
    DING_ASSERT_OK_AND_ASSIGN(const EvalResult result, f.evaluator->Eval(At(10, 10)));
    EXPECT_FALSE(result.episode_return.empty());
  }
  EXPECT_THAT(ListDirectory(folder).value(), IsEmpty()) << "half a video was left";
  ASSERT_THAT(f.evaluator->Eval(At(20, 20)), IsOk());
  EXPECT_EQ(ListDirectory(folder).value().size(), 4u);
}

TEST(InteractionSerialEvaluatorTest, RefusesAFolderThatCannotBeWritten) {
  const std::string file = testing::TempDir() + "/a_file";
  ASSERT_THAT(WriteFileAtomically(file, "x"), IsOk());
  Options options;
  options.figure_path = file + "/videos";
  Fixture f(WithPictures(3), options);
  const absl::StatusOr<EvalResult> result = f.evaluator->Eval(At(1, 1, true));
  EXPECT_FALSE(result.ok());
  EXPECT_THAT(result.status().message(),
              AllOf(HasSubstr("eval: figure_path"), HasSubstr("a_file/videos")));
  EXPECT_TRUE(f.envs.events().empty());
}

TEST(InteractionSerialEvaluatorTest, EnvsMayAnswerLate) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    FakeEnvManager::Options env_options = WithScript(4, FakeEnvManager::RandomScript(seed, 6, 0.1));
    env_options.seed = seed;
    env_options.subsets = true;
    env_options.late = true;
    env_options.can_render = true;
    Options options;
    options.n_episode = 6;
    options.max_abnormal = 100;
    Fixture f(env_options, options);
    DING_ASSERT_OK_AND_ASSIGN(const EvalResult result, f.evaluator->Eval(At(1, 1, true)));
    EXPECT_EQ(result.episode_return.size(), 6u);
    std::vector<double> returns;
    std::map<int, int> played;
    std::map<std::pair<int, int>, double> sums;
    std::map<int, std::vector<double>> by_env;
    for (const FakeEnvManager::Event& event : f.envs.events()) {
      double& sum = sums[{event.env_id, static_cast<int>(event.obs[1])}];
      sum += event.reward;
      if (event.terminated || event.truncated) by_env[event.env_id].push_back(sum);
    }
    for (const auto& [env_id, of_env] : by_env) {
      EXPECT_EQ(of_env.size(), env_id < 2 ? 2u : 1u) << "env " << env_id << ", seed " << seed;
      returns.insert(returns.end(), of_env.begin(), of_env.end());
    }
    EXPECT_EQ(result.episode_return, returns);
    EXPECT_EQ(f.sink->images().size(), 4u);
  }
}

}  // namespace
}  // namespace ding
