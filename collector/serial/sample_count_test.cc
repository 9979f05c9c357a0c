// Tests of what SampleSerialCollector counts if a sample has several rows
// (CollectAttributes::unroll_len). A naive count computes the expected numbers from the recorded
// steps of the fake envs.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/collector/serial/serial_collectors.h"
#include "ding_worker/collector/serial_collector.h"
#include "ding_worker/collector/testing/fake_env_manager.h"
#include "ding_worker/collector/testing/fake_policy.h"
#include "ding_worker/collector/testing/serial_parts.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/state.h"
#include "ding_worker/policy/policy.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using End = FakeEnvManager::End;
using Episode = FakeEnvManager::Episode;
using Event = FakeEnvManager::Event;
using testing::ElementsAre;
using testing::HasSubstr;

CollectOptions Samples(int64_t target) {
  CollectOptions options;
  options.target = target;
  return options;
}

CollectAttributes SamplesOf(int64_t unroll_len, bool on_policy = false) {
  CollectAttributes attributes;
  attributes.unroll_len = unroll_len;
  attributes.on_policy = on_policy;
  return attributes;
}

struct Fixture : SerialParts {
  Fixture(FakeEnvManager::Options env_options, const CollectAttributes& attributes)
      : SerialParts(std::move(env_options), attributes, "c") {
    SampleSerialCollector::Options options;
    options.max_abnormal = 1000;
    collector = Make<SampleSerialCollector>(options);
  }

  // Returns the number of rows of a collect.
  int64_t Rows(int64_t target) {
    const absl::StatusOr<SegmentBatch> data = collector->Collect(Samples(target));
    EXPECT_THAT(data, IsOk());
    return data.ok() ? data->size() : -1;
  }

  std::unique_ptr<SampleSerialCollector> collector;
};

bool Ended(const Event& event) { return event.terminated || event.truncated; }

// Counts the samples of the rows that one collect can return.
class NaiveCount {
 public:
  NaiveCount(int64_t unroll_len, bool on_policy, bool whole_episodes)
      : unroll_len_(unroll_len), on_policy_(on_policy), whole_episodes_(whole_episodes) {}

  void Add(const Event& event) {
    if (!event.abnormal) {
      rows_.push_back(event);
      return;
    }
    const auto gone = [&](const Event& row) { return SameEpisode(row, event); };
    rows_.erase(std::remove_if(rows_.begin(), rows_.end(), gone), rows_.end());
  }

  std::vector<Event> Ready() const {
    std::vector<Event> ready;
    for (const Event& row : rows_) {
      const auto ends = [&](const Event& other) { return SameEpisode(row, other) && Ended(other); };
      if (!whole_episodes_ || std::any_of(rows_.begin(), rows_.end(), ends)) ready.push_back(row);
    }
    return ready;
  }

  int64_t Count() const {
    int64_t samples = 0;
    for (const Event& row : Ready()) {
      // An on-policy policy begins anew with the first row of this episode in this collect.
      float first = on_policy_ ? row.obs[2] : 0;
      for (const Event& other : rows_) {
        if (on_policy_ && SameEpisode(row, other)) first = std::min(first, other.obs[2]);
      }
      const auto number = static_cast<int64_t>(row.obs[2] - first) + 1;
      if (number % unroll_len_ == 0 || Ended(row)) ++samples;
    }
    return samples;
  }

  void EndCollect() {
    const std::vector<Event> ready = Ready();
    const auto taken = [&](const Event& row) {
      return on_policy_ || std::any_of(ready.begin(), ready.end(), [&](const Event& other) {
               return SameEpisode(row, other) && row.obs[2] == other.obs[2];
             });
    };
    rows_.erase(std::remove_if(rows_.begin(), rows_.end(), taken), rows_.end());
  }

 private:
  static bool SameEpisode(const Event& a, const Event& b) {
    return a.env_id == b.env_id && a.obs[1] == b.obs[1];
  }

  const int64_t unroll_len_;
  const bool on_policy_;
  const bool whole_episodes_;
  std::vector<Event> rows_;  // since the last collect
};

struct Case {
  std::string name;
  bool on_policy = false;
  bool whole_episodes = false;
  bool late = false;
};

class NaiveCountTest : public testing::TestWithParam<Case> {};

