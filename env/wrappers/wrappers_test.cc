// The wrappers, on envs of C++ through create_env(): each alone, many at once, their errors, and
// the conformance suite.
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/extreme_numbers.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/classic_control/cartpole.h"
#include "ding_worker/env/classic_control/pendulum.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env.pb.h"
#include "ding_worker/env/env_registry.h"
#include "ding_worker/env/pixel_game/orchard.h"
#include "ding_worker/env/testing/env_conformance.h"
#include "ding_worker/env/wrappers/wrappers.pb.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

// An env of 20 steps that shows what it was told: the last action, the steps of the episode, the
// lives, which get fewer every 5 steps, and an image of [2, 3, 3] bytes that are all ten times the
// number of steps. Its reward is 10.
class Diary : public Env {
 public:
  static absl::StatusOr<std::unique_ptr<Env>> Create(const EnvConfig&) {
    EnvSpec spec;
    spec.name = "Diary";
    FieldSpec image;
    image.name = "obs/image";
    image.dtype = DType::kUint8;
    image.shape = {2, 3, 3};
    FieldSpec lives = Scalar("obs/lives", DType::kInt32);
    DING_ASSIGN_OR_RETURN(spec.observation,
                          MakeSpec({Box("obs/told", {2}, {0}, {1000}), std::move(lives),
                                    std::move(image), Discrete("obs/kind", 4)}));
    DING_ASSIGN_OR_RETURN(spec.action, MakeSpec({Discrete("action", 4)}));
    spec.reward_low = spec.reward_high = 10;
    spec.max_episode_steps = 20;
    return std::unique_ptr<Env>(new Diary(std::move(spec)));
  }
  const EnvSpec& spec() const override { return spec_; }
  absl::Status Reset(const EpisodeStart&, const RowRef& obs) override {
    steps_ = 0;
    Show(0, obs);
    return absl::OkStatus();
  }
  absl::Status Step(const RowView& action, const RowRef& obs, StepResult* result) override {
    ++steps_;
    Show(action.scalar<int64_t>(0), obs);
    result->reward = 10;
    result->terminated = steps_ == 20;
    return absl::OkStatus();
  }
  absl::Status SaveState(StateWriter* writer) const override {
    return writer->WriteInt("steps", steps_);
  }
  absl::Status LoadState(StateReader* reader) override {
    DING_ASSIGN_OR_RETURN(steps_, reader->ReadCount("steps"));
    return absl::OkStatus();
  }

 private:
  explicit Diary(EnvSpec spec) : spec_(std::move(spec)) {}
  void Show(int64_t action, const RowRef& obs) const {
    obs.field<float>(0)[0] = static_cast<float>(action);
    obs.field<float>(0)[1] = static_cast<float>(steps_);
    obs.field<int32_t>(1)[0] = static_cast<int32_t>(3 - steps_ / 5);
    for (uint8_t& byte : obs.field<uint8_t>(2)) byte = static_cast<uint8_t>(10 * steps_);
    obs.field<int64_t>(3)[0] = steps_ % 4;
  }

  const EnvSpec spec_;
  int64_t steps_ = 0;
};

DING_REGISTER(EnvRegistry(), "Diary", Diary::Create, "shows what it was told");

// Shows two fields of categories, which do not change, and a number.
class House : public Env {
 public:
  static absl::StatusOr<std::unique_ptr<Env>> Create(const EnvConfig&) {
    EnvSpec spec;
    spec.name = "House";
    DING_ASSIGN_OR_RETURN(spec.observation,
                          MakeSpec({Discrete("obs/floor", 3), Box("obs/height", {1}, {0}, {9}),
                                    MultiDiscrete("obs/doors", {2, 3})}));
    DING_ASSIGN_OR_RETURN(spec.action, MakeSpec({Discrete("action", 2)}));
    return std::unique_ptr<Env>(new House(std::move(spec)));
  }
  const EnvSpec& spec() const override { return spec_; }
  absl::Status Reset(const EpisodeStart&, const RowRef& obs) override {
    obs.field<int64_t>(0)[0] = 1;
    obs.field<float>(1)[0] = 7;
    obs.field<int64_t>(2)[0] = 0;
    obs.field<int64_t>(2)[1] = 2;
    return absl::OkStatus();
  }
  absl::Status Step(const RowView&, const RowRef&, StepResult*) override {
    return absl::OkStatus();
  }

