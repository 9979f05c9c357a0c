// The wrappers of all envs of a manager: what they compute, that they go on exactly after a load,
// that evaluations change no statistics, videos, and what is refused.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/file_testing.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/running_normalizer.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/classic_control/cartpole.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env.pb.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/env/env_registry.h"
#include "ding_worker/env/pixel_game/orchard.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr int kEnvs = 3;

DING_REGISTER(
    EnvRegistry(), "ShortCartPole",
    [](const EnvConfig&) { return CreateCartPole("ShortCartPole", 40); }, "a short CartPole");
DING_REGISTER(
    EnvRegistry(), "OneOrchard", [](const EnvConfig&) { return CreateOrchard("OneOrchard", 1); },
    "pictures");

// Shows one number.
class Line : public Env {
 public:
  static absl::StatusOr<std::unique_ptr<Env>> Create(const EnvConfig&) {
    auto line = std::make_unique<Line>();
    line->spec_.name = "Line";
    DING_ASSIGN_OR_RETURN(line->spec_.observation, MakeSpec({Box("obs", {1})}));
    DING_ASSIGN_OR_RETURN(line->spec_.action, MakeSpec({Discrete("action", 2)}));
    return line;
  }
  const EnvSpec& spec() const override { return spec_; }
  absl::Status Reset(const EpisodeStart&, const RowRef&) override { return absl::OkStatus(); }
  absl::Status Step(const RowView&, const RowRef&, StepResult*) override {
    return absl::OkStatus();
  }

 private:
  EnvSpec spec_;
};

DING_REGISTER(EnvRegistry(), "Line", Line::Create, "one number");

std::string Wrapper(absl::string_view type, absl::string_view message = "",
                    absl::string_view params = "") {
  if (message.empty()) return absl::StrCat("wrapper { type: '", type, "' } ");
  return absl::StrCat("wrapper { type: '", type, "' params { [type.googleapis.com/ding.", message,
                      "] { ", params, " } } } ");
}

EnvConfig Config(absl::string_view env, const std::string& wrappers) {
  EnvConfig config;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      absl::StrCat("type: '", env, "' ", wrappers), &config));
  return config;
}

absl::StatusOr<std::unique_ptr<EnvManager>> Create(absl::string_view env,
                                                   const std::string& wrappers,
                                                   const EnvsUse& use = {}) {
  EnvManagerConfig manager;
  manager.set_type("base");
  return create_envs(Config(env, wrappers), manager, kEnvs, Clock::Real(), use);
}

std::unique_ptr<EnvManager> Launched(const std::string& wrappers, const EnvsUse& use = {}) {
  std::unique_ptr<EnvManager> envs = Create("ShortCartPole", wrappers, use).value();
  EXPECT_THAT(envs->Launch(), IsOk());
  return envs;
}

const Timesteps& StepAll(EnvManager* envs, int64_t number) {
  const ReadyObs ready = envs->ready_obs();
  std::vector<int64_t> actions;
  for (int i = 0; i < kEnvs; ++i) actions.push_back((number / (i + 1)) % 2);
  std::byte* const column = reinterpret_cast<std::byte*>(actions.data());
  const std::vector<int> ids(ready.env_ids.begin(), ready.env_ids.end());
  return **envs->Step(ids, ColumnsView(envs->env_spec().action.get(), &column, 0, kEnvs));
}

std::vector<float> Values(const ColumnsView& rows) {
  const absl::Span<const float> column = rows.column<float>(0);
  return {column.begin(), column.end()};
}

// All that a manager shows in some steps.
std::vector<float> Play(EnvManager* envs, int from, int to) {
  std::vector<float> seen;
  for (int i = from; i < to; ++i) {
    for (const float value : Values(envs->ready_obs().obs)) seen.push_back(value);
    const Timesteps& steps = StepAll(envs, i);
    seen.insert(seen.end(), steps.reward.begin(), steps.reward.end());
    if (steps.finished.empty()) continue;
    for (const float value : Values(steps.final_obs)) seen.push_back(value);
    for (const FinishedEpisode& episode : steps.finished) {
      seen.push_back(static_cast<float>(episode.episode_return));
    }
  }
  return seen;
}

