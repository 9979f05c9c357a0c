// What serial collectors and their core do with targets, players and ids that nobody should give
// them. Run it with AddressSanitizer and UndefinedBehaviorSanitizer, too.
#include <cstdint>
#include <limits>
#include <memory>
#include <stdexcept>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/collector/core/collect_core.h"
#include "ding_worker/collector/serial/serial_collectors.h"
#include "ding_worker/collector/serial_collector.h"
#include "ding_worker/collector/testing/fake_env_manager.h"
#include "ding_worker/collector/testing/fake_policy.h"
#include "ding_worker/collector/testing/serial_parts.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/extreme_numbers.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/env/env_wrapper.h"
#include "ding_worker/metrics/sink.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::HasSubstr;

constexpr int kMinInt = std::numeric_limits<int>::min();
constexpr int kMaxInt = std::numeric_limits<int>::max();
constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

class CollectMisuse : public testing::Test, protected SerialParts {
 protected:
  CollectMisuse() : SerialParts({}, {}, "c") {}

  static CollectOptions Target(int64_t target) {
    CollectOptions options;
    options.target = target;
    return options;
  }
  std::unique_ptr<CollectCore> MakeCore() {
    CollectCore::Options options;
    options.whole_episodes = true;
    return CollectCore::Create(options, &envs, {&policy}, deps).value();
  }
};

TEST_F(CollectMisuse, Collect_TargetsOutOfRange_AreRefused) {
  const auto samples = Make<SampleSerialCollector>({});
  const auto episodes = Make<EpisodeSerialCollector>({});
  for (const int64_t target : {int64_t{0}, int64_t{-1}, kMin, kMax, kMax - 1, int64_t{1} << 62}) {
    EXPECT_THAT(samples->Collect(Target(target)),
                StatusIs(kInvalid, HasSubstr("asked to collect")));
    EXPECT_THAT(episodes->Collect(Target(target)),
                StatusIs(kInvalid, HasSubstr("asked to collect")));
  }
  EXPECT_THAT(samples->Collect(Target(3)), IsOk());
}

TEST_F(CollectMisuse, Collect_IterationsAtTheEndsOfTheType_DoNotOverflow) {
  SampleSerialCollector::Options options;
  options.collect_print_freq = kMax;
  const auto collector = Make<SampleSerialCollector>(options);
  for (const int64_t iter : {kMin, kMax, kMin, int64_t{0}}) {
    CollectOptions now = Target(6);
    now.train_iter = iter;
    EXPECT_THAT(collector->Collect(now), IsOk()) << iter;
  }
}

TEST_F(CollectMisuse, Create_UnrollLenOutOfRange_IsRefused) {
  for (const int64_t length : {int64_t{0}, int64_t{-1}, kMin}) {
    CollectAttributes attributes;
    attributes.unroll_len = length;
    FakePolicy other(attributes);
    EXPECT_THAT(SampleSerialCollector::Create({}, &envs, &other, deps),
                StatusIs(kInvalid, HasSubstr("unroll_len")));
  }
  CollectAttributes attributes;
  attributes.unroll_len = kMax;
  FakePolicy other(attributes);
  DING_ASSERT_OK_AND_ASSIGN(const auto collector,
                            SampleSerialCollector::Create({}, &envs, &other, deps));
  EXPECT_THAT(collector->Collect(Target(3)), IsOk()) << "the ends of episodes end samples";
}

TEST_F(CollectMisuse, DropEpisodesAndLevelSeeds_OutOfRange_AreRefused) {
  const auto collector = Make<SampleSerialCollector>({});
  for (const int id : {-1, 3, kMinInt, kMaxInt}) {
    EXPECT_THAT(collector->DropEpisodes({id}), StatusIs(kInvalid)) << id;
  }
  CollectOptions options = Target(3);
  options.level_seeds = {1, 2};
  EXPECT_THAT(collector->Collect(options), StatusIs(kInvalid, HasSubstr("level seeds")));
}

