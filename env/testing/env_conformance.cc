#include "ding_worker/env/testing/env_conformance.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/base/call_user.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/data/tensor.h"
#include "ding_worker/env/env_host.h"
#include "gmock/gmock.h"

namespace ding {
namespace {

constexpr uint64_t kSeeds[] = {0, 1, 20240607};

// Draws uniformly from a box; an element without bounds is drawn from [-1, 1].
void DrawBox(const FieldSpec& spec, Rng* rng, absl::Span<float> values) {
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t bound = spec.low.size() == 1 ? 0 : i;
    const double low = spec.low.empty() ? -1 : std::max(spec.low[bound], -1e6);
    const double high = spec.high.empty() ? 1 : std::min(spec.high[bound], 1e6);
    // The conversion to float may round beyond a bound.
    values[i] = std::clamp(static_cast<float>(rng->Uniform(low, high)), static_cast<float>(low),
                           static_cast<float>(high));
  }
}

// The observation and result of one call.
struct Moment {
  std::string obs;  // the bytes of the row
  StepResult result;

  bool over() const { return result.terminated || result.truncated || result.abnormal; }
};

bool SameBits(float a, float b) { return std::memcmp(&a, &b, sizeof(float)) == 0; }

bool operator==(const Moment& a, const Moment& b) {
  return a.obs == b.obs && SameBits(a.result.reward, b.result.reward) &&
         std::equal(a.result.other_rewards.begin(), a.result.other_rewards.end(),
                    b.result.other_rewards.begin(), b.result.other_rewards.end(), SameBits) &&
         std::equal(a.result.reward_components.begin(), a.result.reward_components.end(),
                    b.result.reward_components.begin(), b.result.reward_components.end(),
                    SameBits) &&
         a.result.player_ends == b.result.player_ends &&
         a.result.terminated == b.result.terminated && a.result.truncated == b.result.truncated &&
         a.result.abnormal == b.result.abnormal;
}

// Drives an env whose row is the middle one of three. All rows are filled with `blank` before each
// call.
class Player {
 public:
  explicit Player(Env* env, std::byte blank = std::byte{0xA5})
      : env_(env),
        blank_(blank),
        rows_(*BatchBuilder::Create(env->spec().observation, 3)),
        actions_(*BatchBuilder::Create(env->spec().action, 1)) {}

  Moment Reset(uint64_t seed) {
    Blank();
    out_.assign(static_cast<size_t>(env_->spec().players), 0);
    const absl::Status status = CallUser("it", [&] {
      return env_->Reset(EpisodeStart{seed, {}}, rows_.view().row(1));
    });
    EXPECT_THAT(status, IsOk()) << "Reset() with seed " << seed;
    return See("Reset()", {});
  }

  // Steps with random legal actions of all players.
  Moment Step(Rng* rng) {
    DrawActions(rng);
    Blank();
    const ColumnsView actions = actions_.view();
    StepResult result;
    ClearStepResult(env_->spec(), &result);
    const absl::Status status =
        CallUser("it", [&] { return env_->Step(actions.row(0), rows_.view().row(1), &result); });
    EXPECT_THAT(status, IsOk()) << "Step() with " << DescribeActions();
    EXPECT_EQ(result.other_rewards.size(), static_cast<size_t>(env_->spec().players - 1))
        << "Step() resized other_rewards: a game of " << env_->spec().players
        << " players has that many without player 0";
    EXPECT_THAT(CheckRewardComponents(env_->spec(), result), IsOk()) << "Step()";
    EXPECT_THAT(CheckPlayerEnds(env_->spec(), result), IsOk()) << "Step()";
    EXPECT_THAT(CheckInfoRow(env_->spec(), result), IsOk()) << "Step()";
    NotePlayerEnds(&result);
    return See("Step()", std::move(result));
  }

  // Plays an episode of at most `max_steps` steps and returns all its moments.
  std::vector<Moment> Episode(uint64_t seed, int64_t max_steps) {
    Rng rng(seed, "conformance/actions");
    std::vector<Moment> moments = {Reset(seed)};
    for (int64_t i = 0; i < max_steps && !moments.back().over(); ++i) {
      moments.push_back(Step(&rng));
      if (testing::Test::HasFailure()) break;
    }
    return moments;
  }

  // Copies the row of `other` and who plays, as a manager does that restores an env.
  void TakeRowOf(const Player& other) {
    out_ = other.out_;
    for (int i = 0; i < spec().size(); ++i) {
      std::memcpy(rows_.view().raw_column(i), other.rows_.view().raw_column(i),
                  static_cast<size_t>(3 * spec().row_bytes(i)));
    }
  }

