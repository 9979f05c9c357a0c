#include "ding_worker/policy/actor/actor.h"

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "ding_worker/base/allocation_count.h"
#include "ding_worker/base/cpu.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/checkpoint.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/spec_json.h"
#include "ding_worker/policy/actor/actor_description.h"
#include "ding_worker/policy/actor/actor_network.h"
#include "ding_worker/policy/actor/row_products.h"
#include "ding_worker/policy/actor/testing/actor_checkpoints.h"
#include "ding_worker/policy/policy.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using internal_actor::Convolution;
using internal_actor::PackedMatrix;
using internal_actor::RowKernels;
using internal_actor::RowKernelsFor;
using internal_actor::RowProduct;

// Random observations, in whose masks at least one category of each element is legal.
BatchBuilder RandomObservations(const SpecPtr& spec, int64_t rows, uint64_t seed) {
  BatchBuilder obs = BatchBuilder::Create(spec, rows).value();
  Rng rng(seed, "observations");
  for (int field = 0; field < spec->size(); ++field) {
    if (spec->field(field).name == kActionMaskField) {
      for (uint8_t& legal : obs.column<uint8_t>(field)) legal = rng.Uniform() < 0.6 ? 1 : 0;
      const int64_t width = spec->field(field).num_elements();
      for (int64_t row = 0; row < rows; ++row) {
        obs.column<uint8_t>(field)[row * width] = 1;
        obs.column<uint8_t>(field)[row * width + 3] = 1;
      }
    } else {
      for (float& value : obs.column<float>(field)) value = static_cast<float>(3 * rng.Normal());
    }
  }
  return obs;
}

// The exact values of a column as text, to compare and print.
std::string ActionsOf(const ColumnsView& actions) {
  std::string text;
  if (actions.spec().field(0).is_discrete()) {
    for (const int64_t action : actions.column<int64_t>(0)) absl::StrAppend(&text, action, " ");
  } else {
    for (const float action : actions.column<float>(0)) absl::StrAppendFormat(&text, "%a ", action);
  }
  return text;
}

std::string PathOf(const std::string& name) { return JoinPath(testing::TempDir(), name); }

class ActorCaseTest : public testing::TestWithParam<ActorCase> {
 protected:
  ActorCaseTest() : path_(PathOf("actor_" + GetParam().name)) {
    EXPECT_THAT(RemoveRecursively(path_), IsOk());
    policy_ = MakeRandomPolicy(GetParam());
    SaveActorCheckpoint(GetParam(), policy_.get(), path_);
  }

  const std::string path_;
  std::unique_ptr<Policy> policy_;
};

// Runs steps of episodes of several sizes; `forward` is the mode of the policy.
template <typename Mode>
void ExpectSameActions(const ActorCase& of, Actor* actor, Mode* mode, const NamedValues& settings) {
  std::set<std::string> seen;
  for (const int64_t rows : {1, 3, 8, 70, 1}) {
    ASSERT_THAT(mode->Reset({}), IsOk());
    actor->Begin();
    std::vector<int> ids;
    for (int i = 0; i < rows; ++i) ids.push_back(static_cast<int>(rows) - 1 - i);
    for (uint64_t step = 0; step < 5; ++step) {
      const BatchBuilder obs = RandomObservations(of.observation, rows, step);
      const BatchBuilder out = BatchBuilder::Create(mode->output_spec(), rows).value();
      ASSERT_THAT(mode->Forward(obs.view(), ids, settings, out.view()), IsOk());
      DING_ASSERT_OK_AND_ASSIGN(const ColumnsView actions, actor->Act(obs.view(), ids));
      const std::string expected = ActionsOf(ColumnsView(out.view()).Fields(of.action.get(), 0));
      EXPECT_EQ(ActionsOf(actions), expected) << rows << " rows, step " << step;
      seen.insert(expected);
    }
  }
  EXPECT_GT(seen.size(), 5u) << "the test cannot fail";
}

