#include "ding_worker/env/conformance.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/dtype.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/data/tensor.h"
#include "gmock/gmock.h"

namespace ding {
namespace {

constexpr uint64_t kSeeds[] = {0, 1, 20240607};
constexpr std::byte kUntouched{0xA5};

// A legal action, uniformly; what has no bounds is drawn from [-1, 1].
void DrawAction(const FieldSpec& spec, Rng* rng, const RowRef& action) {
  if (spec.is_discrete()) {
    const absl::Span<int64_t> values = action.field<int64_t>(0);
    for (size_t i = 0; i < values.size(); ++i) {
      const int64_t count = spec.CategoryCount(static_cast<int64_t>(i));
      values[i] = static_cast<int64_t>(rng->UniformInt(static_cast<uint64_t>(count)));
    }
    return;
  }
  const absl::Span<float> values = action.field<float>(0);
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t bound = spec.low.size() == 1 ? 0 : i;
    const double low = spec.low.empty() ? -1 : std::max(spec.low[bound], -1e6);
    const double high = spec.high.empty() ? 1 : std::min(spec.high[bound], 1e6);
    // Narrowing may round beyond a bound.
    values[i] = std::clamp(static_cast<float>(rng->Uniform(low, high)), static_cast<float>(low),
                           static_cast<float>(high));
  }
}

// What one call showed.
struct Moment {
  std::string obs;  // the bytes of the row
  StepResult result;

  bool over() const { return result.terminated || result.truncated || result.abnormal; }
};

bool operator==(const Moment& a, const Moment& b) {
  return a.obs == b.obs && std::memcmp(&a.result.reward, &b.result.reward, sizeof(float)) == 0 &&
         a.result.terminated == b.result.terminated && a.result.truncated == b.result.truncated &&
         a.result.abnormal == b.result.abnormal;
}

// Drives an env whose row is the middle one of three.
class Player {
 public:
  explicit Player(Env* env)
      : env_(env),
        rows_(*BatchBuilder::Create(env->spec().observation, 3)),
        actions_(*BatchBuilder::Create(env->spec().action, 1)) {}

  Moment Reset(uint64_t seed) {
    Blank();
    EXPECT_THAT(env_->Reset(EpisodeStart{seed, {}}, rows_.view().row(1)), IsOk());
    return See({});
  }

  Moment Step(Rng* rng) {
    Blank();
    DrawAction(env_->spec().action->field(0), rng, actions_.view().row(0));
    StepResult result;
    const ColumnsView actions = actions_.view();
    EXPECT_THAT(env_->Step(actions.row(0), rows_.view().row(1), &result), IsOk());
    return See(std::move(result));
  }

  // All moments of an episode, at most `max_steps` steps.
  std::vector<Moment> Episode(uint64_t seed, int64_t max_steps) {
    Rng rng(seed, "conformance/actions");
    std::vector<Moment> moments = {Reset(seed)};
    for (int64_t i = 0; i < max_steps && !moments.back().over(); ++i) {
      moments.push_back(Step(&rng));
    }
    return moments;
  }

  RowView obs() const { return ColumnsView(rows_.view()).row(1); }

 private:
  const Spec& spec() const { return *env_->spec().observation; }

  void Blank() {
    for (int i = 0; i < spec().size(); ++i) {
      std::fill_n(rows_.view().raw_column(i), 3 * spec().row_bytes(i), kUntouched);
    }
  }

  Moment See(StepResult result) {
    Moment moment;
    moment.result = std::move(result);
    for (int i = 0; i < spec().size(); ++i) {
      const std::byte* const column = rows_.view().raw_column(i);
      const int64_t bytes = spec().row_bytes(i);
      for (int64_t j = 0; j < bytes; ++j) {
        EXPECT_EQ(column[j], kUntouched) << "byte before the row of " << spec().field(i).name;
        EXPECT_EQ(column[2 * bytes + j], kUntouched)
            << "byte behind the row of " << spec().field(i).name;
      }
      moment.obs.append(reinterpret_cast<const char*>(column + bytes), static_cast<size_t>(bytes));
    }
    return moment;
  }

