#include "ding_worker/policy/testing/algorithm_conformance.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <thread>  // NOLINT(build/c++11)
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/data/tensor.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/policy.pb.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/policy/testing/allocation.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"

namespace ding {
namespace {

constexpr int64_t kRows = 32;

absl::StatusOr<std::unique_ptr<Policy>> Create(const AlgorithmCase& c, uint64_t seed,
                                               PolicyModes modes,
                                               GradientReducer* reducer = nullptr) {
  PolicyConfig config;
  DING_CHECK(google::protobuf::TextFormat::ParseFromString(c.config, &config)) << c.config;
  PolicyContext context;
  context.observation = c.observation;
  context.action = c.action;
  context.seed = seed;
  context.modes = modes;
  context.reducer = reducer;
  return create_policy(config, context);
}

// Averages the gradients of two learners, each in a thread of its own.
class PairHub {
 public:
  // Adds the values of one learner, waits for the other one, and returns the mean.
  void Average(absl::Span<const absl::Span<float>> values, int64_t rows) {
    MutexLock lock(&mutex_);
    size_t at = 0;
    for (const absl::Span<float> piece : values) {
      sum_.resize(std::max(sum_.size(), at + piece.size()));
      for (const float value : piece) sum_[at++] += static_cast<float>(rows) * value;
    }
    rows_ += rows;
    const int64_t round = round_;
    if (++arrived_ == 2) {
      mean_.resize(sum_.size());
      for (size_t i = 0; i < sum_.size(); ++i) mean_[i] = sum_[i] / static_cast<float>(rows_);
      std::fill(sum_.begin(), sum_.end(), 0.0f);
      rows_ = arrived_ = 0;
      ++round_;
      changed_.SignalAll();
    }
    while (round_ == round) changed_.WaitFor(&mutex_, absl::Minutes(1));
    at = 0;
    for (const absl::Span<float> piece : values) {
      for (float& value : piece) value = mean_[at++];
    }
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::vector<float> sum_ ABSL_GUARDED_BY(mutex_);
  std::vector<float> mean_ ABSL_GUARDED_BY(mutex_);
  int64_t rows_ ABSL_GUARDED_BY(mutex_) = 0;
  int arrived_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t round_ ABSL_GUARDED_BY(mutex_) = 0;
};

class PairReducer : public GradientReducer {
 public:
  explicit PairReducer(PairHub* hub) : hub_(*hub) {}
  absl::Status Average(absl::Span<const absl::Span<float>> values, int64_t rows,
                       const absl::Status& status) override {
    hub_.Average(values, rows);
    return status;
  }
  absl::Status Sum(absl::Span<double> values, const absl::Status& status) override {
    std::vector<float> means(values.begin(), values.end());
    const absl::Span<float> all[] = {absl::MakeSpan(means)};
    hub_.Average(all, /*rows=*/1);
    for (size_t i = 0; i < values.size(); ++i) values[i] = 2.0 * means[i];
    return status;
  }