TEST_P(ActorCaseTest, ActsAsTheEvalMode) {
  DING_ASSERT_OK_AND_ASSIGN(const auto actor, Actor::Load(path_));
  EXPECT_EQ(*actor->observation(), *GetParam().observation);
  EXPECT_EQ(*actor->action(), *GetParam().action);
  ExpectSameActions(GetParam(), actor.get(), policy_->eval_mode(), {});
}

TEST_P(ActorCaseTest, DrawsAsTheCollectMode) {
  const std::unique_ptr<Policy> policy = MakeRandomPolicy(GetParam(), /*seed=*/7);
  Actor::Options options;
  options.sample = true;
  options.seed = 7;
  if (absl::StartsWith(GetParam().name, "Rainbow")) {
    EXPECT_THAT(Actor::Load(path_, options).status(), IsFailedPrecondition("explores by noise"));
    return;
  }
  if (absl::StartsWith(GetParam().name, "Iqn")) GTEST_SKIP() << "it collects at random fractions";
  DING_ASSERT_OK_AND_ASSIGN(const auto actor, Actor::Load(path_, options));
  const NamedValues settings = policy->command_mode()->GetSettingCollect({{"envstep", 1000}});
  ExpectSameActions(GetParam(), actor.get(), policy->collect_mode(), settings);
}

TEST_P(ActorCaseTest, ActingAllocatesNothingWhileSizesRepeat) {
  for (const bool sample : {false, true}) {
    if (sample && absl::StartsWith(GetParam().name, "Rainbow")) continue;  // It is refused.
    Actor::Options options;
    options.sample = sample;
    DING_ASSERT_OK_AND_ASSIGN(const auto actor, Actor::Load(path_, options));
    const BatchBuilder obs = RandomObservations(GetParam().observation, 8, 1);
    ASSERT_THAT(actor->Act(obs.view()), IsOk());
    const int64_t before = AllocationCount();
    for (const int64_t rows : {8, 1, 3, 8}) {
      if (!actor->Act(obs.view().Slice(0, rows)).ok()) FAIL();
    }
    EXPECT_EQ(AllocationCount(), before) << sample;
  }
}

INSTANTIATE_TEST_SUITE_P(All, ActorCaseTest, testing::ValuesIn(ActorCases()),
                         [](const auto& info) { return info.param.name; });

class ActorTest : public testing::Test {
 protected:
  ActorTest() : path_(PathOf("actor_test")), case_(FindActorCase("DqnMaskTanh")) {
    EXPECT_THAT(RemoveRecursively(path_), IsOk());
  }
  void Save(const std::function<void(CheckpointInfo*)>& change = {}) {
    SaveActorCheckpoint(case_, MakeRandomPolicy(case_).get(), path_, change);
  }

  const std::string path_;
  ActorCase case_;
};

TEST_F(ActorTest, RefusesObservationsThatDoNotFit) {
  Save();
  DING_ASSERT_OK_AND_ASSIGN(const auto actor, Actor::Load(path_));
  const BatchBuilder other = RandomObservations(FindActorCase("Bc").observation, 1, /*seed=*/0);
  EXPECT_THAT(actor->Act(other.view()), IsInvalid());
  const BatchBuilder obs = RandomObservations(case_.observation, 2, /*seed=*/0);
  EXPECT_THAT(actor->Act(obs.view(), {0}).status(), IsInvalid("1 ids for 2 rows"));
  EXPECT_THAT(actor->Act(obs.view(), {0, -1}).status(), IsInvalid("id -1"));
  for (uint8_t& legal : obs.column<uint8_t>(1)) legal = 0;
  EXPECT_THAT(actor->Act(obs.view()).status(), IsInvalid("no legal action"));
}

