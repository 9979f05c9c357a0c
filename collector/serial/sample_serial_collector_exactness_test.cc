// Compares SampleSerialCollector over random scripts of episodes with a simple model, which
// computes the expected rows from the recorded steps of the fake envs.
#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/collector/serial/serial_collectors.h"
#include "ding_worker/collector/testing/fake_env_manager.h"
#include "ding_worker/collector/testing/fake_policy.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/segment.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using Event = FakeEnvManager::Event;
using Obs = FakeEnvManager::Obs;

bool Ended(const Event& event) { return event.terminated || event.truncated; }
bool SameEpisode(const Event& a, const Event& b) {
  return a.env_id == b.env_id && a.obs[1] == b.obs[1];
}

// The model: it keeps lists of steps.
class Model {
 public:
  explicit Model(bool whole_episodes) : whole_episodes_(whole_episodes) {}

  void Add(const Event& event) {
    if (event.abnormal) {
      const auto gone = [&](const Event& row) { return SameEpisode(row, event); };
      ready_.erase(std::remove_if(ready_.begin(), ready_.end(), gone), ready_.end());
      held_.erase(std::remove_if(held_.begin(), held_.end(), gone), held_.end());
      return;
    }
    if (!whole_episodes_) {
      ready_.push_back(event);
      return;
    }
    held_.push_back(event);
    if (!Ended(event)) return;
    std::vector<Event> others;
    for (const Event& row : held_) (SameEpisode(row, event) ? ready_ : others).push_back(row);
    held_ = others;
  }

  int64_t ready() const { return static_cast<int64_t>(ready_.size()); }

  // Returns the expected rows, one vector per segment.
  std::vector<std::vector<Event>> Take(int64_t max_rows, bool on_policy) {
    std::sort(ready_.begin(), ready_.end(),
              [](const Event& a, const Event& b) { return a.asked < b.asked; });
    while (ready() > max_rows) Drop();
    std::vector<std::vector<Event>> segments;
    for (const Event& row : ready_) {
      const auto follows = [&](const std::vector<Event>& segment) {
        return SameEpisode(segment.back(), row) && segment.back().obs[2] + 1 == row.obs[2];
      };
      const auto it = std::find_if(segments.begin(), segments.end(), follows);
      if (it == segments.end()) {
        segments.push_back({row});
      } else {
        it->push_back(row);
      }
    }
    ready_.clear();
    if (on_policy) held_.clear();
    return segments;
  }

 private:
  // Drops one row.
  void Drop() {
    if (!whole_episodes_) {
      ready_.pop_back();
      return;
    }
    // This is the first row of the episode that ends last.
    auto last = ready_.end() - 1;
    while (!Ended(*last)) --last;
    const Event end = *last;
    ready_.erase(std::find_if(ready_.begin(), ready_.end(),
                              [&](const Event& row) { return SameEpisode(row, end); }));
  }

  const bool whole_episodes_;
  std::vector<Event> ready_;
  std::vector<Event> held_;
};

struct Case {
  std::string name;
  bool whole_episodes = false;
  bool on_policy = false;
  bool subsets = false;
  bool late = false;
  double abnormal = 0;
  int env_num = 3;
};

class SampleExactnessTest : public testing::TestWithParam<Case> {};

Obs ObsAt(const Batch& batch, int64_t row) {
  const absl::Span<const float> values = batch.column<float>("obs").subspan(3 * row, 3);
  return {values[0], values[1], values[2]};
}

// Checks that the steps of a stream are consecutive exactly where rows are.
class StepChecker {
 public:
  void Check(int64_t stream, int64_t step, const Event& event) {
    const auto it = last_.find(stream);
    if (it != last_.end()) {
      const auto& [last_step, last] = it->second;
      const bool goes_on = Ended(last)
                               ? event.obs[1] == last.obs[1] + 1 && event.obs[2] == 0
                               : SameEpisode(event, last) && event.obs[2] == last.obs[2] + 1;
      if (goes_on) {
        EXPECT_EQ(step, last_step + 1);
      } else {
        EXPECT_GT(step, last_step + 1) << "a link over rows that are missing";
      }
    }
    last_[stream] = {step, event};
  }

 private:
  std::map<int64_t, std::pair<int64_t, Event>> last_;
};

