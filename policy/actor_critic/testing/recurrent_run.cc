#include "ding_worker/policy/actor_critic/testing/recurrent_run.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/action_distribution.h"
#include "ding_worker/policy/action_space.h"
#include "ding_worker/policy/actor_critic/actor_critic.h"
#include "ding_worker/policy/loss/actor_critic_loss.h"
#include "ding_worker/policy/mlp/mlp.h"
#include "ding_worker/policy/mlp/mlp_structure.h"
#include "ding_worker/policy/network.h"
#include "ding_worker/policy/rnn/rnn.h"
#include "ding_worker/policy/rnn/rnn_structure.h"
#include "ding_worker/policy/testing/random_batch.h"

namespace ding {
namespace {

constexpr int64_t kHidden = 3;

std::unique_ptr<Network> MakeNetwork(bool memory, const SpecPtr& inputs,
                                     std::vector<FieldSpec> outputs, uint64_t seed) {
  MlpOptions layers;
  layers.head_layer_num = 0;
  const SpecPtr spec = *MakeSpec(std::move(outputs));
  if (!memory) return *Mlp::Create(layers, inputs, spec, seed);
  RnnOptions options;
  options.cell = RnnCell::kGru;
  options.hidden_size = kHidden;
  options.mlp = layers;
  return *Rnn::Create(options, inputs, spec, seed);
}

}  // namespace

std::vector<RecurrentCase> RecurrentCases() {
  const SpecPtr box = *MakeSpec({Box("action", {2}, {-1, 0}, {1, 5})});
  const SpecPtr multi = *MakeSpec({MultiDiscrete("action", {2, 3})});
  return {{"discrete_shared", VectorObservation(), DiscreteAction(), Memory::kShared},
          {"discrete_both", VectorObservation(), DiscreteAction(), Memory::kBoth},
          {"discrete_actor", VectorObservation(), DiscreteAction(), Memory::kActor},
          // Not VectorObservation(4): the actor would have as many parameters as the tensors that
          // policy_conformance passes as misshapen.
          {"discrete_critic", VectorObservation(5), DiscreteAction(), Memory::kCritic},
          {"multi_discrete_masked_shared", MaskedObservation(5), multi, Memory::kShared},
          {"box_both", VectorObservation(), box, Memory::kBoth}};
}

ActorCriticPolicyOptions RecurrentOptions(int64_t unroll_len) {
  ActorCriticPolicyOptions options;
  options.name = "test";
  options.seed = 4;
  options.update.loss = ComputePpoLoss;
  options.update.loss_options.entropy_coef = 0.05;
  options.update.normalize_adv = true;
  options.gamma = 0.9;
  options.gae_lambda = 0.8;
  options.adam.lr = 0.01;
  options.collect.unroll_len = unroll_len;
  return options;
}

absl::StatusOr<std::unique_ptr<ActorCriticPolicy>> CreateRecurrent(
    const RecurrentCase& c, const ActorCriticPolicyOptions& options) {
  const SpecPtr inputs = WithoutActionMask(c.observation);
  const FieldSpec head = (*ActionDistribution::Create(*c.action))->head();
  const uint64_t seed = options.seed;
  if (c.memory == Memory::kShared) {
    return ActorCriticPolicy::Create(
        MakeNetwork(true, inputs, {head, ActorCritic::ValueField()}, seed), nullptr, c.observation,
        c.action, options);
  }
  const bool actor = c.memory == Memory::kBoth || c.memory == Memory::kActor;
  const bool critic = c.memory == Memory::kBoth || c.memory == Memory::kCritic;
  return ActorCriticPolicy::Create(
      MakeNetwork(actor, inputs, {head}, seed),
      MakeNetwork(critic, inputs, {ActorCritic::ValueField()}, seed + 1), c.observation, c.action,
      options);
}

SegmentBatch RecurrentRun::Collect(CollectMode* collect, int64_t steps) {
  const SpecPtr& output = collect->output_spec();
  if (rows_ == nullptr) {
    std::vector<FieldSpec> fields(observation_->fields().begin(), observation_->fields().end());
    fields.insert(fields.end(), output->fields().begin(), output->fields().end());
    fields.push_back(Scalar(kColumnReward, DType::kFloat32));
    rows_ = *MakeSpec(std::move(fields));
  }
  // The rows of step i are [i * kEnvs, (i + 1) * kEnvs) first; then those of an env are put
  // together.
  BatchBuilder by_step = *BatchBuilder::Create(rows_, steps * kEnvs);
  std::vector<Segment> segments[kEnvs];
  std::vector<int64_t> final_rows[kEnvs];  // of the observations below, one for each segment
  BatchBuilder final_obs = *BatchBuilder::Create(observation_, (steps + 1) * kEnvs);
  std::vector<int> env_ids;
  for (int env = 0; env < kEnvs; ++env) env_ids.push_back(env);
  const auto observe = [&](int64_t step) {
    return MakeObservationBatch(observation_, kEnvs, seed_ * 10000 + static_cast<uint64_t>(step));
  };
  for (int64_t i = 0; i < steps; ++i, ++step_) {
    const MutableColumnsView rows = by_step.view().Slice(i * kEnvs, kEnvs);
    CopyRows(observe(step_).view(), rows, 0);
    const absl::Status acted =
        collect->Forward(rows, env_ids, {}, rows.Fields(output.get(), observation_->size()));
    DING_CHECK(acted.ok()) << acted;
    CopyRows(observe(step_ + 5000).view(), final_obs.view(), i * kEnvs);
    Rng rng(seed_ * 10000 + static_cast<uint64_t>(step_), "recurrent_run");
    for (int env = 0; env < kEnvs; ++env) {
      rows.column<float>(rows_->size() - 1)[static_cast<size_t>(env)] =
          static_cast<float>(rng.Uniform(-2, 2));
      if (segments[env].empty() || segments[env].back().end != SegmentEnd::kCut) {
        segments[env].push_back({env, step_, env * steps + i, 0, SegmentEnd::kCut});
        final_rows[env].push_back(steps * kEnvs + env);
      }
      Segment& segment = segments[env].back();
      ++segment.length;
      if (rng.UniformInt(7) != 0) continue;
      segment.end = rng.UniformInt(2) == 0 ? SegmentEnd::kTerminated : SegmentEnd::kTruncated;
      final_rows[env].back() = i * kEnvs + env;
      DING_CHECK(collect->Reset({env}).ok());
    }
  }
  CopyRows(observe(step_).view(), final_obs.view(), steps * kEnvs);
  SegmentBatch data;
  std::vector<int64_t> order;
  std::vector<int64_t> last;
  for (int env = 0; env < kEnvs; ++env) {
    for (int64_t i = 0; i < steps; ++i) order.push_back(i * kEnvs + env);
    data.segments.insert(data.segments.end(), segments[env].begin(), segments[env].end());
    last.insert(last.end(), final_rows[env].begin(), final_rows[env].end());
  }
  BatchBuilder by_env = *BatchBuilder::Create(rows_, steps * kEnvs);
  GatherRows(by_step.view(), order, by_env.view(), 0);
  data.rows = std::move(by_env).Seal(steps * kEnvs);
  const auto count = static_cast<int64_t>(last.size());
  BatchBuilder finals = *BatchBuilder::Create(observation_, count);
  GatherRows(final_obs.view(), last, finals.view(), 0);
  data.final_obs = std::move(finals).Seal(count);
  return data;
}

Batch MakeRecurrentBatch(const RecurrentCase& c, int64_t unroll_len, int64_t rows, uint64_t seed) {
  const Batch single = MakeOnPolicyBatch(c.observation, c.action, rows, seed);
  std::vector<FieldSpec> fields(single.spec().fields().begin(), single.spec().fields().end());
  fields.push_back(Scalar(kColumnMask, DType::kBool));
  const int64_t states = c.memory == Memory::kNone ? 0 : c.memory == Memory::kBoth ? 2 : 1;
  if (states > 0) fields.push_back(Box(kColumnRnnState, {states * kHidden}));
  BatchBuilder batch = *BatchBuilder::Create(*MakeSpec(std::move(fields)), rows);
  CopyRows(single.view(), batch.view(), 0);
  const absl::Span<uint8_t> mask = batch.column<uint8_t>(single.spec().size());
  for (size_t i = 0; i < mask.size(); ++i) {
    mask[i] = static_cast<int64_t>(i) % (2 * unroll_len) == 2 * unroll_len - 1 ? 0 : 1;
  }
  if (states > 0) {
    Rng rng(seed, "recurrent_run/states");
    for (float& value : batch.column<float>(single.spec().size() + 1)) {
      value = static_cast<float>(rng.Uniform(-1, 1));
    }
  }
  return std::move(batch).Seal(rows).AsSequences(unroll_len);
}

}  // namespace ding