  Env* const env_;
  BatchBuilder rows_;
  BatchBuilder actions_;
};

// `values`, of one row, against the declared bounds or categories.
template <typename T>
void ExpectLegal(const FieldSpec& field, absl::Span<const T> values) {
  for (size_t i = 0; i < values.size(); ++i) {
    const std::string where = absl::StrCat(field.name, "[", i, "]");
    if (IsFloating(field.dtype)) {
      EXPECT_TRUE(std::isfinite(static_cast<double>(values[i]))) << where;
    }
    if (field.dtype == DType::kBool) {
      EXPECT_LE(values[i], T{1}) << where;
    }
    if (field.is_discrete()) {
      EXPECT_GE(values[i], T{0}) << where;
      EXPECT_LT(static_cast<int64_t>(values[i]), field.num_categories) << where;
    }
    if (field.low.empty()) continue;
    const size_t bound = field.low.size() == 1 ? 0 : i;
    // Bounds are as exact as the values: -1.2 is -1.2f.
    const bool narrow = field.dtype == DType::kFloat32;
    const double low = narrow ? static_cast<float>(field.low[bound]) : field.low[bound];
    const double high = narrow ? static_cast<float>(field.high[bound]) : field.high[bound];
    EXPECT_GE(static_cast<double>(values[i]), low) << where;
    EXPECT_LE(static_cast<double>(values[i]), high) << where;
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
        ADD_FAILURE() << field.name << " is float64";
    }
  }
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
    EXPECT_EQ(*spec.observation, *before.observation);
    EXPECT_EQ(*spec.action, *before.action);
    EXPECT_EQ(spec.max_episode_steps, before.max_episode_steps);
  }
}

TEST_P(EnvConformance, ValuesAreWithinBounds) {
  Player player(env_.get());
  for (const uint64_t seed : kSeeds) {
    SCOPED_TRACE(seed);
    Rng rng(seed, "conformance/actions");
    bool over = player.Reset(seed).over();
    ExpectLegalRow(player.obs());
    for (int64_t step = 1; step <= GetParam().max_steps && !over; ++step) {
      SCOPED_TRACE(step);
      const Moment moment = player.Step(&rng);
      over = moment.over();
      ExpectLegalRow(player.obs());
      EXPECT_TRUE(std::isfinite(moment.result.reward));
      EXPECT_GE(moment.result.reward, static_cast<float>(env_->spec().reward_low));
      EXPECT_LE(moment.result.reward, static_cast<float>(env_->spec().reward_high));
      if (HasFailure()) return;
    }
  }
}

TEST_P(EnvConformance, EpisodeIsAFunctionOfSeedAndActions) {
  const std::unique_ptr<Env> other = NewEnv();
  // The other one plays in reverse order: nothing is left over from the episode before.
  std::vector<std::vector<Moment>> episodes;
  for (const uint64_t seed : kSeeds) {
    episodes.push_back(Player(env_.get()).Episode(seed, GetParam().max_steps));
  }
  for (size_t i = episodes.size(); i-- > 0;) {
    EXPECT_TRUE(Player(other.get()).Episode(kSeeds[i], GetParam().max_steps) == episodes[i])
        << "seed " << kSeeds[i];
  }
}

TEST_P(EnvConformance, TimeLimitEndsTheEpisode) {
  const int64_t limit = env_->spec().max_episode_steps;
  if (limit == 0 || limit > GetParam().max_steps) GTEST_SKIP() << "no limit within max_steps";
  for (const uint64_t seed : kSeeds) {
    const std::vector<Moment> moments = Player(env_.get()).Episode(seed, limit + 1);
    const int64_t steps = static_cast<int64_t>(moments.size()) - 1;
    EXPECT_LE(steps, limit) << "seed " << seed;
    EXPECT_TRUE(moments.back().over()) << "seed " << seed;
  }
}

TEST_P(EnvConformance, SavedEpisodeContinuesTheSame) {
  const std::unique_ptr<Env> other = NewEnv();
  Player player(env_.get());
  Player replayer(other.get());
  // Half of an episode, at most.
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

  // Into an env that is in the middle of something else.
  replayer.Episode(kSeeds[1], 3);
  ASSERT_THAT(other->LoadState(&saved), IsOk());
  Rng same_rng = rng;
  for (int64_t i = length / 2; i < length; ++i) {
    EXPECT_TRUE(player.Step(&rng) == replayer.Step(&same_rng)) << "step " << i + 1;
  }
}

}  // namespace ding
