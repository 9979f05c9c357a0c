// Parallel runs of on-policy policies between the threads of one process: PPO learns with two
// collectors, and a learner that notes what it learns from shows that each row is used once, and
// none that is too old.

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "ding_worker/adapter/learner_aggregator.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/collector/comm/base_comm_collector.h"
#include "ding_worker/collector/core/reward_shaping.h"
#include "ding_worker/coordinator/comm_coordinator.h"
#include "ding_worker/coordinator/coordinator.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/state.h"
#include "ding_worker/interaction/control/worker_session.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/store/store.h"
#include "ding_worker/interaction/store/store_registry.h"
#include "ding_worker/interaction/transport/in_process_transport.h"
#include "ding_worker/learner/async_data_loader.h"
#include "ding_worker/learner/base_learner.h"
#include "ding_worker/learner/comm/base_comm_learner.h"
#include "ding_worker/learner/comm/demand_source.h"
#include "ding_worker/learner/learner.h"
#include "ding_worker/learner/learner.pb.h"
#include "ding_worker/learner/learner_registry.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/worker/config/experiment_config.h"
#include "ding_worker/worker/coordination/parallel_setup.h"
#include "ding_worker/worker/experiment.pb.h"
#include "ding_worker/worker/tasks/configured_collector.h"
#include "ding_worker/worker/tasks/configured_learner.h"
#include "ding_worker/worker/tasks/parallel_problems.h"
#include "ding_worker/worker/testing/in_process_run.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

constexpr absl::Duration kLong = absl::Minutes(4);
constexpr int64_t kRound = 2 * 8 * 16;  // rows, as the config says

// What the learners of a test have learned from.
struct Learned {
  Mutex mutex;
  absl::Duration pause;                 // of each round
  std::atomic<bool> loses_rows{false};  // once, in one learner
  std::vector<int64_t> begun;  // train iterations at the beginnings of rounds, of the last learner
  std::set<int64_t> ids;       // replay_unique_id
  int64_t rows = 0;
  std::map<int, int64_t> parts;  // of these rows, by rank
  int64_t repeated = 0;
  float least_reward = 1e9f;
  std::vector<double> raw_obs;      // those of normalization
  std::vector<double> raw_returns;  // those of scaled rewards
  StateDict model;                  // of the last learner, with statistics
  int64_t largest_round = 0;
  std::map<int64_t, int64_t> rows_by_age;  // in versions; -1: of none of them
};

Learned* learned = nullptr;

class NotingLearner : public BaseLearner {
 public:
  explicit NotingLearner(Parts parts) : BaseLearner(std::move(parts)) {}

  absl::Status Train(const Batch& data, int64_t envstep, const NamedValues& settings) override {
    {
      MutexLock lock(&learned->mutex);
      // The learners of a group begin a round at the same iteration.
      if (learned->begun.empty() || learned->begun.back() != train_iter()) {
        learned->begun.push_back(train_iter());
      }
      learned->parts[group()->rank()] += data.rows();
      learned->rows += data.rows();
      learned->largest_round = std::max(learned->largest_round, data.rows());
      const absl::Span<const int64_t> ids = data.column<int64_t>(kColumnReplayUniqueId);
      // The rows of an episode that is one item have one.
      for (const int64_t id : std::set<int64_t>(ids.begin(), ids.end())) {
        learned->repeated += !learned->ids.insert(id).second;
      }
      for (const float reward : data.column<float>(kColumnReward)) {
        learned->least_reward = std::min(learned->least_reward, reward);
      }
      for (const int64_t iter : data.column<int64_t>(kColumnCollectIter)) {
        int64_t age = static_cast<int64_t>(learned->begun.size()) - 1;
        while (age >= 0 && learned->begun[static_cast<size_t>(age)] != iter) --age;
        ++learned
              ->rows_by_age[age < 0 ? -1 : static_cast<int64_t>(learned->begun.size()) - 1 - age];
      }
    }
    absl::SleepFor(learned->pause);
    DING_RETURN_IF_ERROR(BaseLearner::Train(data, envstep, settings));
    return NoteStatistics(data);
  }

