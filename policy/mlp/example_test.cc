// The example of docs/reference/networks.md.

#include <cmath>
#include <memory>

#include "absl/status/statusor.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/mlp/mlp.h"
#include "ding_worker/policy/network.h"
#include "ding_worker/policy/optimizer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

// [example]
// Trains a network to compute the length of a vector; returns the last mean squared error.
absl::StatusOr<double> LearnLength() {
  DING_ASSIGN_OR_RETURN(const SpecPtr input, MakeSpec({Box("vector", {2})}));
  DING_ASSIGN_OR_RETURN(const SpecPtr output, MakeSpec({Box("length", {})}));
  MlpOptions options;
  options.encoder_hidden_size = {32};
  options.activation = MlpOptions::Activation::kTanh;
  DING_ASSIGN_OR_RETURN(const std::unique_ptr<Network> network,
                        Mlp::Create(options, input, output, /*seed=*/0));
  AdamOptions adam_options;
  adam_options.lr = 1e-2;
  DING_ASSIGN_OR_RETURN(Adam adam, Adam::Create(adam_options, network->parameters().size()));

  constexpr int64_t kRows = 64;
  DING_ASSIGN_OR_RETURN(const BatchBuilder vectors, BatchBuilder::Create(input, kRows));
  DING_ASSIGN_OR_RETURN(const BatchBuilder lengths, BatchBuilder::Create(output, kRows));
  DING_ASSIGN_OR_RETURN(const BatchBuilder d_lengths, BatchBuilder::Create(output, kRows));
  Rng rng(/*seed=*/0, "example");
  double loss = 0;
  for (int iter = 0; iter < 500; ++iter) {
    const auto x = vectors.column<float>(0);
    for (float& element : x) element = static_cast<float>(rng.Uniform(-1, 1));
    DING_RETURN_IF_ERROR(network->Forward(vectors.view(), lengths.view()));
    loss = 0;
    for (int64_t row = 0; row < kRows; ++row) {
      const double error = lengths.column<float>(0)[row] - std::hypot(x[2 * row], x[2 * row + 1]);
      loss += error * error / kRows;
      d_lengths.column<float>(0)[row] = static_cast<float>(2 * error / kRows);
    }
    DING_RETURN_IF_ERROR(network->Backward(d_lengths.view()));
    DING_RETURN_IF_ERROR(adam.Step(network->gradients(), network->parameters()));
  }
  return loss;
}
// [example]

TEST(NetworksExample, LearnsTheLengthOfAVector) {
  DING_ASSERT_OK_AND_ASSIGN(const double loss, LearnLength());
  // The variance of the lengths is about 0.08: the best loss of an untrained network.
  EXPECT_LT(loss, 0.005);
}

}  // namespace
}  // namespace ding