 private:
  explicit House(EnvSpec spec) : spec_(std::move(spec)) {}
  const EnvSpec spec_;
};
DING_REGISTER(EnvRegistry(), "House", House::Create, "has floors and doors");
DING_REGISTER(
    EnvRegistry(), "CartPole", [](const EnvConfig&) { return CreateCartPole("CartPole", 60); },
    "a short CartPole");
DING_REGISTER(
    EnvRegistry(), "Pendulum", [](const EnvConfig&) { return CreatePendulum(); }, "Pendulum");
DING_REGISTER(
    EnvRegistry(), "Orchard", [](const EnvConfig&) { return CreateOrchard("Orchard", 1); },
    "pictures");

EnvConfig Config(absl::string_view env, absl::string_view wrappers) {
  EnvConfig config;
  config.set_type(std::string(env));
  EnvConfig parsed;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(std::string(wrappers), &parsed))
      << wrappers;
  *config.mutable_wrapper() = parsed.wrapper();
  return config;
}

std::string Wrapper(absl::string_view type, absl::string_view message = "",
                    absl::string_view params = "") {
  if (message.empty()) return absl::StrCat("wrapper { type: '", type, "' } ");
  return absl::StrCat("wrapper { type: '", type, "' params { [type.googleapis.com/ding.", message,
                      "] { ", params, " } } } ");
}

// Plays one env.
class Game {
 public:
  Game(absl::string_view env, absl::string_view wrappers)
      : env_(create_env(Config(env, wrappers)).value()),
        row_(BatchBuilder::Create(env_->spec().observation, 1).value()),
        action_(BatchBuilder::Create(env_->spec().action, 1).value()) {
    Reset();
  }

  void Reset(uint64_t seed = 1) {
    EXPECT_THAT(env_->Reset(EpisodeStart{seed, {}}, row_.view().row(0)), IsOk());
  }
  StepResult Step(int64_t action) {
    action_.view().row(0).field<int64_t>(0)[0] = action;
    return Step();
  }
  StepResult Step(float action) {
    for (float& value : action_.view().row(0).field<float>(0)) value = action;
    return Step();
  }
  RowView obs() const { return ColumnsView(row_.view()).row(0); }
  // What a Diary tells: its last action and the steps of its episode.
  std::vector<float> told() const {
    const absl::Span<const float> told = obs().field<float>(0);
    return {told.begin(), told.end()};
  }
  Env& env() { return *env_; }
  std::string Spec() const { return env_->spec().observation->DebugString(); }

 private:
  StepResult Step() {
    StepResult result;
    EXPECT_THAT(env_->Step(ColumnsView(action_.view()).row(0), row_.view().row(0), &result),
                IsOk());
    return result;
  }

  std::unique_ptr<Env> env_;
  BatchBuilder row_;
  BatchBuilder action_;
};

absl::Status ErrorOf(absl::string_view env, absl::string_view wrappers) {
  return create_env(Config(env, wrappers)).status();
}

TEST(WrappersTest, TimeLimitTruncates) {
  Game game("Diary", Wrapper("time_limit", "TimeLimitConfig", "max_steps: 3"));
  EXPECT_EQ(game.env().spec().max_episode_steps, 3);
  for (int i = 0; i < 2; ++i) EXPECT_FALSE(game.Step(int64_t{1}).truncated);
  EXPECT_TRUE(game.Step(int64_t{1}).truncated);
  game.Reset();
  EXPECT_FALSE(game.Step(int64_t{1}).truncated);
}

TEST(WrappersTest, ActionsAreRepeatedAndRewardsSummed) {
  Game game("Diary", Wrapper("action_repeat", "ActionRepeatConfig", "count: 6"));
  EXPECT_EQ(game.env().spec().max_episode_steps, 4);
  EXPECT_EQ(game.Step(int64_t{3}).reward, 60);
  EXPECT_THAT(game.told(), ElementsAre(3, 6));
  for (int i = 0; i < 2; ++i) game.Step(int64_t{1});
  const StepResult last = game.Step(int64_t{2});  // only two steps are left
  EXPECT_EQ(last.reward, 20);
  EXPECT_TRUE(last.terminated);
}

