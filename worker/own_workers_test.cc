// The examples of docs/reference/collector_core.md for a collector, an evaluator and a parallel
// collector of one's own, and runs with them.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/params.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/collector/core/collect_core.h"
#include "ding_worker/collector/evaluator/eval_core.h"
#include "ding_worker/collector/evaluator/vector_eval_monitor.h"
#include "ding_worker/collector/parallel.pb.h"
#include "ding_worker/collector/parallel/base_parallel_collector.h"
#include "ding_worker/collector/parallel/parallel_collector_core.h"
#include "ding_worker/collector/parallel_registry.h"
#include "ding_worker/collector/serial.pb.h"
#include "ding_worker/collector/serial_collector.h"
#include "ding_worker/collector/serial_evaluator.h"
#include "ding_worker/collector/serial_registry.h"
#include "ding_worker/collector/testing/fake_link.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/base_env_manager.h"
#include "ding_worker/env/classic_control/cartpole.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/store/store.h"
#include "ding_worker/interaction/store/store_registry.h"
#include "ding_worker/interaction/transport/in_process_transport.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/metrics/testing/recording_sink.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/random_policy.h"
#include "ding_worker/worker/config/experiment_config.h"
#include "ding_worker/worker/experiment.pb.h"
#include "ding_worker/worker/pipeline/pipeline.h"
#include "ding_worker/worker/pipeline/serial_pipeline.h"
#include "ding_worker/worker/tasks/parallel_problems.h"
#include "ding_worker/worker/testing/in_process_run.h"
#include "ding_worker/worker/testing/own_workers.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

// ------------------------------------------------------------------------------------- a collector

// Collects until `target` episodes were successes, and returns all episodes that ended. Those that
// still run are returned by a later Collect().
class SuccessCollector : public CoreCollector {
 public:
  static absl::StatusOr<std::unique_ptr<ISerialCollector>> Create(
      const SerialCollectorConfig& config, EnvManager* env, CollectMode* policy,
      const ComponentDeps& deps) {
    SuccessCollectorParams params;
    CollectCore::Options options;
    options.whole_episodes = true;
    ReadSerialCollectorOptions(config, &options.common);
    ReadParams(config, &params, &options.common.problems);
    DING_ASSIGN_OR_RETURN(auto core, CollectCore::Create(options, env, PoliciesOf(policy), deps));
    return absl::WrapUnique(new SuccessCollector(params, std::move(core)));
  }

  absl::StatusOr<SegmentBatch> Collect(const CollectOptions& options) override {
    const Timer timer(core()->deps().clock);
    absl::StatusOr<SegmentBatch> data = TryCollect(options);
    if (!data.ok()) return Annotate(data.status(), core()->deps().name);
    core()->FinishCollect(options, timer.Seconds());
    return data;
  }

 private:
  SuccessCollector(const SuccessCollectorParams& params, std::unique_ptr<CollectCore> core)
      : CoreCollector(std::move(core)), params_(params) {}

  absl::StatusOr<SegmentBatch> TryCollect(const CollectOptions& options) {
    DING_RETURN_IF_ERROR(core()->PrepareLevelSeeds(options.level_seeds));
    const int64_t target = options.target.value_or(core()->attributes(0).n_episode.value_or(1));
    for (int64_t successes = 0, episodes = 0; successes < target;) {
      if (episodes >= params_.max_episodes()) {
        return absl::ResourceExhaustedError(
            absl::StrCat(successes, " successes in ", episodes, " episodes, expected ", target));
      }
      DING_ASSIGN_OR_RETURN(const Timesteps* const steps, core()->StepReadyEnvs(options));
      for (const FinishedEpisode& episode : steps->finished) {
        ++episodes;
        if (episode.episode_return >= params_.return_at_least()) ++successes;
      }
    }
    return core()->TakeTrainSamples(0);
  }

  const SuccessCollectorParams params_;
};