 private:
  absl::Status NoteStatistics(const Batch& data) const;
};

// Notes what statistics are made of, and the learner's statistics.
absl::Status NotingLearner::NoteStatistics(const Batch& data) const {
  if (!data.spec().Find("raw/obs").has_value()) return absl::OkStatus();
  MutexLock lock(&learned->mutex);
  const absl::Span<const float> obs = data.column<float>("raw/obs");
  const absl::Span<const float> returns = data.column<float>("raw_return");
  const size_t width = obs.size() / returns.size();
  for (size_t row = 0; row < returns.size(); ++row) {
    if (data.spec().Find(kColumnMask).has_value() && data.column<uint8_t>(kColumnMask)[row] == 0) {
      continue;
    }
    for (size_t i = 0; i < width; ++i) learned->raw_obs.push_back(obs[row * width + i]);
    learned->raw_returns.push_back(returns[row]);
  }
  learned->model = StateDict();
  return policy()->SaveModel(&learned->model);
}

// Count, mean and sum of squared deviations below `scope` must be those of all rows of `values`.
void ExpectStatistics(StateDict* model, const std::string& scope, const std::vector<double>& values,
                      size_t width) {
  const double rows = static_cast<double>(values.size() / width);
  EXPECT_EQ(model->ReadInt(absl::StrCat(scope, "/count")).value(), static_cast<int64_t>(rows));
  std::vector<double> mean(width), squares(width), found_mean(width), found_squares(width);
  for (size_t i = 0; i < values.size(); ++i) mean[i % width] += values[i] / rows;
  for (size_t i = 0; i < values.size(); ++i) {
    squares[i % width] += (values[i] - mean[i % width]) * (values[i] - mean[i % width]);
  }
  ASSERT_THAT(model->ReadSpan(absl::StrCat(scope, "/mean"), absl::MakeSpan(found_mean)), IsOk());
  ASSERT_THAT(
      model->ReadSpan(absl::StrCat(scope, "/sum_of_squares"), absl::MakeSpan(found_squares)),
      IsOk());
  for (size_t i = 0; i < width; ++i) {
    EXPECT_NEAR(found_mean[i], mean[i], 1e-9 * (1 + std::abs(mean[i]))) << scope << " " << i;
    EXPECT_NEAR(found_squares[i], squares[i], 1e-9 * (1 + squares[i])) << scope << " " << i;
  }
}

DING_REGISTER(
    LearnerRegistry(), "noting",
    [](const LearnerConfig& config, LearnMode* policy, const ComponentDeps& deps,
       ProcessGroup* group) -> absl::StatusOr<std::unique_ptr<ILearner>> {
      DING_ASSIGN_OR_RETURN(BaseLearner::Parts parts,
                            ReadBaseLearnerParts(config, policy, deps, group));
      return std::make_unique<NotingLearner>(std::move(parts));
    },
    "notes what it learns from");

// Loses the rows of its third batch if the test says so.
class LosingLearner : public BaseCommLearner {
 public:
  using BaseCommLearner::BaseCommLearner;

 protected:
  absl::StatusOr<std::optional<BatchLoader>> GetData(DemandSource* source) override {
    DING_ASSIGN_OR_RETURN(std::optional<BatchLoader> load, BaseCommLearner::GetData(source));
    if (!load.has_value() || ++batches_ != 3 || !learned->loses_rows.exchange(false)) return load;
    return [load = *std::move(load)]() -> absl::StatusOr<TrainData> {
      DING_ASSIGN_OR_RETURN(const TrainData data, load());
      return TrainData(Batch(), data.envstep);
    };
  }

 private:
  int batches_ = 0;
};

class OnPolicyRunTest : public testing::Test {
 protected:
  OnPolicyRunTest() { learned = &learned_; }