  RowView obs() const { return ColumnsView(rows_.view()).row(1); }

 private:
  const Spec& spec() const { return *env_->spec().observation; }

  // Players that ended before get nothing any more; when all have ended, so has the game.
  void NotePlayerEnds(StepResult* result) {
    for (size_t i = 0; i < std::min(result->player_ends.size(), out_.size()); ++i) {
      const float reward = i == 0 || i > result->other_rewards.size()
                               ? result->reward
                               : result->other_rewards[i - 1];
      if (out_[i] != 0) {
        EXPECT_EQ(reward, 0) << "the reward of player " << i << ", which has ended before";
      }
      if (result->player_ends[i] != PlayerEnd::kNone) out_[i] = 1;
    }
    if (env_->spec().players == 1 || std::count(out_.begin(), out_.end(), 0) > 0) return;
    if (!result->terminated) result->truncated = true;
  }

  void DrawActions(Rng* rng) {
    const RowRef row = actions_.view().row(0);
    for (int player = 0; player < env_->spec().players; ++player) {
      const FieldSpec& field = env_->spec().action->field(player);
      if (out_[static_cast<size_t>(player)] != 0) continue;
      if (!field.is_discrete()) {
        DrawBox(field, rng, row.field<float>(player));
        continue;
      }
      const int mask_field = ActionMaskField(env_->spec(), player);
      absl::Span<const uint8_t> mask;
      if (mask_field >= 0) mask = obs().field<uint8_t>(mask_field);
      EXPECT_THAT(DrawCategories(field, mask, rng, row.field<int64_t>(player)), IsOk())
          << "the episode goes on, and player " << player << " can do nothing";
    }
  }

  std::string DescribeActions() const {
    const RowView row = ColumnsView(actions_.view()).row(0);
    std::vector<std::string> parts;
    for (int i = 0; i < row.spec().size(); ++i) {
      const FieldSpec& field = row.spec().field(i);
      parts.push_back(absl::StrCat(field.name, " [",
                                   field.is_discrete() ? absl::StrJoin(row.field<int64_t>(i), " ")
                                                       : absl::StrJoin(row.field<float>(i), " "),
                                   "]"));
    }
    return absl::StrJoin(parts, ", ");
  }

  void Blank() {
    for (int i = 0; i < spec().size(); ++i) {
      std::fill_n(rows_.view().raw_column(i), 3 * spec().row_bytes(i), blank_);
    }
  }

  Moment See(absl::string_view call, StepResult result) {
    Moment moment;
    moment.result = std::move(result);
    for (int i = 0; i < spec().size(); ++i) {
      const std::byte* const column = rows_.view().raw_column(i);
      const int64_t bytes = spec().row_bytes(i);
      const auto untouched = [this](std::byte byte) { return byte == blank_; };
      const bool alone = std::all_of(column, column + bytes, untouched) &&
                         std::all_of(column + 2 * bytes, column + 3 * bytes, untouched);
      EXPECT_TRUE(alone) << call << " wrote outside its row of '" << spec().field(i).name
                         << "', which has " << spec().field(i).num_elements() << " elements";
      moment.obs.append(reinterpret_cast<const char*>(column + bytes), static_cast<size_t>(bytes));
    }
    return moment;
  }