TEST(AllEnvsWrappersTest, ObservationsAreNormalizedByTheStatisticsOfAllEnvs) {
  const std::unique_ptr<EnvManager> raw = Launched("");
  const std::unique_ptr<EnvManager> wrapped =
      Launched(Wrapper("normalize_observation", "NormalizeObservationConfig", "clip: 2"));
  EXPECT_THAT(wrapped->env_spec().observation->field(0).high, ElementsAre(2));
  RunningNormalizer expected(4, 2);
  std::vector<float> row(4 * kEnvs);
  int finished = 0;
  for (int i = 0; i < 100; ++i) {
    const std::vector<float> before = Values(raw->ready_obs().obs);
    expected.Update(before);
    expected.Normalize(before, absl::MakeSpan(row));
    ASSERT_EQ(Values(wrapped->ready_obs().obs), row) << "step " << i;
    ASSERT_EQ(Values(wrapped->ready_obs().obs), row) << "asked twice";
    const Timesteps& steps = StepAll(raw.get(), i);
    const Timesteps& normalized = StepAll(wrapped.get(), i);
    ASSERT_EQ(normalized.finished.size(), steps.finished.size());
    if (steps.finished.empty()) continue;
    ++finished;
    const std::vector<float> last = Values(steps.final_obs);
    std::vector<float> shown(last.size());
    expected.Update(last);
    expected.Normalize(last, absl::MakeSpan(shown));
    ASSERT_EQ(Values(normalized.final_obs), shown);
    EXPECT_EQ(normalized.finished[0].episode_return, steps.finished[0].episode_return);
  }
  EXPECT_GT(finished, 3);
}

TEST(AllEnvsWrappersTest, RewardsAreDividedByTheDeviationOfTheReturn) {
  const std::unique_ptr<EnvManager> raw = Launched("");
  const std::unique_ptr<EnvManager> wrapped = Launched(
      Wrapper("normalize_reward", "NormalizeRewardConfig", "discount_factor: 0.9 clip: 3"));
  EXPECT_EQ(wrapped->env_spec().reward_high, 3);
  RewardScaler scaler(0.9);
  bool clipped = false;
  for (int i = 0; i < 100; ++i) {
    const Timesteps& steps = StepAll(raw.get(), i);
    const Timesteps& normalized = StepAll(wrapped.get(), i);
    std::vector<float> expected(steps.reward.begin(), steps.reward.end());
    std::vector<Segment> segments;
    for (int env = 0; env < kEnvs; ++env) {
      const bool over = steps.terminated[env] != 0 || steps.truncated[env] != 0;
      segments.push_back({env, 0, env, 1, over ? SegmentEnd::kTerminated : SegmentEnd::kCut});
    }
    scaler.Scale(segments, absl::MakeSpan(expected));
    for (float& reward : expected) {
      clipped |= reward > 3;
      reward = std::min(reward, 3.0f);
    }
    ASSERT_EQ(std::vector<float>(normalized.reward.begin(), normalized.reward.end()), expected);
    for (size_t k = 0; k < steps.finished.size(); ++k) {
      EXPECT_EQ(normalized.finished[k].episode_return, steps.finished[k].episode_return);
    }
  }
  EXPECT_TRUE(clipped);
}

TEST(AllEnvsWrappersTest, GoesOnExactlyAfterALoad) {
  const std::string wrappers = Wrapper("time_limit", "TimeLimitConfig", "max_steps: 9") +
                               Wrapper("normalize_observation") + Wrapper("normalize_reward");
  for (const bool asked : {false, true}) {  // whether the rows were looked at since the last step
    const std::unique_ptr<EnvManager> first = Launched(wrappers);
    Play(first.get(), 0, 31);
    if (asked) first->ready_obs();
    StateDict state;
    ASSERT_THAT(first->SaveState(&state), IsOk());
    const std::vector<float> expected = Play(first.get(), 31, 80);
    const std::unique_ptr<EnvManager> second = *Create("ShortCartPole", wrappers);
    std::vector<int> restarted;
    ASSERT_THAT(second->LoadState(&state, &restarted), IsOk());
    EXPECT_EQ(Play(second.get(), 31, 80), expected);
  }
}

TEST(AllEnvsWrappersTest, EvaluationsUseTheStatisticsAndLearnNone) {
  const std::string wrappers = Wrapper("normalize_observation") + Wrapper("normalize_reward");
  const std::unique_ptr<EnvManager> collects = Launched(wrappers);
  const std::unique_ptr<EnvManager> evaluates = Launched(wrappers, {/*evaluates=*/true, ""});
  EXPECT_TRUE(evaluates->has_statistics());
  EXPECT_FALSE(Launched("")->has_statistics());
  Play(collects.get(), 0, 60);
  StateDict learned;
  ASSERT_THAT(collects->SaveStatistics(&learned), IsOk());
  ASSERT_THAT(evaluates->LoadStatistics(&learned), IsOk());
  RunningNormalizer by_hand(4, 10);
  ScopedStateReader statistics(&learned, "obs");
  ASSERT_THAT(by_hand.LoadState(&statistics), IsOk());
  const std::unique_ptr<EnvManager> raw = Launched("");
  std::vector<float> row(4 * kEnvs);
  for (int i = 0; i < 20; ++i) {
    by_hand.Normalize(Values(raw->ready_obs().obs), absl::MakeSpan(row));
    ASSERT_EQ(Values(evaluates->ready_obs().obs), row);
    StepAll(raw.get(), i);
    EXPECT_THAT(StepAll(evaluates.get(), i).reward, testing::Each(1));
  }
  StateDict after;
  ASSERT_THAT(evaluates->SaveStatistics(&after), IsOk());
  EXPECT_EQ(after.Names().size(), 3);
  EXPECT_EQ(after.ReadInt("obs/count").value(), by_hand.count());
}