  static ExperimentConfig Config(std::vector<std::string> settings,
                                 const std::string& name = "cartpole_ppo_parallel") {
    settings.insert(settings.begin(), "policy.learn.learner.type=noting");
    return LoadExperimentConfig(absl::StrCat("worker/configs/", name, ".textproto"), settings)
        .value();
  }
  absl::StatusOr<CoordinatorParts> Make(const ExperimentConfig& config) {
    return MakeCoordinator(config, "run-1", deps(), store_.get(), comm_.get(), /*journal=*/nullptr);
  }
  ComponentDeps deps() const {
    ComponentDeps deps;
    deps.exp_dir = absl::StrCat(testing::TempDir(), "/on_policy");
    return deps;
  }
  // Runs it to its end. `learner`: the config of the learner, if it is another one.
  void Run(const ExperimentConfig& config, int collectors = 2) { Run(config, collectors, config); }
  void Run(const ExperimentConfig& config, int collectors, const ExperimentConfig& learner);

  InProcessTransport transport_;
  const std::unique_ptr<Store> store_ = create_store("mem:").value();
  const std::unique_ptr<CommCoordinator> comm_ =
      CommCoordinator::Create(InProcessCommOptions(), &transport_).value();
  Learned learned_;
  BufferStatus buffer_;
  RunStatus status_;
  Coordinator::Counters counters_;
};

void OnPolicyRunTest::Run(const ExperimentConfig& config, int collectors,
                          const ExperimentConfig& learner) {
  ASSERT_THAT(FindParallelProblems(config), IsEmpty());
  DING_ASSERT_OK_AND_ASSIGN(const CoordinatorParts parts, Make(config));
  parts.coordinator->Start();
  ASSERT_THAT(comm_->Start(parts.coordinator.get()), IsOk());
  const auto make_collector = [&](WorkerSession* session) {
    return std::make_unique<BaseCommCollector>(session, store_.get(),
                                               MakeTaskCollectorFactory(config, deps()));
  };
  const auto make_learner = [&](WorkerSession* session) {
    return std::make_unique<LosingLearner>(MakeCommLearnerOptions(learner), session, store_.get(),
                                           MakeTaskLearnerFactory(learner, deps()));
  };
  std::vector<std::unique_ptr<WorkerThread>> workers;
  for (int i = 0; i < collectors; ++i) {
    workers.push_back(std::make_unique<WorkerThread>(
        Hello::COLLECTOR, absl::StrCat("collector-", i), &transport_, make_collector));
  }
  const int learners = config.policy().learn().learner_num();
  const std::string address = learners > 1 ? "learners" : kInProcessAddress;
  if (learners > 1) {
    workers.push_back(std::make_unique<WorkerThread>(
        Hello::LEARNER, "aggregator-0", &transport_, [&](WorkerSession* session) {
          LearnerAggregator::Options options;
          options.learner_num = learners;
          options.server.address = address;
          return LearnerAggregator::Create(options, session, &transport_).value();
        }));
  }
  for (int i = 0; i < learners; ++i) {
    workers.push_back(std::make_unique<WorkerThread>(Hello::LEARNER, absl::StrCat("learner-", i),
                                                     &transport_, make_learner, address));
  }
  EXPECT_THAT(parts.coordinator->WaitUntilDone(kLong), IsOk());
  ASSERT_EQ(parts.coordinator->status().buffer_size(), 1);
  buffer_ = parts.coordinator->status().buffer(0);
  EXPECT_THAT(EndInProcessRun(parts.coordinator.get(), comm_.get()), IsOk());
  for (const auto& worker : workers) EXPECT_THAT(worker->Join(), IsOk());
  status_ = parts.coordinator->status();
  counters_ = parts.coordinator->counters();
  EXPECT_THAT(store_->List("").value(), IsEmpty());
}

// The bar of the config is 475 within 200,000 env steps.
TEST_F(OnPolicyRunTest, PpoLearnsWithTwoCollectors) {
  Run(Config({"env.stop_value=195"}));
  EXPECT_TRUE(status_.converged()) << status_.eval_value();
  EXPECT_LE(status_.envstep(), 200000);
  EXPECT_EQ(learned_.repeated, 0);
  EXPECT_EQ(learned_.rows, static_cast<int64_t>(learned_.ids.size()));
  EXPECT_LT(learned_.largest_round, 2 * kRound);
  for (const auto& [age, rows] : learned_.rows_by_age) {
    EXPECT_TRUE(age == 0 || age == 1) << rows << " rows of age " << age;
  }
  // Each row that was acknowledged was learned from, was too old, or is one of those that were left
  // at the end.
  EXPECT_LE(learned_.rows + buffer_.too_old_count(), counters_.rows_pushed);
  EXPECT_GE(learned_.rows + buffer_.too_old_count() + 4 * kRound, counters_.rows_acknowledged);
  EXPECT_LT(buffer_.too_old_count(), counters_.rows_pushed / 10) << "collectors wait instead";
}