 private:
  PairHub& hub_;
};

// Returns the model after training on part `part` of `parts` equal parts of each batch.
std::vector<float> Learn(const AlgorithmCase& c, Policy* policy, int part, int parts) {
  std::vector<LearnStep> steps;
  for (uint64_t seed = 0; seed < 5; ++seed) {
    const Batch batch = c.make_batch(c.observation, c.action, kRows, seed);
    const int64_t rows = batch.rows() / parts;
    const Batch mine = batch.Slice(part * rows, rows).AsSequences(batch.sequence_length());
    EXPECT_THAT(policy->learn_mode()->Forward(mine, {}, &steps), IsOk());
  }
  StateDict model;
  EXPECT_THAT(policy->learn_mode()->SaveModel(&model), IsOk());
  std::vector<float> values;
  for (const auto& [name, tensor] : model.tensors()) {
    if (tensor.dtype() != DType::kFloat32) continue;  // statistics
    const absl::Span<const float> of_tensor = tensor.data<float>();
    values.insert(values.end(), of_tensor.begin(), of_tensor.end());
  }
  return values;
}

// A policy's saved state, and what its next iteration reports and does.
struct Iteration {
  StateDict model;
  StateDict train;
  std::vector<LearnStep> steps;
};

// Appends the float32 tensors whose names begin and end so.
std::vector<float> Join(const StateDict& state, absl::string_view prefix,
                        absl::string_view suffix = "") {
  std::vector<float> values;
  for (const auto& [name, tensor] : state.tensors()) {
    if (tensor.dtype() != DType::kFloat32 || !absl::StartsWith(name, prefix) ||
        !absl::EndsWith(name, suffix)) {
      continue;
    }
    const absl::Span<const float> of_tensor = tensor.data<float>();
    values.insert(values.end(), of_tensor.begin(), of_tensor.end());
  }
  return values;
}

// Copies `state` with the parameters that begin with `prefix` moved by `step` times `direction`.
StateDict Moved(const StateDict& state, absl::string_view prefix,
                absl::Span<const double> direction, double step) {
  StateDict moved;
  size_t at = 0;
  for (const auto& [name, tensor] : state.tensors()) {
    if (tensor.dtype() != DType::kFloat32 || !absl::StartsWith(name, prefix)) {
      EXPECT_THAT(moved.WriteTensor(name, tensor), IsOk());
      continue;
    }
    const absl::Span<const float> of_tensor = tensor.data<float>();
    std::vector<float> values(of_tensor.begin(), of_tensor.end());
    for (float& value : values) value += static_cast<float>(step * direction[at++]);
    const Tensor copy = Tensor::FromSpan(tensor.shape(), absl::MakeConstSpan(values));
    EXPECT_THAT(moved.WriteTensor(name, copy), IsOk());
  }
  return moved;
}

// Learns from a batch without changing a parameter. Beginning from `before` unless it is null.
Iteration LearnInPlace(const AlgorithmCase& c, const Iteration* before) {
  const auto policy = Create(c, 1, PolicyModes());
  EXPECT_THAT(policy, IsOk());
  LearnMode& learn = *(*policy)->learn_mode();
  Iteration result;
  if (before != nullptr) {
    StateDict model(before->model);
    StateDict train(before->train);
    EXPECT_THAT(learn.LoadModel(&model), IsOk());
    EXPECT_THAT(learn.LoadTrainState(&train), IsOk());
  }
  const NamedValues stand_still = {{"lr", 0},
                                   {"actor_learning_rate", 0},
                                   {"critic_learning_rate", 0},
                                   {"alpha_learning_rate", 0}};
  const Batch batch = c.make_batch(c.observation, c.action, kRows, 1);
  EXPECT_THAT(learn.Forward(batch, stand_still, &result.steps), IsOk());
  EXPECT_THAT(learn.SaveModel(&result.model), IsOk());
  EXPECT_THAT(learn.SaveTrainState(&result.train), IsOk());
  return result;
}

double Dot(absl::Span<const float> a, absl::Span<const double> b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace

std::vector<PolicyConformanceCase> PolicyCasesOf(const std::vector<AlgorithmCase>& cases) {
  std::vector<PolicyConformanceCase> policies;
  for (const AlgorithmCase& c : cases) {
    PolicyConformanceCase policy;
    policy.name = c.name;
    policy.create = [c](uint64_t seed, PolicyModes modes) { return Create(c, seed, modes); };
    policy.observation = c.observation;
    policy.action = c.action;
    policy.make_batch = c.make_batch;
    policy.needed_column = c.needed_column;
    policies.push_back(std::move(policy));
  }
  return policies;
}

TEST_P(AlgorithmConformance, AllocatesNothingWhileSizesRepeat) {
  const AlgorithmCase& c = GetParam();
  DING_ASSERT_OK_AND_ASSIGN(const auto policy, Create(c, 1, PolicyModes()));
  ExpectAllocatesNothingWhileSizesRepeat(policy.get(),
                                         c.make_batch(c.observation, c.action, kRows, 1),
                                         MakeObservationBatch(c.observation, 8, 1));
}

TEST_P(AlgorithmConformance, TwoLearnersOfHalvesEqualOneLearnerOfTheWhole) {
  const AlgorithmCase& c = GetParam();
  DING_ASSERT_OK_AND_ASSIGN(const auto alone, Create(c, 1, PolicyModes()));
  const std::vector<float> whole = Learn(c, alone.get(), 0, 1);
  PairHub hub;
  std::array<std::vector<float>, 2> models;
  std::array<std::thread, 2> threads;
  std::array<PairReducer, 2> reducers = {PairReducer(&hub), PairReducer(&hub)};
  std::array<std::unique_ptr<Policy>, 2> policies;
  for (int i = 0; i < 2; ++i) {
    DING_ASSERT_OK_AND_ASSIGN(policies[i], Create(c, 1, PolicyModes(), &reducers[i]));
  }
  for (int i = 0; i < 2; ++i) {
    threads[i] = std::thread([&, i] { models[i] = Learn(c, policies[i].get(), i, 2); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(models[0], models[1]) << "all learners must have the same bits";
  EXPECT_THAT(models[0], testing::Pointwise(testing::FloatNear(2e-4f), whole));
  DING_ASSERT_OK_AND_ASSIGN(const auto untrained, Create(c, 1, PolicyModes()));
  StateDict begin;
  ASSERT_THAT(untrained->learn_mode()->SaveModel(&begin), IsOk());
  float largest = 0;
  size_t at = 0;
  for (const auto& [name, tensor] : begin.tensors()) {
    if (tensor.dtype() != DType::kFloat32) continue;
    for (const float value : tensor.data<float>()) {
      largest = std::max(largest, std::abs(value - whole[at++]));
    }
  }
  EXPECT_GT(largest, 2e-3f) << "the parameters must change";
}

TEST_P(AlgorithmConformance, GradientsAgreeWithFiniteDifferences) {
  const AlgorithmCase& c = GetParam();
  if (c.losses.empty()) GTEST_SKIP() << "the case names no losses";
  const auto policy = Create(c, 1, PolicyModes());
  ASSERT_THAT(policy, IsOk());
  Iteration before;
  ASSERT_THAT((*policy)->learn_mode()->SaveModel(&before.model), IsOk());
  ASSERT_THAT((*policy)->learn_mode()->SaveTrainState(&before.train), IsOk());
  const Iteration learned = LearnInPlace(c, nullptr);
  for (const LossGradient& of : c.losses) {
    SCOPED_TRACE(of.loss);
    // Adam's mean of n equal gradients that began with 0.
    const std::vector<float> moment = Join(learned.train, of.optimizer, "first_moment");
    const double share = 1 - std::pow(0.9, static_cast<double>(learned.steps.size()));
    const bool of_model = !Join(before.model, of.parameters).empty();
    const size_t count = Join(of_model ? before.model : before.train, of.parameters).size();
    ASSERT_GT(count, 0u) << "no parameters begin with " << of.parameters;
    ASSERT_EQ(moment.size(), count) << "the optimizer " << of.optimizer;
    // The derivative of the loss in this direction.
    const auto slope = [&](absl::Span<const double> direction) {
      constexpr double kStep = 0.005;
      double difference = 0;
      for (const double step : {kStep, -kStep}) {
        Iteration moved = before;
        StateDict* const state = of_model ? &moved.model : &moved.train;
        *state = Moved(*state, of.parameters, direction, step);
        const auto loss = LearnInPlace(c, &moved).steps[0].scalars.Get(of.loss);
        EXPECT_TRUE(loss.has_value()) << "the iteration does not report it";
        difference += loss.value_or(0) / (2 * step);
      }
      return difference;
    };
    std::vector<double> direction(moment.begin(), moment.end());
    const double norm = std::sqrt(Dot(moment, direction));
    ASSERT_GT(norm, 1e-5) << "there is no gradient";
    for (double& element : direction) element /= norm;
    const double scale = slope(direction) / norm;
    EXPECT_GE(scale * share, 0.98) << "the gradient is longer than the loss is steep, or has "
                                      "another sign";
    Rng rng(1, "policy/testing/directions");
    for (int i = 0; i < 8; ++i) {
      for (double& element : direction) {
        element = rng.Normal() / std::sqrt(static_cast<double>(count));
      }
      EXPECT_NEAR(slope(direction), scale * Dot(moment, direction), 0.01 * scale * norm);
    }
  }
}

}  // namespace ding