  Env* const env_;
  const std::byte blank_;
  BatchBuilder rows_;
  BatchBuilder actions_;
  std::vector<uint8_t> out_;  // per player, whether it has ended in this episode
};

// Describes what is wrong with `value`, element `i` of `field`; empty if it is legal.
template <typename T>
std::string Complaint(const FieldSpec& field, size_t i, T value) {
  const auto number = static_cast<double>(value);
  if (!std::isfinite(number)) return "expected a finite number";
  if (field.dtype == DType::kBool && number > 1) return "expected 0 or 1";
  if (field.is_discrete()) {
    const int64_t count = field.CategoryCount(static_cast<int64_t>(i));
    if (number >= 0 && number < static_cast<double>(count)) return "";
    return absl::StrCat("expected a category, 0..", count - 1);
  }
  if (field.low.empty()) return "";
  const size_t bound = field.low.size() == 1 ? 0 : i;
  // Compares bounds in the precision of the values, so that -1.2 equals -1.2f.
  const bool narrow = field.dtype == DType::kFloat32;
  const double low = narrow ? static_cast<float>(field.low[bound]) : field.low[bound];
  const double high = narrow ? static_cast<float>(field.high[bound]) : field.high[bound];
  if (number >= low && number <= high) return "";
  return absl::StrCat("expected a value in [", low, ", ", high, "] as its spec says");
}

// Checks the values of one row against the declared bounds or categories.
template <typename T>
void ExpectLegal(const FieldSpec& field, absl::Span<const T> values) {
  for (size_t i = 0; i < values.size(); ++i) {
    const std::string complaint = Complaint(field, i, values[i]);
    if (complaint.empty()) continue;
    ADD_FAILURE() << "observation '" << field.name << "' element " << i << " is " << +values[i]
                  << ", " << complaint;
    return;  // One failure per row is enough.
  }
}

void ExpectLegalRow(const RowView& row) {
  for (int i = 0; i < row.spec().size(); ++i) {
    const FieldSpec& field = row.spec().field(i);
    switch (field.dtype) {
      case DType::kBool:
      case DType::kUint8:
        ExpectLegal(field, row.field<uint8_t>(i));
        break;
      case DType::kInt32:
        ExpectLegal(field, row.field<int32_t>(i));
        break;
      case DType::kInt64:
        ExpectLegal(field, row.field<int64_t>(i));
        break;
      case DType::kFloat32:
        ExpectLegal(field, row.field<float>(i));
        break;
      case DType::kFloat64:
        ADD_FAILURE() << "observation '" << field.name << "' is float64, expected float32";
    }
  }
}

// Checks the rewards of all players, or all components of the reward.
void ExpectLegalRewards(const EnvSpec& spec, const StepResult& result) {
  const bool has_components = spec.reward_components() > 0;
  std::vector<float> rewards = has_components ? result.reward_components : result.other_rewards;
  if (!has_components) rewards.insert(rewards.begin(), result.reward);
  for (size_t i = 0; i < rewards.size(); ++i) {
    const float reward = rewards[i];
    EXPECT_TRUE(std::isfinite(reward) && reward >= static_cast<float>(spec.reward_low) &&
                reward <= static_cast<float>(spec.reward_high))
        << (has_components ? "component " : "the reward of player ") << i
        << (has_components ? " of the reward is " : " is ") << reward << ", expected one in ["
        << spec.reward_low << ", " << spec.reward_high << "] as the spec says";
  }
}

// Names the field and the element that byte `offset` of a row belongs to.
std::string NameOfByte(const Spec& spec, size_t offset) {
  for (int i = 0; i < spec.size(); ++i) {
    const auto bytes = static_cast<size_t>(spec.row_bytes(i));
    if (offset < bytes) {
      const FieldSpec& field = spec.field(i);
      const auto size = static_cast<size_t>(SizeOf(field.dtype));
      return absl::StrCat("element ", offset / size, " of '", field.name, "' ",
                          field.DebugString());
    }
    offset -= bytes;
  }
  return "nothing";
}

bool SameTensors(const TensorMap& a, const TensorMap& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const TensorMap::Entry& x, const TensorMap::Entry& y) {
                      return x.first == y.first && BitwiseEqual(x.second, y.second);
                    });
}

}  // namespace

void EnvConformance::SetUp() {
  env_ = NewEnv();
  ASSERT_NE(env_, nullptr);
  ASSERT_THAT(ValidateEnvSpec(env_->spec()), IsOk());
}

std::unique_ptr<Env> EnvConformance::NewEnv() const {
  absl::StatusOr<std::unique_ptr<Env>> env = GetParam().factory();
  EXPECT_THAT(env, IsOk());
  return env.ok() ? *std::move(env) : nullptr;
}

std::string EnvConformanceName(const testing::TestParamInfo<EnvConformanceCase>& info) {
  return info.param.name;
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(EnvConformance);

TEST_P(EnvConformance, SpecIsNamedAndStaysTheSame) {
  EXPECT_FALSE(env_->spec().name.empty());
  EXPECT_LE(env_->spec().reward_low, env_->spec().reward_high);
  const EnvSpec before = env_->spec();
  Player(env_.get()).Episode(kSeeds[0], GetParam().max_steps);
  for (const EnvSpec& spec : {env_->spec(), NewEnv()->spec()}) {
    EXPECT_EQ(spec.name, before.name);
    EXPECT_TRUE(*spec.observation == *before.observation)
        << "the observation was\n"
        << before.observation->DebugString() << "\nand is now\n"
        << spec.observation->DebugString();
    EXPECT_TRUE(*spec.action == *before.action) << "the action was\n"
                                                << before.action->DebugString() << "\nand is now\n"
                                                << spec.action->DebugString();
    EXPECT_EQ(spec.reward_shape, before.reward_shape);
    EXPECT_EQ(spec.max_episode_steps, before.max_episode_steps);
  }
}

TEST_P(EnvConformance, ValuesAreWithinBounds) {
  Player player(env_.get());
  for (const uint64_t seed : kSeeds) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Rng rng(seed, "conformance/actions");
    bool over = player.Reset(seed).over();
    ExpectLegalRow(player.obs());
    for (int64_t step = 1; step <= GetParam().max_steps && !over; ++step) {
      SCOPED_TRACE(absl::StrCat("step ", step));
      const Moment moment = player.Step(&rng);
      over = moment.over();
      ExpectLegalRow(player.obs());
      ExpectLegalRewards(env_->spec(), moment.result);
      if (HasFailure()) return;
    }
  }
}

