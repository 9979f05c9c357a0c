#include <cmath>
#include <limits>
#include <vector>

#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/policy/loss/td_loss.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

constexpr int kRows = 8;
constexpr int kActions = 4;

// A random batch that owns its columns. Each row has one illegal action, which is not that of the
// data.
struct RandomBatch {
  explicit RandomBatch(uint64_t seed) : mask(kRows * kActions, 1) {
    Rng rng(seed, "cql_loss_test");
    for (int i = 0; i < kRows * kActions; ++i) q.push_back(static_cast<float>(rng.Uniform(-3, 3)));
    for (int i = 0; i < kRows; ++i) {
      action.push_back(static_cast<int64_t>(rng.UniformInt(kActions)));
      mask[static_cast<size_t>(i * kActions + (action.back() + 1) % kActions)] = 0;
      weight.push_back(static_cast<float>(rng.Uniform(0.1, 1)));
    }
  }
  std::vector<float> q, weight;
  std::vector<int64_t> action;
  std::vector<uint8_t> mask;
};

TEST(CqlLoss, EqualsItsDefinition) {
  RandomBatch batch(1);
  for (const bool masked : {false, true}) {
    double expected = 0;
    for (int i = 0; i < kRows; ++i) {
      double sum = 0;
      for (int a = 0; a < kActions; ++a) {
        const int at = i * kActions + a;
        if (!masked || batch.mask[at] != 0) sum += std::exp(double{batch.q[at]});
      }
      expected +=
          0.7 / kRows * batch.weight[i] * (std::log(sum) - batch.q[i * kActions + batch.action[i]]);
    }
    std::vector<float> d_q(batch.q.size());
    EXPECT_NEAR(AddCqlPenalty({batch.q, batch.action, batch.weight,
                               masked ? batch.mask : absl::Span<const uint8_t>()},
                              0.7, absl::MakeSpan(d_q)),
                expected, 1e-6);
  }
}

TEST(CqlLoss, TheGradientAgreesWithFiniteDifferencesAndIsAdded) {
  RandomBatch batch(2);
  std::vector<float> d_q(batch.q.size(), 2.0f);
  std::vector<float> ignored(batch.q.size());
  const auto penalty = [&](absl::Span<float> gradient) {
    return AddCqlPenalty({batch.q, batch.action, batch.weight, batch.mask}, 1.5, gradient);
  };
  penalty(absl::MakeSpan(d_q));
  constexpr float kStep = 1.0f / 256;
  for (size_t i = 0; i < d_q.size(); ++i) {
    const float q = batch.q[i];
    batch.q[i] = q + kStep;
    const double above = penalty(absl::MakeSpan(ignored));
    batch.q[i] = q - kStep;
    const double below = penalty(absl::MakeSpan(ignored));
    batch.q[i] = q;
    EXPECT_NEAR(d_q[i] - 2, (above - below) / (2 * kStep), 1e-5) << i;
  }
}

TEST(CqlLoss, LargeValuesAreFiniteAndNanIsNot) {
  std::vector<float> d_q(2);
  EXPECT_NEAR(AddCqlPenalty({{1e6f, -1e6f}, {0}}, 1, absl::MakeSpan(d_q)), 0, 1e-9);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(AddCqlPenalty({{1, nan}, {0}}, 1, absl::MakeSpan(d_q))));
}

}  // namespace
}  // namespace ding
