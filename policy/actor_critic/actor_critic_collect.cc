#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ding_worker/base/finite.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/returns.h"
#include "ding_worker/data/running_normalizer.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/sequence_samples.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/policy/action_distribution.h"
#include "ding_worker/policy/actor_critic/actor_critic_acting.h"
#include "ding_worker/policy/actor_critic/actor_critic_modes.h"
#include "ding_worker/policy/batch_columns.h"
#include "ding_worker/policy/recurrent_states.h"

namespace ding {
namespace {

constexpr char kRng[] = "rng";
constexpr char kRewardScalerScope[] = "reward_scaler";
constexpr char kRnnStatesScope[] = "rnn_states";

class ActorCriticCollect : public CollectMode {
 public:
  ActorCriticCollect(const ActorCriticPolicyOptions& options, ActorCritic* networks)
      : options_(options),
        networks_(*networks),
        rng_(options.seed, "policy/collect"),
        reward_scaler_(options.gamma),
        inputs_(networks_.inputs(), "", "rows"),
        last_rows_(networks_.observation()),
        samples_(options.collect.unroll_len, options.last_sample) {
    const absl::Span<const FieldSpec> sampled = networks_.distribution().sample_fields();
    std::vector<FieldSpec> fields(sampled.begin(), sampled.end());
    head_ = static_cast<int>(fields.size());
    fields.push_back(networks_.distribution().head());
    fields.push_back(Box(kColumnLogProb, {}));
    fields.push_back(Box(kColumnValue, {}));
    if (networks_.state_size() > 0) {
      fields.push_back(Box(kColumnRnnState, {networks_.state_size()}));
      states_.emplace(networks_.state_size());
    }
    output_ = *MakeSpec(std::move(fields));
  }

  const SpecPtr& output_spec() const override { return output_; }
  CollectAttributes attributes() const override {
    CollectAttributes attributes = options_.collect;
    attributes.on_policy = true;
    attributes.keeps_statistics = options_.modes.learn && (options_.scale_reward || updates_obs());
    return attributes;
  }

  absl::Status Forward(const ColumnsView& obs, absl::Span<const int> env_ids,
                       const NamedValues& /*settings*/, const MutableColumnsView& out) override {
    const absl::Status status = Sample(obs, env_ids, out);
    // The text of a long name would be allocated.
    return status.ok() ? status : Annotate(status, absl::StrCat(options_.name, ", collect"));
  }
  absl::Status Reset(absl::Span<const int> env_ids) override {
    if (states_.has_value()) states_->Reset(env_ids);
    return absl::OkStatus();
  }

  absl::StatusOr<SegmentBatch> GetTrainSample(SegmentBatch data) override {
    absl::StatusOr<SegmentBatch> samples = MakeSamples(std::move(data));
    if (!samples.ok()) {
      return Annotate(samples.status(), absl::StrCat(options_.name, ", training data"));
    }
    return samples;
  }

  absl::Status LoadModel(StateReader* reader) override { return networks_.LoadModel(reader); }
  absl::Status SaveState(StateWriter* writer) const override {
    DING_RETURN_IF_ERROR(writer->WriteRng(kRng, rng_));
    if (states_.has_value()) {
      ScopedStateWriter scoped(writer, kRnnStatesScope);
      DING_RETURN_IF_ERROR(states_->SaveState(&scoped));
    }
    if (!options_.scale_reward) return absl::OkStatus();
    ScopedStateWriter scoped(writer, kRewardScalerScope);
    return reward_scaler_.SaveState(&scoped);
  }
  absl::Status LoadState(StateReader* reader) override {
    Rng rng = rng_;
    DING_RETURN_IF_ERROR(reader->ReadRng(kRng, &rng));
    std::optional<RecurrentStates> states;
    if (states_.has_value()) {
      ScopedStateReader scoped(reader, kRnnStatesScope);
      states.emplace(networks_.state_size());
      DING_RETURN_IF_ERROR(states->LoadState(&scoped));
    }
    if (options_.scale_reward) {
      ScopedStateReader scoped(reader, kRewardScalerScope);
      DING_RETURN_IF_ERROR(reward_scaler_.LoadState(&scoped));
    }
    if (states_.has_value()) states_.emplace(*std::move(states));
    rng_ = rng;
    return absl::OkStatus();
  }

 private:
  bool updates_obs() const { return networks_.normalizes() && !options_.freeze_statistics; }
  bool sends_obs() const { return !options_.modes.learn && updates_obs(); }
  bool sends_returns() const { return !options_.modes.learn && options_.scale_reward; }