// Two learners learn from each round together, each from its half. A row that is lost, or learned
// from by both, shows in the counts.
TEST_F(OnPolicyRunTest, TwoLearnersShareTheRounds) {
  Run(Config({"env.stop_value=195", "policy.learn.learner_num=2"}));
  EXPECT_TRUE(status_.converged()) << status_.eval_value();
  EXPECT_LE(status_.envstep(), 200000);
  EXPECT_EQ(learned_.repeated, 0);
  EXPECT_EQ(learned_.rows, static_cast<int64_t>(learned_.ids.size()));
  const auto rounds = static_cast<int64_t>(learned_.begun.size());
  ASSERT_EQ(learned_.parts.size(), 2u);
  EXPECT_LE(std::abs(learned_.parts[0] - learned_.parts[1]), rounds + kRound);
  EXPECT_GE(learned_.rows + buffer_.too_old_count() + kRound, rounds * kRound);
  // A step for each minibatch of 64 rows of both learners together, as with one learner.
  EXPECT_NEAR(static_cast<double>(status_.train_iter()),
              4.0 * static_cast<double>(learned_.rows) / 64, 4.0 * static_cast<double>(rounds));
  for (const auto& [age, rows] : learned_.rows_by_age) {
    EXPECT_TRUE(age == 0 || age == 1) << rows << " rows of age " << age;
  }
  EXPECT_LE(learned_.rows + buffer_.too_old_count(), counters_.rows_pushed);
  EXPECT_GE(learned_.rows + buffer_.too_old_count() + 4 * kRound, counters_.rows_acknowledged);
}

// Without a generation that ends, each of the two would wait for the other one.
TEST_F(OnPolicyRunTest, ALearnerThatCanReadNothingOfItsPartGoesOnWithTheNextRound) {
  learned_.loses_rows = true;
  const absl::Time begin = absl::Now();
  Run(Config({"max_train_iter=160", "policy.learn.learner_num=2"}));
  EXPECT_FALSE(learned_.loses_rows);
  EXPECT_GE(status_.train_iter(), 160);
  EXPECT_LT(absl::Now() - begin, absl::Seconds(25)) << "sooner than all_reduce_timeout";
}

TEST_F(OnPolicyRunTest, CollectorsThatAreFasterThanTheLearnerWait) {
  learned_.pause = absl::Milliseconds(50);
  Run(Config({"max_train_iter=240", "env.collector_episode_num=1000"}));
  EXPECT_EQ(learned_.repeated, 0);
  for (const auto& [age, rows] : learned_.rows_by_age) {
    EXPECT_TRUE(age == 0 || age == 1) << rows << " rows of age " << age;
  }
  const auto rounds = static_cast<int64_t>(learned_.begun.size());
  EXPECT_GE(rounds, 15);
  // Beside what is learned from, a round is there and a round is being collected.
  EXPECT_LE(counters_.rows_pushed, (rounds + 3) * kRound);
  // A task may begin with the version before.
  EXPECT_LT(buffer_.too_old_count(), counters_.rows_pushed / 4);
}

TEST_F(OnPolicyRunTest, WithoutAgeAllRowsAreOfTheNewestVersion) {
  Run(Config({"max_train_iter=160", "policy.learn.max_data_age=0"}));
  EXPECT_GE(status_.train_iter(), 160);
  ASSERT_EQ(learned_.rows_by_age.size(), 1u);
  EXPECT_EQ(learned_.rows_by_age.begin()->first, 0);
}