TEST(WrappersTest, SomeActionsStick) {
  Game game("Diary", Wrapper("sticky_actions", "StickyActionsConfig", "probability: 0.5"));
  int stuck = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    game.Reset(seed);
    game.Step(int64_t{0});
    for (int64_t i = 1; i < 10; ++i) {
      game.Step(i % 4);
      stuck += game.told()[0] != static_cast<float>(i % 4) ? 1 : 0;
    }
  }
  EXPECT_GT(stuck, 60);
  EXPECT_LT(stuck, 120);
}

TEST(WrappersTest, EpisodesBeginWithNoOps) {
  Game game("Diary", Wrapper("no_op_starts", "NoOpStartsConfig", "max_steps: 4 action: 2"));
  std::vector<int> seen(5, 0);
  for (uint64_t seed = 0; seed < 60; ++seed) {
    game.Reset(seed);
    ++seen[static_cast<size_t>(game.told()[1])];
    EXPECT_EQ(game.told()[0], game.told()[1] > 0 ? 2 : 0);
  }
  for (const int count : seen) EXPECT_GT(count, 3);
  EXPECT_EQ(game.Step(int64_t{1}).reward, 10);
}

TEST(WrappersTest, AnEpisodePerLife) {
  Game game("Diary",
            Wrapper("episodic_life", "EpisodicLifeConfig", "field: 'obs/lives' action: 3"));
  for (int i = 0; i < 4; ++i) EXPECT_FALSE(game.Step(int64_t{1}).terminated);
  EXPECT_TRUE(game.Step(int64_t{1}).terminated);
  StateDict state;
  ASSERT_THAT(game.env().SaveState(&state), IsOk());
  game.Reset();  // the env goes on
  EXPECT_THAT(game.told(), ElementsAre(3, 6));
  ASSERT_THAT(game.env().LoadState(&state), IsOk());
  game.Reset();
  EXPECT_THAT(game.told(), ElementsAre(3, 6));
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(game.Step(int64_t{1}).terminated);
  game.Reset();  // in the middle of a life: the env begins anew
  EXPECT_THAT(game.told(), ElementsAre(0, 0));
}

// All that a Diary tells in the steps [from, to), whose numbers decide the actions and seeds.
// `over`: a reset comes first. The last number says whether one would come next.
std::vector<float> Tell(Game* game, int from, int to, bool over) {
  std::vector<float> seen;
  for (int i = from; i < to; ++i) {
    if (over) game->Reset(static_cast<uint64_t>(i));
    const StepResult result = game->Step(int64_t{i % 4});
    over = result.terminated || result.truncated;
    const std::vector<float> told = game->told();
    seen.insert(seen.end(), told.begin(), told.end());
    seen.push_back(result.reward);
    seen.push_back(over ? 1 : 0);
  }
  return seen;
}

// Not a case of the conformance suite, which wants episodes that do not depend on the ones before:
// a life goes on where the one before it ended.
TEST(WrappersTest, LivesGoOnExactlyAfterALoad) {
  const std::string wrappers =
      Wrapper("no_op_starts", "NoOpStartsConfig", "max_steps: 3 action: 1") +
      Wrapper("sticky_actions", "StickyActionsConfig", "probability: 0.5") +
      Wrapper("episodic_life", "EpisodicLifeConfig", "field: 'obs/lives' action: 3");
  constexpr int kSteps = 45;  // more than two episodes of the env
  int ends = 0;
  for (int saved = 1; saved < kSteps; ++saved) {
    for (const int played : {1, 11}) {  // by the env that loads, which then has more or fewer lives
      SCOPED_TRACE(absl::StrCat("saved after step ", saved, ", loaded after step ", played));
      Game first("Diary", wrappers);
      const bool over = Tell(&first, 0, saved, false).back() != 0;
      ends += over ? 1 : 0;
      StateDict state;
      ASSERT_THAT(first.env().SaveState(&state), IsOk());
      Game second("Diary", wrappers);
      Tell(&second, 0, played, false);
      ASSERT_THAT(second.env().LoadState(&state), IsOk());
      EXPECT_EQ(Tell(&second, saved, kSteps + 5, over), Tell(&first, saved, kSteps + 5, over));
    }
  }
  EXPECT_GT(ends, 12) << "expected that many saved at the end of a life";
}

