#include "ding_worker/policy/gradient_check.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "ding_worker/base/status_matchers.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

constexpr int64_t kActions = 3;
constexpr int64_t kActionWidth = 2;

// An input whose outputs have memory of their own.
struct OwnOutputs {
  explicit OwnOutputs(const LossInput& from) : input(from) {
    for (LossOutput& output : input.outputs) {
      values.emplace_back(output.values.begin(), output.values.end());
      // A loss must overwrite it.
      gradients.emplace_back(output.values.size(), 77.0f);
      output.values = values.back();
      output.gradient = absl::MakeSpan(gradients.back());
    }
  }

  LossInput input;
  std::list<std::vector<float>> values;
  std::list<std::vector<float>> gradients;
};

double LargestMagnitude(absl::Span<const float> values) {
  double largest = 0;
  for (const float value : values) largest = std::max<double>(largest, std::abs(value));
  return largest;
}

void ExpectNear(absl::Span<const float> found, absl::Span<const float> expected, double tolerance,
                const std::string& what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  const double largest = LargestMagnitude(expected);
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_NEAR(found[i], expected[i], tolerance * largest) << what << ", element " << i;
  }
}

}  // namespace

void ExpectGradientsOf(const std::function<double()>& loss, absl::Span<float> values,
                       absl::Span<const float> gradients, float step, double tolerance) {
  const std::vector<float> kept(gradients.begin(), gradients.end());
  ASSERT_EQ(kept.size(), values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const float start = values[i];
    values[i] = start + step;
    const double above = loss();
    values[i] = start - step;
    const double below = loss();
    values[i] = start;
    EXPECT_NEAR(kept[i], (above - below) / (2 * step), tolerance) << "element " << i;
  }
}

void ExpectGradientsOf(LossFunction* loss, const LossInput& input, float step, double tolerance) {
  OwnOutputs own(input);
  ASSERT_THAT(loss->Compute(own.input).status(), IsOk());
  const auto again = [&] {
    const absl::StatusOr<LossValue> value = loss->Compute(own.input);
    EXPECT_THAT(value.status(), IsOk());
    return value.ok() ? value->loss : 0;
  };
  auto gradient = own.gradients.begin();
  auto values = own.values.begin();
  for (const LossOutput& output : own.input.outputs) {
    SCOPED_TRACE("output '" + output.name + "'");
    const std::vector<float> kept = *gradient++;
    ExpectGradientsOf(again, absl::MakeSpan(*values++), kept, step,
                      tolerance / static_cast<double>(input.rows));
  }
}

void ExpectSameLoss(LossFunction* found, LossFunction* expected, const LossInput& input,
                    double tolerance) {
  OwnOutputs a(input);
  OwnOutputs b(input);
  const absl::StatusOr<LossValue> value_a = found->Compute(a.input);
  const absl::StatusOr<LossValue> value_b = expected->Compute(b.input);
  ASSERT_THAT(value_a.status(), IsOk());
  ASSERT_THAT(value_b.status(), IsOk());
  EXPECT_NEAR(value_a->loss, value_b->loss, tolerance * (1 + std::abs(value_b->loss)));
  if (!value_a->td_error.empty() && !value_b->td_error.empty()) {
    ExpectNear(value_a->td_error, value_b->td_error, tolerance, "td error");
  }
  for (size_t i = 0; i < input.outputs.size(); ++i) {
    ExpectNear(a.input.outputs[i].gradient, b.input.outputs[i].gradient, tolerance,
               "gradient of '" + input.outputs[i].name + "'");
  }
}

RandomLossInput::RandomLossInput(Place place, int64_t rows, uint64_t seed)
    : rng_(seed, "policy/gradient_check") {
  input_.rows = rows;
  switch (place) {
    case kDqn:
      for (int64_t i = 0; i < rows; ++i) {
        action_.push_back(static_cast<int64_t>(rng_.UniformInt(kActions)));
      }
      input_.batch = {{"action", action_}, {"reward", Draw(0, -1, 1)}, {"discount", Draw(0, 0, 1)}};
      AddOutput("q", -2, 2, kActions);
      input_.target = {{"next_q", Draw(kActions, -2, 2), kActions},
                       {"next_value", Draw(0, -2, 2)},
                       {"q", Draw(kActions, -2, 2), kActions}};
      input_.weight = Draw(0, 0.2, 1);
      break;
    case kActorCritic:
      input_.batch = {{"adv", Draw(0, -2, 2)}, {"return", Draw(0, -2, 2)}};
      AddOutput("log_prob", -2, -0.5);
      AddOutput("entropy", 0, 1);
      AddOutput("value", -2, 2);
      input_.target = {{"log_prob", Draw(0, -2, -0.5)}, {"value", Draw(0, -2, 2)}};
      input_.numbers = {
          {"value_weight", 0.7}, {"entropy_weight", 0.03}, {"clip_ratio", 0.2}, {"value_clip", 0}};
      mask_.assign(static_cast<size_t>(rows), 1);
      mask_.back() = rows > 1 ? 0 : 1;
      input_.mask = mask_;
      break;
    case kCritics:
      input_.batch = {{"action", Draw(kActionWidth, -1, 1), kActionWidth},
                      {"reward", Draw(0, -1, 1)},
                      {"discount", Draw(0, 0, 1)}};
      AddOutput("q0", -2, 2);
      AddOutput("q1", -2, 2);
      input_.target = {{"next_value", Draw(0, -2, 2)}};
      input_.weight = Draw(0, 0.2, 1);
      break;
    case kActor:
      input_.batch = {{"action", Draw(kActionWidth, -1, 1), kActionWidth}};
      AddOutput("q0", -2, 2);
      AddOutput("q1", -2, 2);
      AddOutput("action", -1, 1, kActionWidth);
      AddOutput("log_prob", -2, 1);
      input_.numbers = {{"alpha", 0.3}};
      break;
  }
}

std::vector<float>& RandomLossInput::Draw(int64_t width, double low, double high) {
  columns_.emplace_back(static_cast<size_t>(input_.rows * std::max<int64_t>(1, width)));
  for (float& value : columns_.back()) value = static_cast<float>(rng_.Uniform(low, high));
  return columns_.back();
}

void RandomLossInput::AddOutput(const char* name, double low, double high, int64_t width) {
  std::vector<float>& values = Draw(width, low, high);
  std::vector<float>& gradient = Draw(width, 0, 0);
  input_.outputs.push_back({name, values, absl::MakeSpan(gradient), width});
}

}  // namespace ding