DING_REGISTER(SerialCollectorRegistry(), "success",
              (SerialCollectorDescriptor{SuccessCollector::Create, /*by_episode=*/true}),
              "collects until so many episodes were successes");

// ------------------------------------------------------------------------------------- an
// evaluator

// Judges a policy by its worst episode.
class WorstCaseEvaluator : public CoreEvaluator {
 public:
  static absl::StatusOr<std::unique_ptr<ISerialEvaluator>> Create(
      const SerialEvaluatorConfig& config, EnvManager* env, EvalMode* policy,
      const ComponentDeps& deps) {
    EvalCore::Options options;
    ReadSerialEvaluatorOptions(config, &options.common);
    ReadParams(config, /*params=*/nullptr, &options.common.problems);
    options.score = [](const VectorEvalMonitor& episodes) {
      const std::vector<double> returns = episodes.GetEpisodeReturn();
      return *std::min_element(returns.begin(), returns.end());
    };
    DING_ASSIGN_OR_RETURN(auto core, EvalCore::Create(options, env, PoliciesOf(policy), deps));
    return absl::WrapUnique(new WorstCaseEvaluator(std::move(core)));
  }

  absl::StatusOr<EvalResult> Eval(const EvalOptions& options) override {
    DING_ASSIGN_OR_RETURN(const EvalCore::Outcome outcome,
                          core()->Eval(options, /*videos=*/nullptr));
    return outcome.ToResult();
  }

 private:
  explicit WorstCaseEvaluator(std::unique_ptr<EvalCore> core) : CoreEvaluator(std::move(core)) {}
};

DING_REGISTER(SerialEvaluatorRegistry(), "worst_case", WorstCaseEvaluator::Create,
              "the worst of the returns");

// -------------------------------------------------------------------------- a parallel collector

absl::StatusOr<Batch> RowsOf(const Batch& from, const std::vector<int64_t>& rows) {
  const int64_t count = static_cast<int64_t>(rows.size());
  DING_ASSIGN_OR_RETURN(BatchBuilder to, BatchBuilder::Create(from.spec_ptr(), count));
  GatherRows(from.view(), rows, to.view(), 0);
  return std::move(to).Seal(count);
}

// Sends only the episodes with at least 20 rows. The policy must have n_episode: whole episodes are
// sent.
class LongEpisodesCollector : public ParallelCollectorCore {
 public:
  static absl::StatusOr<std::unique_ptr<BaseParallelCollector>> Create(
      const ParallelCollectorConfig& config, const ParallelCollectorTask& task,
      const ParallelCollectorParts& parts, const ComponentDeps& deps) {
    DING_ASSIGN_OR_RETURN(Setup setup, Prepare(ReadParallelCollectorOptions(config), task, parts,
                                               deps, {{parts.collect_mode, /*updates=*/true}}));
    return absl::WrapUnique(new LongEpisodesCollector(std::move(setup)));
  }

 private:
  using ParallelCollectorCore::ParallelCollectorCore;

  absl::StatusOr<SegmentBatch> SelectRows(SegmentBatch data) override {
    SegmentBatch selected;
    std::vector<int64_t> rows;
    std::vector<int64_t> finals;
    for (size_t i = 0; i < data.segments.size(); ++i) {
      Segment segment = data.segments[i];
      if (segment.length < 20) continue;
      finals.push_back(static_cast<int64_t>(i));
      const int64_t begin = static_cast<int64_t>(rows.size());
      for (int64_t row = 0; row < segment.length; ++row) rows.push_back(segment.begin + row);
      segment.begin = begin;
      selected.segments.push_back(segment);
    }
    if (rows.empty()) return selected;
    DING_ASSIGN_OR_RETURN(selected.rows, RowsOf(data.rows, rows));
    DING_ASSIGN_OR_RETURN(selected.final_obs, RowsOf(data.final_obs, finals));
    return selected;
  }
};

DING_REGISTER(ParallelCollectorRegistry(), "long_episodes",
              ParallelCollectorDescriptor{LongEpisodesCollector::Create}, "drops short episodes");