TEST(WrappersTest, SavedNumbersNearTheEndsOfTheirTypeAreRefusedOrWork) {
  const std::string wrappers =
      Wrapper("no_op_starts", "NoOpStartsConfig", "max_steps: 3 action: 1") +
      Wrapper("sticky_actions", "StickyActionsConfig", "probability: 0.5") +
      Wrapper("episodic_life", "EpisodicLifeConfig", "field: 'obs/lives' action: 3") +
      Wrapper("time_limit", "TimeLimitConfig", "max_steps: 20") +
      Wrapper("time_left", "TimeLeftConfig", "field: 'obs/told'");
  Game game("Diary", wrappers);
  game.Step(int64_t{1});
  StateDict saved;
  ASSERT_THAT(game.env().SaveState(&saved), IsOk());
  ForEachExtremeNumber(saved, [&](StateDict* damaged) {
    Game other("Diary", wrappers);
    if (other.env().LoadState(damaged).ok()) other.Step(int64_t{1});
  });
}

TEST(WrappersTest, RewardsChangeAndReturnsStay) {
  Game game("Diary", Wrapper("reward_scale", "RewardScaleConfig", "scale: 0.05") +
                         Wrapper("reward_clip", "RewardClipConfig", "low: -1 high: 0.25") +
                         Wrapper("time_limit", "TimeLimitConfig", "max_steps: 20"));
  EXPECT_EQ(game.env().spec().reward_high, 0.25);
  for (int i = 0; i < 19; ++i) EXPECT_EQ(game.Step(int64_t{0}).reward, 0.25f);
  EXPECT_EQ(game.Step(int64_t{0}).info.GetOr("eval_episode_return", 0), 200);
}

TEST(WrappersTest, ImagesBecomeSmallAndGray) {
  const std::string field = "field: 'obs/image'";
  Game game("Diary",
            Wrapper("grayscale", "GrayscaleConfig", field) +
                Wrapper("resize", "ResizeConfig", field + " width: 2 height: 4") +
                Wrapper("crop", "CropConfig", field + " left: 1 top: 1 width: 1 height: 2") +
                Wrapper("channels_first", "ChannelsFirstConfig", field) +
                Wrapper("frame_stack", "FrameStackConfig", field + " count: 3"));
  EXPECT_THAT(game.Spec(), HasSubstr("obs/image: uint8[3, 2, 1]"));
  EXPECT_EQ(game.env().spec().observation->field(2).frame_stack_axis, 0);
  EXPECT_THAT(game.obs().field<uint8_t>(2), Each(0));
  for (int i = 0; i < 4; ++i) game.Step(int64_t{0});
  EXPECT_THAT(game.obs().field<uint8_t>(2), ElementsAre(20, 20, 30, 30, 40, 40));
  EXPECT_EQ(game.told()[1], 4);  // other fields are as they were
}

// An env that shows one picture of 24 bytes, whose difference is `step`.
template <int64_t height, int64_t width, int64_t channels, uint8_t step>
class Picture : public Env {
 public:
  static absl::StatusOr<std::unique_ptr<Env>> Create(const EnvConfig&) {
    FieldSpec field;
    field.name = "obs";
    field.dtype = DType::kUint8;
    field.shape = {height, width, channels};
    EnvSpec spec;
    spec.name = "Picture";
    DING_ASSIGN_OR_RETURN(spec.observation, MakeSpec({std::move(field)}));
    DING_ASSIGN_OR_RETURN(spec.action, MakeSpec({Discrete("action", 2)}));
    return std::unique_ptr<Env>(new Picture(std::move(spec)));
  }
  const EnvSpec& spec() const override { return spec_; }
  absl::Status Reset(const EpisodeStart&, const RowRef& obs) override {
    uint8_t next = 0;
    for (uint8_t& byte : obs.field<uint8_t>(0)) {
      byte = next;
      next = static_cast<uint8_t>(next + step);
    }
    return absl::OkStatus();
  }
  absl::Status Step(const RowView&, const RowRef& obs, StepResult*) override {
    return Reset({}, obs);
  }