  absl::Status Sample(const ColumnsView& obs, absl::Span<const int> env_ids,
                      const MutableColumnsView& out) {
    DING_RETURN_IF_ERROR(CheckOutput(*output_, obs, out));
    if (obs.rows() == 0) return absl::OkStatus();
    const MutableColumnsView rows = out.Slice(0, obs.rows());
    absl::Span<float> states;
    if (states_.has_value()) {
      DING_RETURN_IF_ERROR(RecurrentStates::CheckIds(env_ids, obs.rows()));
      states = states_->Gather(env_ids);
      absl::c_copy(states, rows.column<float>(head_ + 3).begin());
    }
    DING_RETURN_IF_ERROR(networks_.Act(obs, rows.column<float>(head_ + 2), states));
    if (states_.has_value()) states_->Scatter(env_ids);
    absl::c_copy(networks_.head(), rows.column<float>(head_).begin());
    networks_.distribution().Sample(&rng_, rows);
    networks_.distribution().LogProb(rows, head_ - 1, rows.column<float>(head_ + 1));
    return absl::OkStatus();
  }

  // Returns the samples of `data`, with advantages and returns.
  absl::StatusOr<SegmentBatch> MakeSamples(SegmentBatch data) {
    DING_ASSIGN_OR_RETURN(data.rows, MakeTrainRows(data));
    if (samples_.length() == 1) return data;
    return samples_.Cut(data);
  }

  // Returns the rows of `data` with advantages and returns.
  absl::StatusOr<Batch> MakeTrainRows(const SegmentBatch& data) {
    DING_RETURN_IF_ERROR(ValidateSegments(data));
    DING_RETURN_IF_ERROR(Resolve(data.rows.spec_ptr()));
    DING_RETURN_IF_ERROR(CheckRows(data));
    DING_RETURN_IF_ERROR(ComputeFinalValues(data));
    DING_ASSIGN_OR_RETURN(BatchBuilder made, pool_->Allocate(std::max<int64_t>(1, data.size())));
    const MutableColumnsView rows = made.view().Slice(0, data.size());
    CopyRows(data.rows.view(), rows, 0);
    if (data.size() == 0) return std::move(made).Seal(0);
    const absl::Span<float> reward = rows.column<float>(reward_);
    if (sends_returns()) {
      reward_scaler_.ScaleBy(networks_.return_statistics(), data.segments, reward,
                             rows.column<float>(rows.spec().size() - 1));
    } else if (options_.scale_reward) {
      reward_scaler_.Scale(data.segments, reward);
    }
    const absl::Span<const float> value = rows.column<float>(value_);
    const absl::Span<float> adv = rows.column<float>(data.rows.spec().size());
    const absl::Span<float> returns = rows.column<float>(data.rows.spec().size() + 1);
    for (size_t i = 0; i < data.segments.size(); ++i) {
      const Segment& segment = data.segments[i];
      const auto begin = static_cast<size_t>(segment.begin);
      const auto length = static_cast<size_t>(segment.length);
      ComputeGae({reward.subspan(begin, length), value.subspan(begin, length), final_value_[i],
                  segment.end},
                 options_.gamma, options_.gae_lambda, adv.subspan(begin, length));
    }
    for (size_t i = 0; i < adv.size(); ++i) returns[i] = adv[i] + value[i];
    if (networks_.normalizes()) {
      if (sends_obs()) {
        const ColumnsView raw = inputs_.Bind(data.rows.view());
        const int first = data.rows.spec().size() + 2;
        for (int i = 0; i < raw.spec().size(); ++i) {
          absl::c_copy(raw.column<float>(i), rows.column<float>(first + i).begin());
        }
      }
      networks_.NormalizeInputs(rows);
      if (updates_obs() && !sends_obs()) networks_.UpdateStatistics(data.rows.view());
    }
    return std::move(made).Seal(data.size());
  }

  // Finds the columns in rows of `spec`.
  absl::Status Resolve(const SpecPtr& spec) {
    if (pool_.has_value() && resolved_ == spec) return absl::OkStatus();
    DING_RETURN_IF_ERROR(CheckFirstFields(*networks_.observation(), *spec, "rows"));
    DING_ASSIGN_OR_RETURN(const int reward, spec->IndexOf(kColumnReward, "rows"));
    if (spec->field(reward) != Scalar(kColumnReward, DType::kFloat32)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "column 'reward' is ", spec->field(reward).DebugString(), ", expected float32[]"));
    }
    DING_ASSIGN_OR_RETURN(const int value, spec->IndexOf(kColumnValue, "rows"));
    std::vector<FieldSpec> fields(spec->fields().begin(), spec->fields().end());
    fields.push_back(Box(kColumnAdvantage, {}));
    fields.push_back(Box(kColumnReturn, {}));
    if (sends_obs()) {
      DING_RETURN_IF_ERROR(inputs_.Resolve(*spec));
      for (FieldSpec field : inputs_.spec()->fields()) {
        field.name = absl::StrCat(kRawPrefix, field.name);
        fields.push_back(std::move(field));
      }
    }
    if (sends_returns()) fields.push_back(Box(kRawReturn, {}));
    if (states_.has_value()) {
      DING_ASSIGN_OR_RETURN(rnn_state_, spec->IndexOf(kColumnRnnState, "rows"));
    }
    DING_ASSIGN_OR_RETURN(SpecPtr train_rows, MakeSpec(std::move(fields)));
    pool_.emplace(std::move(train_rows));
    reward_ = reward;
    value_ = value;
    resolved_ = spec;
    return absl::OkStatus();
  }