// ------------------------------------------------------------------------------------- tests

std::unique_ptr<EnvManager> CartPoles(int env_num, uint64_t seed) {
  const std::vector<EnvFactory> factories(env_num,
                                          [] { return CreateCartPole("CartPole-v0", 200); });
  absl::StatusOr<std::unique_ptr<BaseEnvManager>> envs = BaseEnvManager::Create({}, factories);
  EXPECT_THAT(envs, IsOk());
  EXPECT_THAT((*envs)->Seed(seed, /*dynamic=*/true), IsOk());
  return *std::move(envs);
}

std::unique_ptr<CollectMode> RandomActions(const EnvManager& envs,
                                           const CollectAttributes& attributes) {
  absl::StatusOr<std::unique_ptr<RandomCollectMode>> policy =
      RandomCollectMode::Create(envs.env_spec().action, /*seed=*/0, attributes);
  EXPECT_THAT(policy, IsOk());
  return *std::move(policy);
}

SerialCollectorConfig SuccessConfig(double return_at_least, int64_t max_episodes) {
  SuccessCollectorParams params;
  params.set_return_at_least(return_at_least);
  params.set_max_episodes(max_episodes);
  SerialCollectorConfig config;
  config.set_type("success");
  config.mutable_params()->PackFrom(params);
  return config;
}

ComponentDeps Named(const std::string& name) {
  ComponentDeps deps;
  deps.name = name;
  return deps;
}

TEST(OwnCollectorTest, CollectsUntilEnoughEpisodesWereSuccesses) {
  const std::unique_ptr<EnvManager> envs = CartPoles(3, /*seed=*/5);
  const std::unique_ptr<CollectMode> policy = RandomActions(*envs, {});
  DING_ASSERT_OK_AND_ASSIGN(
      const auto collector,
      create_serial_collector(SuccessConfig(30, 1000), envs.get(), policy.get(), Named("c")));
  CollectOptions options;
  options.target = 4;
  int64_t episodes = 0;
  for (int round = 0; round < 3; ++round) {
    DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch data, collector->Collect(options));
    ASSERT_THAT(ValidateSegments(data), IsOk());
    int64_t successes = 0;
    for (const Segment& segment : data.segments) {
      EXPECT_NE(segment.end, SegmentEnd::kCut) << "whole episodes";
      if (segment.length >= 30) ++successes;  // Each step has reward 1.
    }
    EXPECT_GE(successes, 4);
    EXPECT_LT(successes, 4 + 3) << "at most one more for each of the other envs";
    EXPECT_GT(static_cast<int64_t>(data.segments.size()), successes) << "failures are data, too";
    episodes += static_cast<int64_t>(data.segments.size());
  }
  EXPECT_EQ(collector->total_episode_count(), episodes);
}

TEST(OwnCollectorTest, FailsAfterTooManyEpisodes) {
  const std::unique_ptr<EnvManager> envs = CartPoles(1, /*seed=*/5);
  const std::unique_ptr<CollectMode> policy = RandomActions(*envs, {});
  DING_ASSERT_OK_AND_ASSIGN(
      const auto collector,
      create_serial_collector(SuccessConfig(1000, 6), envs.get(), policy.get(), Named("c")));
  EXPECT_THAT(collector->Collect({}),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("c: 0 successes in 6 episodes, expected 1")));
}

TEST(OwnCollectorTest, ReportsAllProblemsOfItsConfig) {
  const std::unique_ptr<EnvManager> envs = CartPoles(1, /*seed=*/5);
  SerialCollectorConfig config;
  config.set_type("success");
  config.set_max_abnormal(0);
  config.mutable_params()->PackFrom(EpisodeCollectorParams());
  EXPECT_THAT(create_serial_collector(config, envs.get(), nullptr, Named("c")),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("max_abnormal is 0"), HasSubstr("SuccessCollectorParams"),
                             HasSubstr("no policy"))));
}