TEST_F(ActorTest, ABadObservationChangesNoState) {
  case_ = FindActorCase("PpoGru");
  Save();
  DING_ASSERT_OK_AND_ASSIGN(const auto actor, Actor::Load(path_));
  DING_ASSERT_OK_AND_ASSIGN(const auto undisturbed, Actor::Load(path_));
  const BatchBuilder obs = RandomObservations(case_.observation, 1, 0);
  const BatchBuilder bad = RandomObservations(case_.observation, 1, 0);
  bad.column<float>(0)[2] = std::numeric_limits<float>::quiet_NaN();
  for (int step = 0; step < 3; ++step) {
    DING_ASSERT_OK_AND_ASSIGN(const ColumnsView expected, undisturbed->Act(obs.view()));
    DING_ASSERT_OK_AND_ASSIGN(const ColumnsView action, actor->Act(obs.view()));
    EXPECT_EQ(ActionsOf(action), ActionsOf(expected));
    EXPECT_THAT(actor->Act(bad.view()).status(), IsInternal());
  }
}

TEST_F(ActorTest, NamesWhatIsWrongWithACheckpoint) {
  const auto expect = [&](const char* field, const std::string& value, absl::StatusCode code,
                          const std::string& text) {
    Save([&](CheckpointInfo* info) {
      info->fields[field] = value;
      if (value.empty()) info->fields.erase(field);
    });
    EXPECT_THAT(Actor::Load(path_).status(), IsError(code, path_, text)) << field << " = " << value;
  };
  const std::string description = ActorCheckpointInfo(case_).fields[kActorField];
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string text = description;
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << text;
    return at == std::string::npos ? text : text.replace(at, from.size(), to);
  };
  using Code = absl::StatusCode;
  expect(kActorField, "", Code::kFailedPrecondition, "an earlier version wrote it");
  expect(kActorField, changed("\"version\":1", "\"version\":2"), Code::kFailedPrecondition,
         "version 2, expected 1");
  expect(kActorField, ActorProblemToJson("policy 'mine' is special"), Code::kFailedPrecondition,
         "policy 'mine' is special");
  expect(kActorField, "{", Code::kInvalidArgument, "no JSON");
  expect(kActorField, changed("\"tanh\"", "\"gelu\""), Code::kInvalidArgument,
         "'network.activation' is \"gelu\", expected 'relu' or 'tanh'");
  expect(kActorField, changed("\"head\":\"q\"", "\"head\":\"beta\""), Code::kUnimplemented,
         "found head 'beta', which this version does not know; it knows: q, "
         "q_distribution, categorical, normal, squashed_normal, tanh, tanh_normal");
  expect(kActorField, changed("[20,7]", "[20,9]"), Code::kInvalidArgument,
         "'encoder/1/weight' is float32[7, 20], expected float32[9, 20]");
  expect(kActorField, changed("[20,7]", "[20]"), Code::kInvalidArgument,
         "'encoder/1/weight' is unknown");
  expect(kObservationField, "", Code::kFailedPrecondition, "the space 'observation'");
  expect(kActionField, SpecToJson(*FindActorCase("Bc").action), Code::kInvalidArgument,
         "is not discrete");
  expect(kActionField, "[]", Code::kInvalidArgument, "");
  EXPECT_THAT(Actor::Load(path_ + "_none").status(), StatusIs(Code::kNotFound));
}

TEST_F(ActorTest, Load_TooManyFractions_IsRefused) {
  case_ = FindActorCase("IqnTanh");
  const auto expect = [&](const std::string& from, const std::string& to, const std::string& text) {
    Save([&](CheckpointInfo* info) {
      std::string& actor = info->fields[kActorField];
      ASSERT_NE(actor.find(from), std::string::npos) << actor;
      actor.replace(actor.find(from), from.size(), to);
    });
    EXPECT_THAT(Actor::Load(path_).status(), IsInvalid(text));
  };
  expect("\"size\":8", "\"size\":5000", "'distribution.size' is 5000");
  expect("\"cosines\":64", "\"cosines\":63", "'cosine/0/weight' is float32");
  // 4096 fractions of a wide layer would take gigabytes, although the file is small.
  case_.config = absl::StrReplaceAll(case_.config, {{"fractions: 8", "fractions: 4096"}});
  expect("[40]", "[32768]", "expected at least 1 feature, at most 67108864");
}