// The coordinator lets collectors be three rounds ahead of a learner that wants rows of the newest
// version only.
TEST_F(OnPolicyRunTest, RowsThatAreTooOldAreNotLearnedFrom) {
  learned_.pause = absl::Milliseconds(5);
  Run(Config({"max_train_iter=160", "policy.learn.max_data_age=3"}), /*collectors=*/2,
      Config({"policy.learn.max_data_age=0"}));
  EXPECT_GE(status_.train_iter(), 160);
  EXPECT_GT(buffer_.too_old_count(), 0);
  ASSERT_EQ(learned_.rows_by_age.size(), 1u);
  EXPECT_EQ(learned_.rows_by_age.begin()->first, 0);
}

// A round is of two collectors' hand-overs, and one of them never comes.
TEST_F(OnPolicyRunTest, OneCollectorFillsTheRoundsOfTwo) {
  Run(Config({"max_train_iter=160"}), /*collectors=*/1);
  EXPECT_GE(status_.train_iter(), 160);
  EXPECT_EQ(learned_.repeated, 0);
  EXPECT_LT(learned_.largest_round, 2 * kRound);
}

TEST_F(OnPolicyRunTest, A2cTakesAStepForEachRound) {
  Run(Config({"max_train_iter=30", "policy.type=a2c",
              "policy.params={[type.googleapis.com/ding.A2cConfig]{actor_critic{"
              "model{encoder_hidden_size:16} critic{encoder_hidden_size:16}}}}"}));
  EXPECT_GE(status_.train_iter(), 30);
  EXPECT_EQ(status_.train_iter(), static_cast<int64_t>(learned_.begun.size()));
}

absl::Status GiveSeven(int /*env_id*/, const ColumnsView& /*rows*/, absl::Span<float> rewards) {
  std::fill(rewards.begin(), rewards.end(), 7.0f);
  return absl::OkStatus();
}
DING_REGISTER(RewardShapingRegistry(), "seven", GiveSeven, "makes each reward 7");

std::vector<std::string> Episodes(const std::string& shaping) {
  return {
      "max_train_iter=80",
      absl::StrCat("policy.collect={n_episode:8 collector{type:\"episode\" collector_num:2 params{"
                   "[type.googleapis.com/ding.EpisodeCollectorParams]{get_train_sample:true "
                   "reward_shaping:\"",
                   shaping, "\"}}}}")};
}

TEST_F(OnPolicyRunTest, RoundsOfWholeEpisodes) {
  Run(Config(Episodes("")));
  EXPECT_GE(status_.train_iter(), 80);
  EXPECT_EQ(learned_.repeated, 0) << "episodes";
  const auto rounds = static_cast<int64_t>(learned_.begun.size());
  // Each round is of 8 episodes or more, of which those are left out that are too old.
  EXPECT_GE(static_cast<int64_t>(learned_.ids.size()) + buffer_.too_old_count(), 8 * rounds);
  EXPECT_LT(static_cast<int64_t>(learned_.ids.size()), 16 * rounds);
  EXPECT_GT(learned_.rows, 8 * static_cast<int64_t>(learned_.ids.size())) << "their rows";
  for (const auto& [age, rows] : learned_.rows_by_age) {
    EXPECT_TRUE(age == 0 || age == 1) << rows << " rows of age " << age;
  }
  EXPECT_EQ(learned_.least_reward, 1);
}

TEST_F(OnPolicyRunTest, RewardsAreShaped) {
  Run(Config(Episodes("seven")));
  EXPECT_GE(status_.train_iter(), 80);
  EXPECT_EQ(learned_.least_reward, 7);
}

// The rows that were learned from are counted once, whichever collector they came from.
TEST_F(OnPolicyRunTest, StatisticsAreThoseOfTheRowsThatWereLearnedFrom) {
  Run(Config({"max_train_iter=160",
              "policy.params={[type.googleapis.com/ding.PpoConfig]{actor_critic{normalize_obs:true "
              "scale_reward:true model{encoder_hidden_size:16}} epoch_per_collect:2}}"}));
  EXPECT_GE(status_.train_iter(), 160);
  ASSERT_GT(learned_.raw_returns.size(), 500u);
  ExpectStatistics(&learned_.model, "model/statistics/obs", learned_.raw_obs, 4);
  ExpectStatistics(&learned_.model, "model/return_statistics", learned_.raw_returns, 1);
}