constexpr char kConfig[] = R"(
exp_name: "test"
max_env_step: 300
env { type: "CartPole-v0" collector_env_num: 2 evaluator_env_num: 2 n_evaluator_episode: 4 }
policy {
  type: "dqn"
  params { [type.googleapis.com/ding.DqnConfig] { model { encoder_hidden_size: [8] } } }
  learn { batch_size: 8 }
  collect {
    n_episode: 2
    collector {
      type: "success"
      collect_print_freq: 1
      params { [type.googleapis.com/ding.SuccessCollectorParams] { return_at_least: 10 } }
    }
  }
  eval { evaluator { type: "worst_case" eval_freq: 5 } }
})";

TEST(OwnWorkersTest, RunInASerialPipeline) {
  std::string folder = absl::StrCat(testing::TempDir(), "/own_workers_XXXXXX");
  SerialOptions options;
  options.exp_dir = mkdtemp(folder.data());
  const auto sink = std::make_shared<RecordingSink>();
  options.metrics = sink;
  DING_ASSERT_OK_AND_ASSIGN(const ExperimentConfig config,
                            ParseExperimentConfig(kConfig, "test", {}));
  DING_ASSERT_OK_AND_ASSIGN(const auto pipeline, SerialPipeline::Create(config, options));
  SerialResult result;
  ASSERT_THAT(pipeline->Run(&result), IsOk());
  EXPECT_GE(result.env_step, 300);
  EXPECT_GT(result.train_iter, 0);
  EXPECT_EQ(result.eval_value,
            *std::min_element(result.eval_value_raw.begin(), result.eval_value_raw.end()));
  EXPECT_THAT(sink->ScalarTags(),
              AllOf(Contains("collector_step/reward_mean"), Contains("evaluator_step/score")));
  EXPECT_THAT(RemoveRecursively(folder), IsOk());
}

// Its score is far beyond all mean returns.
class HighScoreEvaluator : public CoreEvaluator {
 public:
  static absl::StatusOr<std::unique_ptr<ISerialEvaluator>> Create(
      const SerialEvaluatorConfig& config, EnvManager* env, EvalMode* policy,
      const ComponentDeps& deps) {
    EvalCore::Options options;
    ReadSerialEvaluatorOptions(config, &options.common);
    options.score = [](const VectorEvalMonitor& episodes) {
      const std::vector<double> returns = episodes.GetEpisodeReturn();
      return 1000 + *std::min_element(returns.begin(), returns.end());
    };
    DING_ASSIGN_OR_RETURN(auto core, EvalCore::Create(options, env, PoliciesOf(policy), deps));
    return absl::WrapUnique(new HighScoreEvaluator(std::move(core)));
  }

  absl::StatusOr<EvalResult> Eval(const EvalOptions& options) override {
    DING_ASSIGN_OR_RETURN(const EvalCore::Outcome outcome,
                          core()->Eval(options, /*videos=*/nullptr));
    return outcome.ToResult();
  }

 private:
  explicit HighScoreEvaluator(std::unique_ptr<EvalCore> core) : CoreEvaluator(std::move(core)) {}
};

DING_REGISTER(SerialEvaluatorRegistry(), "high_score", HighScoreEvaluator::Create,
              "1000 above the worst of the returns");

// The threads of this process run the config, judged by that evaluator.
InProcessRun RunJudgedByHighScore(const std::string& name, std::vector<std::string> settings) {
  settings.insert(settings.end(),
                  {"policy.eval.evaluator.type=high_score",
                   "policy.other.commander.eval_interval=0.05", "resume.period_seconds=0"});
  const absl::StatusOr<ExperimentConfig> config =
      LoadExperimentConfig(absl::StrCat("worker/configs/", name, ".textproto"), settings);
  EXPECT_THAT(config, IsOk());
  EXPECT_THAT(FindParallelProblems(*config), IsEmpty());
  ComponentDeps deps;
  deps.exp_dir = absl::StrCat(testing::TempDir(), "/", name);
  const std::unique_ptr<Store> store = create_store("mem:").value();
  InProcessTransport transport;
  InProcessRun run = RunInProcess(*config, deps, store.get(), &transport, &transport);
  EXPECT_THAT(run.end, IsOk());
  EXPECT_THAT(run.workers, IsOk());
  const auto& returns = run.status.eval_return();
  EXPECT_EQ(run.status.eval_value(), 1000 + *std::min_element(returns.begin(), returns.end()));
  return run;
}