TEST_F(ActorTest, RefusesACheckpointOfAnotherVersion) {
  Save();
  const std::string manifest = JoinPath(path_, "manifest.json");
  DING_ASSERT_OK_AND_ASSIGN(std::string text, ReadFile(manifest));
  const std::string version = "\"major_version\": 1";
  ASSERT_NE(text.find(version), std::string::npos);
  text.replace(text.find(version), version.size(), "\"major_version\": 2");
  text.resize(text.rfind(",\n"));
  ASSERT_THAT(WriteFileAtomically(manifest, text + internal_data::ManifestEnd(text)), IsOk());
  EXPECT_THAT(Actor::Load(path_).status(), IsFailedPrecondition("version"));
}

std::vector<float> RandomFloats(int64_t size, Rng* rng) {
  std::vector<float> values(static_cast<size_t>(size));
  for (float& value : values) value = static_cast<float>(rng->Normal());
  return values;
}

struct Product {
  Product(int64_t out, int64_t in, int64_t rows) : out(out), in(in), rows(rows), packed(out, in) {
    Rng rng(static_cast<uint64_t>(out * 1000 + in * 10 + rows), "row_products_test");
    weight = RandomFloats(out * in, &rng);
    for (int64_t o = 0; o < out; ++o) packed.SetRow(o, weight.data() + o * in);
    x = RandomFloats(rows * x_row(), &rng);
    bias = RandomFloats(packed.padded_out(), &rng);
    y = RandomFloats(rows * packed.padded_out(), &rng);
  }
  int64_t x_row() const { return in + 3; }
  RowProduct Request() {
    RowProduct product;
    product.weight = &packed;
    product.rows = rows;
    product.x = x.data();
    product.x_row = x_row();
    product.y = y.data();
    product.y_row = packed.padded_out();
    product.bias = bias.data();
    return product;
  }
  // Without the start of the sum.
  double Expected(int64_t row, int64_t o) const {
    double sum = 0;
    for (int64_t i = 0; i < in; ++i) sum += double{weight[o * in + i]} * x[row * x_row() + i];
    return sum;
  }

  const int64_t out;
  const int64_t in;
  const int64_t rows;
  PackedMatrix packed;
  std::vector<float> weight;
  std::vector<float> x;
  std::vector<float> bias;
  std::vector<float> y;
};

class RowProductsTest : public testing::TestWithParam<InstructionSet> {
 protected:
  const RowKernels& kernels_ = RowKernelsFor(GetParam());
};

TEST_P(RowProductsTest, MultipliesEverySize) {
  for (const int64_t out : {1, 16, 17, 40, 64, 130, 150, 200}) {
    for (const int64_t in : {1, 2, 7, 64}) {
      for (const int64_t rows : {1, 2, 3, 4, 5, 6, 7, 8, 13, 64}) {
        for (const bool adds : {false, true}) {
          Product p(out, in, rows);
          const std::vector<float> before = p.y;
          RowProduct request = p.Request();
          if (adds) request.bias = nullptr;
          kernels_.multiply(request);
          for (int64_t row = 0; row < rows; ++row) {
            for (int64_t o = 0; o < out; ++o) {
              const int64_t at = row * p.packed.padded_out() + o;
              const double start = adds ? before[at] : p.bias[o];
              ASSERT_NEAR(p.y[at], start + p.Expected(row, o), 2e-5)
                  << out << " x " << in << ", " << rows << " rows: " << row << ", " << o;
            }
          }
        }
      }
    }
  }
}

TEST_P(RowProductsTest, ARowHasTheSameBytesInEveryBatch) {
  Product all(130, 33, 64);
  kernels_.multiply(all.Request());
  for (int64_t row = 0; row < all.rows; ++row) {
    std::vector<float> y(static_cast<size_t>(all.packed.padded_out()));
    RowProduct one = all.Request();
    one.rows = 1;
    one.x += row * one.x_row;
    one.y = y.data();
    kernels_.multiply(one);
    for (size_t o = 0; o < y.size(); ++o) ASSERT_EQ(y[o], all.y[row * y.size() + o]) << row;
  }
}