// Parts of different sizes, because an episode is not divided; and the statistics of both are those
// of all rows.
TEST_F(OnPolicyRunTest, TwoLearnersShareRoundsOfEpisodesAndTheirStatistics) {
  std::vector<std::string> settings = Episodes("");
  settings.emplace_back("policy.learn.learner_num=2");
  settings.emplace_back(
      "policy.params={[type.googleapis.com/ding.PpoConfig]{actor_critic{normalize_obs:true "
      "scale_reward:true model{encoder_hidden_size:16}} epoch_per_collect:2}}");
  Run(Config(settings));
  EXPECT_GE(status_.train_iter(), 80);
  EXPECT_EQ(learned_.repeated, 0) << "episodes";
  EXPECT_EQ(learned_.parts.size(), 2u);
  ExpectStatistics(&learned_.model, "model/statistics/obs", learned_.raw_obs, 4);
  ExpectStatistics(&learned_.model, "model/return_statistics", learned_.raw_returns, 1);
}

// Samples of 8 rows with the recurrent state of their first one; shorter ones are padded.
TEST_F(OnPolicyRunTest, ARecurrentPolicyLearnsFromSamples) {
  Run(Config({"max_train_iter=60", "policy.collect.n_sample=32", "policy.collect.unroll_len=8",
              "policy.params={[type.googleapis.com/ding.PpoConfig]{actor_critic{"
              "model{type:\"rnn\" recurrent{hidden_size:8}}} epoch_per_collect:2}}",
              "policy.learn.batch_size=8"}));
  EXPECT_GE(status_.train_iter(), 60);
  EXPECT_LT(learned_.largest_round, 2 * kRound);
}

TEST_F(OnPolicyRunTest, WhatHasNoEffectIsRefused) {
  const auto expect = [this](const std::string& setting, const std::string& sentence,
                             const std::string& name = "cartpole_ppo_parallel") {
    const ExperimentConfig config = Config({setting}, name);
    EXPECT_THAT(FindParallelProblems(config), IsEmpty()) << setting;
    EXPECT_THAT(Make(config), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(sentence)));
  };
  const std::string no_effect = ", which has no effect in a parallel run whose policy is on-policy";
  expect("policy.other.replay_buffer.replay_buffer_size=77",
         absl::StrCat("policy.other.replay_buffer.replay_buffer_size is 77", no_effect));
  expect("policy.other.replay_buffer.replay_ratio.min=2",
         absl::StrCat("policy.other.replay_buffer.replay_ratio.min is 2", no_effect));
  expect("policy.random_collect_size=100",
         absl::StrCat("policy.random_collect_size is 100", no_effect));
  expect("policy.learn.send_policy_freq=3", "the policy is published after each round");
  expect("policy.learn.prefetch_batches=3", "a round is drawn when it is learned from");
  expect("policy.learn.loader_threads=3", "a round is drawn when it is learned from");
  expect("policy.collect={n_sample:600 unroll_len:600 last_sample:DROP collector{collector_num:2}}",
         "policy.collect.unroll_len is 600, but an episode of the env ends after 500 steps");
  expect(
      "policy.learn.max_data_age=3",
      "policy.learn.max_data_age is 3, which has no effect in a parallel run: leave it out; it is "
      "for on-policy policies",
      "cartpole_dqn_parallel_fast");
  std::vector<std::string> episodes = Episodes("");
  episodes.push_back("policy.collect.unroll_len=8");
  EXPECT_THAT(
      Make(Config(episodes)),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("policy.collect.unroll_len is 8 beside policy.collect.n_episode")));
  EXPECT_THAT(Make(Config({"policy.learn.batch_size=512", "policy.learn.learner_num=300"})),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("policy.learn.learner_num is 300, but a round is "
                                 "policy.collect.n_sample 256: expected as many or more")));
}

}  // namespace
}  // namespace ding