TEST(OwnWorkersTest, AParallelRun_JudgesByTheScoreOfItsEvaluator) {
  const InProcessRun run = RunJudgedByHighScore("cartpole_dqn_parallel",
                                                {"env.stop_value=1009", "max_train_iter=100000"});
  EXPECT_TRUE(run.status.converged()) << run.status.end_reason();
  EXPECT_THAT(run.status.end_reason(), StartsWith("converged: the score of an evaluation was 1"));
  EXPECT_GE(run.status.confirmation().mean(), 1008);
  EXPECT_EQ(run.status.confirmation().standard_error(), 0) << "it is not known of a score";
  ASSERT_EQ(run.status.best_policy_size(), 1);
  EXPECT_EQ(run.status.best_policy(0).mean_return(), run.status.confirmation().mean());
}

// A mean return is at most 1.
TEST(OwnWorkersTest, ALeague_JudgesByTheScoreOfItsEvaluator) {
  const InProcessRun run = RunJudgedByHighScore(
      "tictactoe_league_parallel",
      {"env.stop_value=999", "env.n_confirm_episode=0", "max_train_iter=100000",
       "env.eval_opponent=[{name:\"random\" evaluator_type:\"TicTacToe-vs-random\" win_return:999},"
       "{name:\"perfect\" evaluator_type:\"TicTacToe-vs-perfect\" win_return:999}]"});
  EXPECT_TRUE(run.status.converged()) << run.status.end_reason();
  EXPECT_THAT(run.status.end_reason(), StartsWith("converged: score "));
  ASSERT_EQ(run.status.best_policy_size(), 1);
  EXPECT_GE(run.status.best_policy(0).mean_return(), 999);
}

TEST(OwnParallelCollectorTest, SendsOnlyLongEpisodes) {
  const std::unique_ptr<EnvManager> envs = CartPoles(4, /*seed=*/5);
  CollectAttributes attributes;
  attributes.n_episode = 1;
  const std::unique_ptr<CollectMode> policy = RandomActions(*envs, attributes);
  FakeLink link;
  link.Publish(/*train_iter=*/7, std::make_shared<StateDict>());
  ParallelCollectorParts parts;
  parts.env = envs.get();
  parts.collect_mode = policy.get();
  parts.link = &link;
  parts.episodes_per_env = 10;
  ParallelCollectorConfig config;
  config.set_type("long_episodes");
  DING_ASSERT_OK_AND_ASSIGN(const auto collector,
                            create_parallel_collector(config, {}, parts, ComponentDeps()));
  ASSERT_THAT(collector->Run(), IsOk());
  std::vector<int64_t> lengths;
  int64_t rows = 0;
  for (const FakeLink::Sent& sent : link.sent()) {
    ASSERT_THAT(ValidateSegments(sent.data), IsOk());
    for (const Segment& segment : sent.data.segments) lengths.push_back(segment.length);
    rows += sent.data.size();
  }
  const CollectorFinishInfo info = collector->GetFinishInfo();
  EXPECT_TRUE(info.collector_done);
  EXPECT_EQ(info.sample_count, rows);
  EXPECT_THAT(lengths, AllOf(Not(testing::IsEmpty()), Each(testing::Ge(20))));
  EXPECT_LT(lengths.size(), info.episode_return.size()) << "short episodes are not sent";
}

}  // namespace
}  // namespace ding