 private:
  explicit Picture(EnvSpec spec) : spec_(std::move(spec)) {}
  const EnvSpec spec_;
};
DING_REGISTER(EnvRegistry(), "Picture", (Picture<4, 6, 1, 1>::Create), "shows 0, 1, 2, ...");
DING_REGISTER(EnvRegistry(), "Colors", (Picture<4, 2, 3, 73>::Create), "shows colored pixels");
DING_REGISTER(EnvRegistry(), "Planes", (Picture<3, 4, 2, 73>::Create), "the same bytes as planes");

TEST(WrappersTest, GrayIsTheLumaOfItsColors) {
  Game plain("Colors", "");
  const absl::Span<const uint8_t> bytes = plain.obs().field<uint8_t>(0);
  Game colors("Colors", Wrapper("grayscale"));
  Game planes("Planes", Wrapper("grayscale"));
  for (size_t i = 0; i < 8; ++i) {
    const double gray = 0.299 * bytes[3 * i] + 0.587 * bytes[3 * i + 1] + 0.114 * bytes[3 * i + 2];
    EXPECT_NEAR(colors.obs().field<uint8_t>(0)[i], gray, 0.51) << i;
    const double other = 0.299 * bytes[i] + 0.587 * bytes[8 + i] + 0.114 * bytes[16 + i];
    EXPECT_NEAR(planes.obs().field<uint8_t>(0)[i], other, 0.51) << i;
  }
}

TEST(WrappersTest, APixelIsTheMeanOfItsArea) {
  Game half("Picture", Wrapper("resize", "ResizeConfig", "width: 3 height: 2"));
  // The mean of 0, 1, 6 and 7 is 3.5, which is rounded up.
  EXPECT_THAT(half.obs().field<uint8_t>(0), ElementsAre(4, 6, 8, 16, 18, 20));
  Game uneven("Picture", Wrapper("resize", "ResizeConfig", "width: 4 height: 4"));
  // 0 and half of 1; half of 1, and 2; ... of the first row: (0 + 0.5) / 1.5 = 0.33, (0.5 + 2) /
  // 1.5 = 1.67, ...
  EXPECT_THAT(uneven.obs().field<uint8_t>(0).first(4), ElementsAre(0, 2, 3, 5));
  Game same("Picture", Wrapper("resize", "ResizeConfig", "width: 6 height: 4"));
  EXPECT_EQ(same.obs().field<uint8_t>(0)[23], 23);
  Game larger("Picture", Wrapper("resize", "ResizeConfig", "width: 12 height: 8"));
  EXPECT_THAT(larger.obs().field<uint8_t>(0).first(4), ElementsAre(0, 0, 1, 1));
}

TEST(WrappersTest, FieldsAreFlattenedAndRemoved) {
  Game game("Diary",
            Wrapper("mask_fields", "MaskFieldsConfig", "remove: 'obs/image'") + Wrapper("flatten"));
  EXPECT_THAT(game.Spec(), HasSubstr("obs: float32[7]"));
  for (int i = 0; i < 6; ++i) game.Step(int64_t{1});
  EXPECT_THAT(game.obs().field<float>(0), ElementsAre(1, 6, 2, 0, 0, 1, 0));
  Game one("Diary",
           Wrapper("mask_fields", "MaskFieldsConfig", "keep: 'obs/kind'") + Wrapper("one_hot"));
  one.Step(int64_t{1});
  EXPECT_THAT(one.obs().field<float>(0), ElementsAre(0, 1, 0, 0));
}

TEST(WrappersTest, OneHot_SeveralFields_AreAllEncoded) {
  for (const char* fields : {"", "field: 'obs/floor' field: 'obs/doors'"}) {
    const Game house("House", Wrapper("one_hot", "OneHotConfig", fields));
    EXPECT_THAT(house.obs().field<float>(0), ElementsAre(0, 1, 0));
    EXPECT_THAT(house.obs().field<float>(1), ElementsAre(7));
    EXPECT_THAT(house.obs().field<float>(2), ElementsAre(1, 0, 0, 0, 1));
  }
  const Game doors("House", Wrapper("one_hot", "OneHotConfig", "field: 'obs/doors'"));
  EXPECT_EQ(doors.obs().scalar<int64_t>(0), 1);
}