TEST(AllEnvsWrappersTest, RecordsEachNthEpisodeOfTheFirstEnv) {
  const std::string folder = absl::StrCat(FreshTestFolder(), "/videos");
  const std::string wrappers =
      Wrapper("time_limit", "TimeLimitConfig", "max_steps: 4") +
      Wrapper("record_video", "RecordVideoConfig", "every: 2 max_frames: 3");
  const std::unique_ptr<EnvManager> envs = Launched(wrappers, {false, folder});
  for (int i = 0; i < 14; ++i) StepAll(envs.get(), i);  // 3 episodes, and 2 steps
  EXPECT_THAT(*ListDirectory(folder), ElementsAre("episode_0.gif", "episode_2.gif"));
  EXPECT_THAT(*ReadFile(absl::StrCat(folder, "/episode_0.gif")), StartsWith("GIF89a"));
  StateDict state;
  ASSERT_THAT(envs->SaveState(&state), IsOk());
  const std::unique_ptr<EnvManager> second = *Create("ShortCartPole", wrappers, {false, folder});
  std::vector<int> restarted;
  ASSERT_THAT(second->LoadState(&state, &restarted), IsOk());
  for (int i = 14; i < 20; ++i) StepAll(second.get(), i);
  EXPECT_THAT(*ListDirectory(folder),
              ElementsAre("episode_0.gif", "episode_2.gif", "episode_4.gif"));
}

TEST(AllEnvsWrappersTest, NoPicturesWhereThereIsNoFolder) {
  EXPECT_THAT(Create("ShortCartPole", Wrapper("record_video"), {/*evaluates=*/true, ""}), IsOk());
  EXPECT_THAT(Create("ShortCartPole", Wrapper("record_video")).status(),
              IsInvalid("no folder for videos"));
}

TEST(AllEnvsWrappersTest, SaysWhatDoesNotFit) {
  const struct {
    const char* env;
    std::string wrappers;
    std::vector<std::string> messages;
  } kCases[] = {
      {"OneOrchard",
       Wrapper("normalize_observation"),
       {"env.wrapper[0] 'normalize_observation'", "'obs' is uint8", "flatten"}},
      {"ShortCartPole",
       Wrapper("normalize_observation") + Wrapper("normalize_observation"),
       {"env.wrapper[1] 'normalize_observation'", "normalized by another wrapper"}},
      {"Line",
       Wrapper("frame_stack") + Wrapper("normalize_observation"),
       {"env.wrapper[1] 'normalize_observation'", "'obs' is a stack of frames"}},
      {"ShortCartPole",
       Wrapper("normalize_observation") + Wrapper("frame_stack"),
       {"env.wrapper[1] 'frame_stack' stands behind env.wrapper[0] 'normalize_observation'",
        "expected it before"}},
      {"ShortCartPole",
       Wrapper("normalize_observation", "NormalizeObservationConfig", "clip: 0"),
       {"params.clip is 0"}},
      {"ShortCartPole",
       Wrapper("normalize_observation", "NormalizeObservationConfig", "field: 'obs/x'"),
       {"obs/x"}},
      {"ShortCartPole",
       Wrapper("normalize_reward", "NormalizeRewardConfig", "discount_factor: 1"),
       {"params.discount_factor is 1"}},
      {"ShortCartPole",
       Wrapper("record_video", "RecordVideoConfig", "every: 0"),
       {"params.every is 0"}},
      {"ShortCartPole",
       Wrapper("record_video", "RecordVideoConfig", "format: 'avi'"),
       {"params.format", "avi", "gif"}},
      {"ShortCartPole",
       Wrapper("record_video", "RecordVideoConfig", "frames_per_second: 0"),
       {"params.frames_per_second is 0"}},
  };
  for (const auto& [env, wrappers, messages] : kCases) {
    SCOPED_TRACE(wrappers);
    const absl::Status status = Create(env, wrappers).status();
    EXPECT_FALSE(status.ok());
    for (const std::string& message : messages) {
      EXPECT_THAT(std::string(status.message()), HasSubstr(message));
    }
  }
  EXPECT_THAT(create_env(Config("ShortCartPole", Wrapper("normalize_reward"))).status(),
              IsInvalid("for all envs of a manager"));
}

}  // namespace
}  // namespace ding