TEST_P(NaiveCountTest, ACollectEndsWithTheLastSampleOfANaiveCount) {
  const Case& param = GetParam();
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const int64_t unroll_len = 1 + static_cast<int64_t>(seed) % 5;
    SCOPED_TRACE(absl::StrCat("seed ", seed, ", unroll_len ", unroll_len));
    FakeEnvManager::Options env_options = RandomEnvs(/*env_num=*/4, seed, /*max_length=*/9, 0.15);
    env_options.subsets = param.late;
    env_options.late = param.late;
    CollectAttributes attributes = SamplesOf(unroll_len, param.on_policy);
    attributes.traj_len_inf = param.whole_episodes;
    Fixture fixture(env_options, attributes);
    NaiveCount naive(unroll_len, param.on_policy, param.whole_episodes);
    Rng rng(seed, "targets");
    int64_t total = 0;
    size_t seen = 0;
    for (int collect = 0; collect < 12; ++collect) {
      SCOPED_TRACE(absl::StrCat("collect ", collect));
      CollectOptions options = Samples(1 + static_cast<int64_t>(rng.UniformInt(9)));
      options.drop_extra = unroll_len > 1;
      DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch data, fixture.collector->Collect(options));
      const std::vector<Event>& events = fixture.envs.events();
      for (; seen < events.size(); ++seen) {
        const bool new_call = seen == 0 || events[seen].call != events[seen - 1].call;
        if (new_call) {
          EXPECT_LT(naive.Count(), *options.target) << "collected too much";
        }
        naive.Add(events[seen]);
      }
      EXPECT_GE(naive.Count(), *options.target);
      EXPECT_EQ(data.size(), static_cast<int64_t>(naive.Ready().size())) << "some rows are missing";
      total += naive.Count();
      EXPECT_EQ(fixture.collector->total_train_sample_count(), total);
      naive.EndCollect();
      if (HasFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, NaiveCountTest,
                         testing::Values(Case{"OffPolicy"}, Case{"OnPolicy", true},
                                         Case{"OffPolicyLate", false, false, true},
                                         Case{"OnPolicyLate", true, false, true},
                                         Case{"WholeEpisodes", false, true, true},
                                         Case{"WholeEpisodesOnPolicy", true, true}),
                         [](const testing::TestParamInfo<Case>& info) { return info.param.name; });

FakeEnvManager::Options OneEnv(std::vector<int64_t> lengths) {
  return WithScript(1, [lengths](int, int64_t episode) {
    return Episode{lengths[static_cast<size_t>(episode) % lengths.size()], End::kTerminated};
  });
}

TEST(SampleCountTest, ADroppedEpisodeHasNoRestThatCounts) {
  Fixture fixture(OneEnv({100}), SamplesOf(4));
  EXPECT_EQ(fixture.Rows(1), 4);
  fixture.policy.on_forward = [&](absl::Span<const int>) {
    return fixture.policy.rows == 6 ? absl::InternalError("scripted") : absl::OkStatus();
  };
  EXPECT_THAT(fixture.collector->Collect(Samples(1)),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("scripted")));
  fixture.policy.on_forward = nullptr;
  // The failed step has dropped the two rows that were made, and the env begins another episode.
  ASSERT_THAT(fixture.collector->ResetEnv(nullptr), IsOk());
  EXPECT_EQ(fixture.Rows(2), 8);
  EXPECT_EQ(fixture.Rows(1), 4);
  ASSERT_THAT(fixture.collector->DropEpisodes({0}), IsOk());
  EXPECT_EQ(fixture.Rows(1), 4);
  EXPECT_EQ(fixture.collector->total_train_sample_count(), 5);
}

TEST(SampleCountTest, UnfinishedSamplesAreForgottenWhenEpisodesAreDropped) {
  for (const bool reset : {false, true}) {
    SCOPED_TRACE(reset);
    const auto script = [](int env_id, int64_t) {
      return Episode{env_id == 0 ? 2 : 100, End::kTerminated};
    };
    Fixture fixture(WithScript(2, script), SamplesOf(4));
    EXPECT_EQ(fixture.Rows(1), 4);  // Env 1 has two rows of four.
    if (reset) {
      ASSERT_THAT(fixture.collector->ResetEnv(nullptr), IsOk());
    } else {
      ASSERT_THAT(fixture.collector->DropEpisodes({1}), IsOk());
    }
    EXPECT_EQ(fixture.Rows(3), 8)
        << "two ends in env 0, and with the second one four rows in env 1";
  }
}

TEST(SampleCountTest, MetricsAndTotalsCountSamples) {
  Fixture fixture(OneEnv({7}), SamplesOf(3));
  CollectOptions options = Samples(6);
  options.train_iter = 1000;
  DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch data, fixture.collector->Collect(options));
  EXPECT_EQ(data.size(), 14);
  const auto logged = [&](const std::string& metric) {
    return fixture.sink->ValuesOf(absl::StrCat("c_iter/", metric));
  };
  EXPECT_THAT(logged("train_sample_count"), ElementsAre(6));
  EXPECT_THAT(logged("avg_sample_per_episode"), ElementsAre(3));
  EXPECT_THAT(logged("total_train_sample_count"), ElementsAre(6));
}

TEST(SampleCountTest, AResumedCollectorReturnsTheSameAsOneThatWentOn) {
  for (const bool on_policy : {false, true}) {
    for (const bool whole_episodes : {false, true}) {
      SCOPED_TRACE(absl::StrCat("on_policy ", on_policy, ", whole episodes ", whole_episodes));
      CollectAttributes attributes = SamplesOf(4, on_policy);
      attributes.traj_len_inf = whole_episodes;
      FakeEnvManager::Options env_options = RandomEnvs(3, /*seed=*/5, /*max_length=*/11, 0.1);
      env_options.subsets = true;
      Fixture straight(env_options, attributes);
      for (int i = 0; i < 15; ++i) {
        StateDict state = straight.Save(*straight.collector);
        Fixture resumed(env_options, attributes);
        resumed.Load(&state, resumed.collector.get());
        DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch a, straight.collector->Collect(Samples(2)));
        DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch b, resumed.collector->Collect(Samples(2)));
        ExpectSameData(a, b);
        EXPECT_EQ(resumed.collector->total_train_sample_count(),
                  straight.collector->total_train_sample_count());
        if (HasFailure()) return;
      }
    }
  }
}

TEST(SampleCountTest, ASavedStateWithoutCountsBeginsToCountAnew) {
  Fixture saved(OneEnv({100}), SamplesOf(4));
  EXPECT_EQ(saved.Rows(1), 4);
  const StateDict state = saved.Save(*saved.collector);
  StateDict older;
  for (const std::string& name : state.Names()) {
    if (name == "collector/traj/sample_rows" || name == "collector/traj/row_ends_sample") continue;
    ASSERT_THAT(older.WriteTensor(name, *state.tensors().Find(name)), IsOk());
  }
  ASSERT_EQ(older.Names().size() + 2, state.Names().size());
  Fixture resumed(OneEnv({100}), SamplesOf(4));
  resumed.Load(&older, resumed.collector.get());
  EXPECT_EQ(resumed.Rows(1), 4);
}

}  // namespace
}  // namespace ding