TEST(WrappersTest, TheTimeLeftIsAppended) {
  const std::string told = "field: 'obs/told'";
  Game whole("Diary", Wrapper("time_left", "TimeLeftConfig", told));
  EXPECT_THAT(whole.Spec(), HasSubstr("obs/told: float32[3] in [0 0 0] .. [1000 1000 1]"));
  EXPECT_THAT(whole.told(), ElementsAre(0, 0, 1));
  for (int i = 0; i < 5; ++i) whole.Step(int64_t{2});
  EXPECT_THAT(whole.told(), ElementsAre(2, 5, 0.75));
  EXPECT_EQ(whole.obs().scalar<int32_t>(1), 2);  // other fields are as they were
  whole.Reset();
  EXPECT_THAT(whole.told(), ElementsAre(0, 0, 1));

  Game limited("Diary", Wrapper("action_repeat", "ActionRepeatConfig", "count: 2") +
                            Wrapper("time_limit", "TimeLimitConfig", "max_steps: 4") +
                            Wrapper("time_left", "TimeLeftConfig", told));
  for (const float left : {0.75f, 0.5f, 0.25f}) {
    EXPECT_FALSE(limited.Step(int64_t{1}).truncated);
    EXPECT_EQ(limited.told()[2], left);
  }
  EXPECT_TRUE(limited.Step(int64_t{1}).truncated);
  EXPECT_THAT(limited.told(), ElementsAre(1, 8, 0));
  limited.Step(int64_t{1});  // beyond the limit
  EXPECT_EQ(limited.told()[2], 0);

  Game flat("Diary", Wrapper("flatten") + Wrapper("time_left"));
  flat.Step(int64_t{1});
  EXPECT_EQ(flat.obs().field<float>(0).size(), 26u);
  EXPECT_EQ(flat.obs().field<float>(0).back(), 0.95f);
}

TEST(WrappersTest, ActionsAreMadeToFit) {
  Game bins("Pendulum", Wrapper("discretize_action", "DiscretizeActionConfig", "bins: 5"));
  EXPECT_EQ(bins.env().spec().action->field(0).num_categories, 5);
  Game plain("Pendulum", "");
  Game scaled("Pendulum", Wrapper("rescale_action", "RescaleActionConfig"));
  Game clipped("Pendulum", Wrapper("clip_action", "ClipActionConfig"));
  for (int i = 0; i < 3; ++i) {
    plain.Step(-1.0f);
    bins.Step(int64_t{1});
    scaled.Step(-0.5f);
    clipped.Step(-1.0f);
    for (Game* const game : {&bins, &scaled, &clipped}) {
      EXPECT_THAT(game->obs().field<float>(0), ElementsAreArray(plain.obs().field<float>(0)));
    }
  }
  plain.Step(2.0f);
  clipped.Step(700.0f);
  EXPECT_THAT(clipped.obs().field<float>(0), ElementsAreArray(plain.obs().field<float>(0)));
}