void ExpectSegments(const SegmentBatch& data, const std::vector<std::vector<Event>>& expected,
                    const std::map<int64_t, int64_t>& collect_iters, int64_t stream_base,
                    StepChecker* steps) {
  ASSERT_THAT(ValidateSegments(data), IsOk());
  ASSERT_EQ(data.segments.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    SCOPED_TRACE(absl::StrCat("segment ", i));
    const Segment& segment = data.segments[i];
    const std::vector<Event>& rows = expected[i];
    ASSERT_EQ(segment.length, static_cast<int64_t>(rows.size()));
    EXPECT_EQ(segment.stream, stream_base + rows[0].env_id);
    EXPECT_EQ(segment.end, rows.back().terminated  ? SegmentEnd::kTerminated
                           : rows.back().truncated ? SegmentEnd::kTruncated
                                                   : SegmentEnd::kCut);
    EXPECT_EQ(ObsAt(data.final_obs, static_cast<int64_t>(i)), rows.back().next_obs);
    for (int64_t k = 0; k < segment.length; ++k) {
      const int64_t row = segment.begin + k;
      const Event& event = rows[k];
      EXPECT_EQ(ObsAt(data.rows, row), event.obs);
      EXPECT_EQ(data.rows.column<int64_t>("action")[row], event.action);
      EXPECT_EQ(data.rows.column<float>("logit")[2 * row], event.obs[0]);
      EXPECT_EQ(data.rows.column<float>("logit")[2 * row + 1], static_cast<float>(event.asked));
      EXPECT_EQ(data.rows.column<float>("reward")[row], event.reward);
      EXPECT_EQ(data.rows.column<int64_t>("collect_iter")[row], collect_iters.at(event.asked));
      steps->Check(segment.stream, segment.first_step + k, event);
    }
  }
}

TEST_P(SampleExactnessTest, RowsSegmentsAndLinksEqualTheModel) {
  const Case& param = GetParam();
  for (uint64_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Rng rng(seed, "exactness");
    FakeEnvManager::Options env_options = RandomEnvs(param.env_num, seed, 7, param.abnormal);
    env_options.subsets = param.subsets;
    env_options.late = param.late;
    FakeEnvManager envs(env_options);
    CollectAttributes attributes;
    attributes.traj_len_inf = param.whole_episodes;
    attributes.on_policy = param.on_policy;
    FakePolicy policy(attributes);
    std::map<int64_t, int64_t> collect_iters;  // by number of the step
    SampleSerialCollector::Options options;
    options.stream_base = 100;
    options.max_abnormal = 1000;
    DING_ASSERT_OK_AND_ASSIGN(const auto collector,
                              SampleSerialCollector::Create(options, &envs, &policy, {}));
    Model model(param.whole_episodes);
    StepChecker steps;
    size_t seen = 0;
    for (int64_t iter = 0; iter < 12; ++iter) {
      SCOPED_TRACE(absl::StrCat("collect ", iter));
      CollectOptions collect;
      collect.target = 1 + static_cast<int64_t>(rng.UniformInt(20));
      collect.drop_extra = rng.Uniform() < 0.5;
      collect.train_iter = iter;
      const int64_t asked_before = policy.rows;
      DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch data, collector->Collect(collect));
      for (int64_t asked = asked_before; asked < policy.rows; ++asked) collect_iters[asked] = iter;
      for (; seen < envs.events().size(); ++seen) {
        const bool new_call = seen == 0 || envs.events()[seen].call != envs.events()[seen - 1].call;
        if (new_call) {
          EXPECT_LT(model.ready(), *collect.target) << "collected too much";
        }
        model.Add(envs.events()[seen]);
      }
      ASSERT_GE(model.ready(), *collect.target);
      const int64_t most = collect.drop_extra ? *collect.target : model.ready();
      ExpectSegments(data, model.Take(most, param.on_policy), collect_iters, options.stream_base,
                     &steps);
      EXPECT_EQ(collector->envstep(),
                std::count_if(envs.events().begin(), envs.events().end(),
                              [](const Event& event) { return !event.abnormal; }));
      EXPECT_EQ(collector->total_episode_count(),
                std::count_if(envs.events().begin(), envs.events().end(), Ended));
      if (HasFatalFailure() || HasNonfatalFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, SampleExactnessTest,
    testing::Values(Case{"Plain"}, Case{"OneEnv", false, false, false, false, 0.2, 1},
                    Case{"Abnormal", false, false, false, false, 0.3},
                    Case{"Subsets", false, false, true, false, 0.2, 5},
                    Case{"Late", false, false, true, true, 0.2, 5},
                    Case{"OnPolicy", false, true, false, false, 0.2},
                    Case{"WholeEpisodes", true, false, false, false, 0.2},
                    Case{"WholeEpisodesOnPolicy", true, true, false, false, 0.2},
                    Case{"WholeEpisodesLate", true, false, true, true, 0.2, 5}),
    [](const testing::TestParamInfo<Case>& info) { return info.param.name; });

}  // namespace
}  // namespace ding