TEST_P(EnvConformance, WholeRowsAreWritten) {
  // A byte that the env did not write keeps its previous value.
  const std::unique_ptr<Env> other = NewEnv();
  const std::vector<Moment> moments = Player(env_.get()).Episode(kSeeds[0], GetParam().max_steps);
  const std::vector<Moment> again =
      Player(other.get(), std::byte{0x5A}).Episode(kSeeds[0], GetParam().max_steps);
  for (size_t i = 0; i < std::min(moments.size(), again.size()); ++i) {
    const auto [byte, other_byte] =
        std::mismatch(moments[i].obs.begin(), moments[i].obs.end(), again[i].obs.begin());
    if (byte == moments[i].obs.end()) continue;
    const auto offset = static_cast<size_t>(byte - moments[i].obs.begin());
    // Both bytes were written: the episodes differ, which another test checks.
    if (*byte != '\xA5' || *other_byte != '\x5A') return;
    FAIL() << (i == 0 ? std::string("Reset()") : absl::StrCat("Step() number ", i))
           << " did not write " << NameOfByte(*env_->spec().observation, offset);
  }
}

TEST_P(EnvConformance, EpisodeIsAFunctionOfSeedAndActions) {
  const std::unique_ptr<Env> other = NewEnv();
  // The other env plays the seeds in reverse order, to show that no state is left over.
  std::vector<std::vector<Moment>> episodes;
  for (const uint64_t seed : kSeeds) {
    episodes.push_back(Player(env_.get()).Episode(seed, GetParam().max_steps));
  }
  for (size_t i = episodes.size(); i-- > 0;) {
    EXPECT_TRUE(Player(other.get()).Episode(kSeeds[i], GetParam().max_steps) == episodes[i])
        << "two episodes with seed " << kSeeds[i]
        << " and the same actions differ: draw everything random from EpisodeStart::seed, and "
           "let Reset() clear the state of the episode before";
  }
}

TEST_P(EnvConformance, TimeLimitEndsTheEpisode) {
  const int64_t limit = env_->spec().max_episode_steps;
  if (limit == 0 || limit > GetParam().max_steps) GTEST_SKIP() << "no limit within max_steps";
  for (const uint64_t seed : kSeeds) {
    const std::vector<Moment> moments = Player(env_.get()).Episode(seed, limit + 1);
    const int64_t steps = static_cast<int64_t>(moments.size()) - 1;
    EXPECT_TRUE(steps <= limit && moments.back().over())
        << "seed " << seed << ": the episode goes on after step " << steps
        << ", expected its end by step " << limit << " (max_episode_steps)";
  }
}

TEST_P(EnvConformance, SavedEpisodeContinuesTheSame) {
  const std::unique_ptr<Env> other = NewEnv();
  Player player(env_.get());
  Player replayer(other.get());
  // At most half of an episode.
  const int64_t length =
      static_cast<int64_t>(player.Episode(kSeeds[0], GetParam().max_steps).size()) - 1;
  Rng rng(kSeeds[0], "conformance/actions");
  player.Reset(kSeeds[0]);
  for (int64_t i = 0; i < length / 2; ++i) player.Step(&rng);

  StateDict saved;
  const absl::Status status = env_->SaveState(&saved);
  if (absl::IsUnimplemented(status)) GTEST_SKIP() << status;
  ASSERT_THAT(status, IsOk());
  StateDict again;
  ASSERT_THAT(env_->SaveState(&again), IsOk());
  EXPECT_TRUE(SameTensors(saved.tensors(), again.tensors()));

  // Loads into an env that is in the middle of another episode.
  replayer.Episode(kSeeds[1], 3);
  ASSERT_THAT(other->LoadState(&saved), IsOk());
  replayer.TakeRowOf(player);
  Rng same_rng = rng;
  for (int64_t i = length / 2; i < length; ++i) {
    EXPECT_TRUE(player.Step(&rng) == replayer.Step(&same_rng))
        << "the restored env differs from the saved one at step " << i + 1;
    if (HasFailure()) return;
  }
}

}  // namespace ding