  // Refuses NaN and infinity, which would silently damage statistics and advantages.
  absl::Status CheckRows(const SegmentBatch& data) const {
    const Spec& spec = data.rows.spec();
    for (int i = 0; i < spec.size(); ++i) {
      const bool used = i == reward_ || i == value_ || i == rnn_state_ ||
                        (networks_.normalizes() && IsObsColumn(spec.field(i).name));
      if (!used || spec.field(i).dtype != DType::kFloat32) continue;
      const int64_t bad = FindNonFinite(data.rows.column<float>(i));
      if (bad < 0) continue;
      return absl::InternalError(absl::StrCat(
          "column '", spec.field(i).name, "', row ", bad / spec.field(i).num_elements(), " holds ",
          data.rows.column<float>(i)[static_cast<size_t>(bad)]));
    }
    return absl::OkStatus();
  }

  absl::Status ComputeFinalValues(const SegmentBatch& data) {
    final_value_.resize(data.segments.size());
    if (data.segments.empty()) return absl::OkStatus();
    DING_RETURN_IF_ERROR(ComputeFinalStates(data));
    DING_RETURN_IF_ERROR(networks_.Values(data.final_obs.view(), absl::MakeSpan(final_value_),
                                          absl::MakeSpan(final_state_)));
    for (size_t i = 0; i < final_value_.size(); ++i) {
      if (data.segments[i].end == SegmentEnd::kTerminated || std::isfinite(final_value_[i]))
        continue;
      return absl::InternalError(
          absl::StrCat("the value of final_obs ", i, " is ", final_value_[i]));
    }
    return absl::OkStatus();
  }

  // Computes the state after the last row of each segment by a step from the state before that row,
  // which is stored with it; the states of the envs may be those of later rows already.
  absl::Status ComputeFinalStates(const SegmentBatch& data) {
    if (!states_.has_value()) return absl::OkStatus();
    const auto size = static_cast<size_t>(networks_.state_size());
    const absl::Span<const float> states = data.rows.column<float>(rnn_state_);
    last_row_.clear();
    final_state_.clear();
    for (const Segment& segment : data.segments) {
      last_row_.push_back(segment.begin + segment.length - 1);
      const absl::Span<const float> state =
          states.subspan(static_cast<size_t>(last_row_.back()) * size, size);
      final_state_.insert(final_state_.end(), state.begin(), state.end());
    }
    const Spec* const obs = networks_.observation().get();
    DING_ASSIGN_OR_RETURN(const MutableColumnsView rows,
                          last_rows_.Rows(static_cast<int64_t>(last_row_.size())));
    GatherRows(data.rows.view().Fields(obs, 0), last_row_, rows, 0);
    return networks_.Values(rows, absl::MakeSpan(final_value_), absl::MakeSpan(final_state_));
  }

  const ActorCriticPolicyOptions& options_;
  ActorCritic& networks_;
  Rng rng_;
  RewardScaler reward_scaler_;
  ColumnBinding inputs_;                   // of sends_obs()
  std::optional<RecurrentStates> states_;  // of recurrent networks
  SpecPtr output_;
  // Index of the head in output_; before it are the actions, after it log_prob, value and
  // rnn_state.
  int head_ = 0;

  std::optional<BlockPool> pool_;
  SpecPtr resolved_;  // the spec that the indices below belong to
  int reward_ = -1;
  int value_ = -1;
  int rnn_state_ = -1;  // -1: none

  // Working space, kept between calls.
  std::vector<float> final_value_;
  std::vector<int64_t> last_row_;   // of each segment
  std::vector<float> final_state_;  // after it
  ScratchColumns last_rows_;
  SequenceSamples samples_;
};

}  // namespace

std::unique_ptr<CollectMode> MakeActorCriticCollect(const ActorCriticPolicyOptions& options,
                                                    ActorCritic* networks) {
  return std::make_unique<ActorCriticCollect>(options, networks);
}

}  // namespace ding