TEST_P(RowProductsTest, ReluKeepsNaN) {
  Product p(20, 3, 2);
  p.x[0] = std::numeric_limits<float>::quiet_NaN();
  RowProduct request = p.Request();
  request.relu = true;
  kernels_.multiply(request);
  bool positive = false;
  for (int64_t o = 0; o < p.out; ++o) {
    EXPECT_TRUE(std::isnan(p.y[o]));
    const float value = p.y[p.packed.padded_out() + o];
    EXPECT_NEAR(value, std::fmax(0, p.bias[o] + p.Expected(1, o)), 1e-5);
    positive = positive || value > 0;
  }
  EXPECT_TRUE(positive);
}

INSTANTIATE_TEST_SUITE_P(Sets, RowProductsTest, testing::ValuesIn(SupportedInstructionSets()),
                         [](const auto& info) { return InstructionSetName(info.param); });

struct Case {
  int64_t channels;
  int64_t rows;
  int64_t columns;
  ConvOptions options;
};

ModelConvolution RandomConvolution(const Case& of, Rng* rng) {
  ModelConvolution model;
  const ConvOptions& options = of.options;
  model.layer.options = options;
  model.layer.in = {of.channels, of.rows, of.columns};
  model.layer.out = {options.channels,
                     (of.rows + 2 * options.padding - options.kernel) / options.stride + 1,
                     (of.columns + 2 * options.padding - options.kernel) / options.stride + 1};
  model.weight.resize(options.channels * of.channels * options.kernel * options.kernel);
  model.bias.resize(options.channels);
  for (float& value : model.weight) value = static_cast<float>(rng->Normal());
  for (float& value : model.bias) value = static_cast<float>(rng->Normal());
  return model;
}

// By the definition; `picture` is [rows, columns, channels].
double Expected(const ModelConvolution& model, const std::vector<float>& picture, int64_t out,
                int64_t row, int64_t column) {
  const Shape& in = model.layer.in;
  const ConvOptions& options = model.layer.options;
  double sum = model.bias[out];
  for (int64_t channel = 0; channel < in[0]; ++channel) {
    for (int64_t i = 0; i < options.kernel; ++i) {
      for (int64_t j = 0; j < options.kernel; ++j) {
        const int64_t y = row * options.stride + i - options.padding;
        const int64_t x = column * options.stride + j - options.padding;
        if (y < 0 || y >= in[1] || x < 0 || x >= in[2]) continue;
        const int64_t at = ((out * in[0] + channel) * options.kernel + i) * options.kernel + j;
        sum += double{model.weight[at]} * picture[(y * in[2] + x) * in[0] + channel];
      }
    }
  }
  return sum;
}

TEST(Convolution, IsThatOfItsDefinition) {
  const RowKernels& kernels = RowKernelsFor(BestInstructionSet());
  for (const Case& of : {Case{1, 1, 1, {1, 1, 1, 0}}, Case{3, 10, 10, {16, 3, 1, 0}},
                         Case{4, 12, 9, {20, 4, 2, 1}}, Case{2, 7, 11, {5, 5, 3, 4}}}) {
    Rng rng(1, "convolution_test");
    const ModelConvolution model = RandomConvolution(of, &rng);
    std::vector<float> picture(of.channels * of.rows * of.columns);
    for (float& value : picture) value = static_cast<float>(rng.Normal());
    Convolution convolution(model, of.channels);
    const float* const result = convolution.Run(kernels, picture.data(), /*relu=*/false);
    const Shape& out = model.layer.out;
    for (int64_t channel = 0; channel < out[0]; ++channel) {
      for (int64_t row = 0; row < out[1]; ++row) {
        for (int64_t column = 0; column < out[2]; ++column) {
          EXPECT_NEAR(result[(row * out[2] + column) * convolution.out_stride() + channel],
                      Expected(model, picture, channel, row, column), 3e-5)
              << channel << ", " << row << ", " << column;
        }
      }
    }
  }
}

}  // namespace
}  // namespace ding