TEST(WrappersTest, WhatDoesNotFitIsRefused) {
  const std::string image = "field: 'obs/image'";
  const struct {
    std::string env, wrappers, message;
  } kCases[] = {
      {"Diary", Wrapper("no_such"), "env.wrapper[0] 'no_such': unknown env wrapper type"},
      {"Diary", Wrapper("grayscale"),
       "env.wrapper[0] 'grayscale': params.field is not set, expected one of obs/told, obs/lives"},
      {"Diary", Wrapper("grayscale", "GrayscaleConfig", "field: 'obs/sound'"), "'obs/sound'"},
      {"Diary", Wrapper("grayscale", "GrayscaleConfig", "field: 'obs/told'"),
       "field 'obs/told' is float32[2] in [0, 1000], expected an image"},
      {"Diary", Wrapper("channels_first", "ChannelsFirstConfig", "field: 'obs/told'"),
       "expected an image"},
      {"Diary", Wrapper("frame_stack", "FrameStackConfig", image), "put 'channels_first' before"},
      {"Orchard", Wrapper("frame_stack") + Wrapper("resize"),
       "env.wrapper[1] 'resize': field 'obs' stacks frames already: put this wrapper before"},
      {"Diary", Wrapper("time_limit"), "params.max_steps is not set, expected at least 1"},
      {"Diary", Wrapper("time_limit", "CropConfig", ""), "CropConfig"},
      {"Diary", Wrapper("one_hot", "OneHotConfig", "field: 'obs/told'"), "expected categories"},
      {"Orchard", Wrapper("one_hot"), "no field has categories; found\nobs: uint8"},
      {"Diary", Wrapper("discretize_action"), "expected float32 with finite bounds"},
      {"Pendulum", Wrapper("clip_action") + Wrapper("rescale_action"),
       "env.wrapper[1] 'rescale_action' stands behind env.wrapper[0] 'clip_action'"},
      {"Pendulum",
       Wrapper("time_limit", "TimeLimitConfig", "max_steps: 9") + Wrapper("clip_action") +
           Wrapper("reward_clip") + Wrapper("discretize_action"),
       "env.wrapper[3] 'discretize_action' stands behind env.wrapper[1] 'clip_action'"},
      {"Pendulum", Wrapper("no_op_starts"), "expected one discrete action"},
      {"Diary", Wrapper("no_op_starts", "NoOpStartsConfig", "action: 4"), "expected 0 to 3"},
      {"Diary", Wrapper("episodic_life", "EpisodicLifeConfig", image), "expected one number"},
      {"Diary", Wrapper("reward_clip", "RewardClipConfig", "low: 2"), "expected low below high"},
      {"Diary", Wrapper("crop", "CropConfig", image + " left: 2 width: 2 height: 1"),
       "is not inside of"},
      {"Diary", Wrapper("mask_fields"), "expected fields in one of both"},
      {"House", Wrapper("time_left", "TimeLeftConfig", "field: 'obs/height'"),
       "env.wrapper[0] 'time_left': the env has no time limit: put 'time_limit' before"},
      {"Diary", Wrapper("time_left", "TimeLeftConfig", image),
       "field 'obs/image' is uint8[2, 3, 3], expected a float32 vector: put 'flatten' before"},
      {"Diary", Wrapper("time_left", "TimeLeftConfig", "field: 'obs/kind'"), "a float32 vector"},
      {"House",
       Wrapper("time_limit", "TimeLimitConfig", "max_steps: 9") +
           Wrapper("frame_stack", "FrameStackConfig", "field: 'obs/height'") +
           Wrapper("time_left", "TimeLeftConfig", "field: 'obs/height'"),
       "field 'obs/height' stacks frames already: put this wrapper before 'frame_stack'"},
  };
  for (const auto& [env, wrappers, message] : kCases) {
    SCOPED_TRACE(wrappers);
    const absl::Status status = ErrorOf(env, wrappers);
    EXPECT_FALSE(status.ok());
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
  }
}

EnvConformanceCase Case(const std::string& name, const std::string& env,
                        const std::string& wrappers) {
  return {name, [env, wrappers] { return create_env(Config(env, wrappers)); }};
}

INSTANTIATE_TEST_SUITE_P(
    Wrapped, EnvConformance,
    testing::Values(
        Case("Episodes", "CartPole",
             Wrapper("no_op_starts", "NoOpStartsConfig", "max_steps: 3 action: 1") +
                 Wrapper("sticky_actions") +
                 Wrapper("action_repeat", "ActionRepeatConfig", "count: 2") +
                 Wrapper("time_limit", "TimeLimitConfig", "max_steps: 12") +
                 Wrapper("reward_scale", "RewardScaleConfig", "scale: -2")),
        Case("Vectors", "CartPole",
             Wrapper("frame_stack", "FrameStackConfig", "count: 2") + Wrapper("flatten")),
        Case("TimeLeft", "CartPole",
             Wrapper("time_limit", "TimeLimitConfig", "max_steps: 12") + Wrapper("time_left")),
        Case("Images", "Orchard",
             Wrapper("crop", "CropConfig", "top: 1 width: 9 height: 8") +
                 Wrapper("resize", "ResizeConfig", "width: 7 height: 12") + Wrapper("frame_stack")),
        Case("Actions", "Pendulum",
             Wrapper("rescale_action") +
                 Wrapper("discretize_action", "DiscretizeActionConfig", "bins: 3"))),
    EnvConformanceName);

}  // namespace
}  // namespace ding