TEST_F(CollectMisuse, Core_PlayersRowsAndEnvsOutOfRange_AreRefused) {
  const std::unique_ptr<CollectCore> core = MakeCore();
  for (const int player : {-1, 1, kMinInt, kMaxInt}) {
    SegmentBatch data;
    EXPECT_THAT(core->Take(player, 1, {}), StatusIs(kInvalid, HasSubstr("there is no player")));
    EXPECT_THAT(core->MakeTrainSamples(player, &data), StatusIs(kInvalid));
    EXPECT_THAT(core->TakeTrainSamples(player), StatusIs(kInvalid));
    EXPECT_DEATH((void)core->ready_rows(player), "there is no player");
    EXPECT_DEATH((void)core->attributes(player), "there is no player");
    EXPECT_DEATH(core->DropHeldRowsIfOnPolicy(player), "there is no player");
  }
  for (const int64_t rows : {int64_t{-1}, kMin}) {
    EXPECT_THAT(core->Take(0, rows, {}), StatusIs(kInvalid, HasSubstr("at most")));
  }
  EXPECT_THAT(core->Reserve(kMax), StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(core->Reserve(kMin), IsOk());
  const RewardShaping none = [](int, const ColumnsView&, absl::Span<float>) {
    return absl::OkStatus();
  };
  for (const int env : {0, -1, 3, kMinInt, kMaxInt}) {
    EXPECT_THAT(core->ReshapeRewards(env, none), StatusIs(absl::StatusCode::kFailedPrecondition));
  }
}

TEST_F(CollectMisuse, Core_ActingRowsOutOfRange_AreRefused) {
  const std::unique_ptr<CollectCore> core = MakeCore();
  const ReadyObs ready = envs.ready_obs();
  const auto step = [&](absl::Span<const int> ids, absl::Span<const int64_t> rows) {
    return core->StepEnvs(ActingEnvs(ids, ready.obs, rows), {}, [](int) { return true; }).status();
  };
  EXPECT_THAT(step({0}, {3}), StatusIs(kInvalid));
  EXPECT_THAT(step({0}, {-1}), StatusIs(kInvalid));
  EXPECT_THAT(step({0}, {kMax}), StatusIs(kInvalid));
  EXPECT_THAT(step({0, 1}, {0}), StatusIs(kInvalid));
  EXPECT_THAT(step({0}, {}), StatusIs(kInvalid)) << "three observations for one env";
  EXPECT_THAT(step({7}, {0}), testing::Not(IsOk()));
  EXPECT_THAT(step({0}, {0}), IsOk());
}

TEST_F(CollectMisuse, PolicyThatThrows_IsAnError) {
  const auto collector = Make<SampleSerialCollector>({});
  policy.on_train_sample = [](SegmentBatch*) { throw std::runtime_error("no samples"); };
  EXPECT_THAT(collector->Collect(Target(3)),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("no samples")));
}

// Throws at its third step.
class ThrowingManager : public EnvManagerWrapper {
 public:
  using EnvManagerWrapper::EnvManagerWrapper;
  absl::StatusOr<const Timesteps*> Step(absl::Span<const int> env_ids,
                                        const ColumnsView& actions) override {
    if (++steps_ == 3) throw std::runtime_error("no envs");
    return EnvManagerWrapper::Step(env_ids, actions);
  }

 private:
  int steps_ = 0;
};

TEST_F(CollectMisuse, EnvManagerThatThrows_IsAnError) {
  const auto throws = [] {
    return std::make_unique<ThrowingManager>(
        std::make_unique<FakeEnvManager>(FakeEnvManager::Options()));
  };
  const auto is_error = StatusIs(absl::StatusCode::kInternal,
                                 HasSubstr("the env manager threw an exception: no envs"));
  auto manager = throws();
  DING_ASSERT_OK_AND_ASSIGN(const auto samples,
                            SampleSerialCollector::Create({}, manager.get(), &policy, deps));
  EXPECT_THAT(samples->Collect(Target(300)), is_error);
  auto other = throws();
  DING_ASSERT_OK_AND_ASSIGN(const auto episodes,
                            EpisodeSerialCollector::Create({}, other.get(), &policy, deps));
  EXPECT_THAT(episodes->Collect(Target(300)), is_error);
}

TEST_F(CollectMisuse, MetricSinkThatThrows_LosesMetricsOnly) {
  class ThrowingSink : public NullSink {
   public:
    void Scalar(absl::string_view, int64_t, double) override { throw std::runtime_error("full"); }
  };
  deps.metrics = std::make_shared<ThrowingSink>();
  const auto collector = Make<SampleSerialCollector>({});
  EXPECT_THAT(collector->Collect(Target(3)), IsOk());
}

TEST_F(CollectMisuse, SavedCounts_NearTheEndOfTheType_AreRefused) {
  const auto collector = Make<SampleSerialCollector>({});
  StateDict saved;
  ASSERT_THAT(collector->SaveState(&saved), IsOk());
  ForEachExtremeNumber(saved, [&](StateDict* damaged) {
    // Seeds may be any number.
    if (collector->LoadState(damaged).ok()) {
      EXPECT_THAT(collector->Collect(Target(3)), IsOk());
    }
  });
  for (const char* const name :
       {"envstep", "total_episode_count", "total_train_sample_count", "env_samples"}) {
    for (const int64_t count : {int64_t{-1}, kMax}) {
      TensorMap tensors;
      for (const auto& [key, tensor] : saved.tensors()) tensors.Set(key, tensor.Clone());
      ASSERT_NE(tensors.FindMutable(name), nullptr) << name;
      tensors.FindMutable(name)->mutable_data<int64_t>()[0] = count;
      StateDict damaged(std::move(tensors), "damaged");
      EXPECT_THAT(collector->LoadState(&damaged), StatusIs(kInvalid)) << name;
    }
  }
}

}  // namespace
}  // namespace ding
