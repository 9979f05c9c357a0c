// Registers the wrappers that normalize by statistics of all envs: normalize_observation and
// normalize_reward. They work in the thread of the manager's caller, on the rows of a step at once.
// In managers that evaluate, the first one applies the statistics that it has loaded and learns
// nothing; the second one leaves rewards as they are.
//
// State: the statistics, "<field>/..."; the normalized rows, because statistics may have moved on
// since, and which rows are still to be normalized; the running discounted return of each env.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/running_normalizer.h"
#include "ding_worker/data/saved_columns.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env.pb.h"
#include "ding_worker/env/env_host.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/env/env_registry.h"
#include "ding_worker/env/env_wrapper.h"
#include "ding_worker/env/wrappers/wrapper_specs.h"
#include "ding_worker/env/wrappers/wrappers.pb.h"

namespace ding {
namespace {

constexpr char kStatistics[] = "statistics";
constexpr char kRowPrefix[] = "row/";
constexpr char kNew[] = "new";

class NormalizedObservations : public EnvManagerWrapper {
 public:
  struct Blocks {
    BatchBuilder rows;   // the normalized observation of each env
    BatchBuilder ready;  // those of the ready envs, if not all are
    BatchBuilder final;
  };

  NormalizedObservations(std::unique_ptr<EnvManager> inner, EnvSpec spec, int field, double clip,
                         bool learns, Blocks blocks)
      : EnvManagerWrapper(std::move(inner)),
        spec_(std::move(spec)),
        field_(field),
        learns_(learns),
        normalizer_(spec_.observation->field(field).num_elements(), clip),
        blocks_(std::move(blocks)),
        is_new_(static_cast<size_t>(env_num()), 1) {
    values_.reserve(is_new_.size() * static_cast<size_t>(normalizer_.width()));
    ready_rows_.reserve(is_new_.size());
  }

  const EnvSpec& env_spec() const override { return spec_; }

  absl::Status Launch() override {
    std::fill(is_new_.begin(), is_new_.end(), 1);
    return inner()->Launch();
  }
  absl::Status Reset() override {
    std::fill(is_new_.begin(), is_new_.end(), 1);
    return inner()->Reset();
  }
  absl::Status Reset(absl::Span<const EnvReset> envs) override {
    DING_RETURN_IF_ERROR(inner()->Reset(envs));
    for (const EnvReset& env : envs) NoteNew(env.env_id);
    return absl::OkStatus();
  }

  absl::StatusOr<const Timesteps*> Step(absl::Span<const int> env_ids,
                                        const ColumnsView& actions) override {
    const absl::StatusOr<const Timesteps*> stepped = inner()->Step(env_ids, actions);
    // Also after an error: some of them may still be at their step.
    for (const int env_id : env_ids) {
      if (env_id >= 0 && env_id < env_num()) NoteNew(env_id);
    }
    if (!stepped.ok()) return stepped;
    timesteps_ = **stepped;
    const ColumnsView& last = (*stepped)->final_obs;
    if (last.rows() == 0) return &timesteps_;
    if (learns_) normalizer_.Update(last.column<float>(field_));
    CopyRows(last, blocks_.final.view(), 0);
    timesteps_.final_obs = ColumnsView(blocks_.final.view()).Slice(0, last.rows());
    normalizer_.Normalize(last.column<float>(field_),
                          blocks_.final.view().Slice(0, last.rows()).column<float>(field_));
    return &timesteps_;
  }

  ReadyObs ready_obs() override {
    ReadyObs ready = inner()->ready_obs();
    if (learns_) Learn(ready);
    ready_rows_.clear();
    for (size_t i = 0; i < ready.env_ids.size(); ++i) {
      const int env_id = ready.env_ids[i];
      ready_rows_.push_back(env_id);
      if (is_new_[static_cast<size_t>(env_id)] == 0) continue;
      is_new_[static_cast<size_t>(env_id)] = 0;
      const RowView raw = ready.obs.row(static_cast<int64_t>(i));
      const RowRef row = blocks_.rows.view().row(env_id);
      CopyOtherFields(raw, field_, row);
      normalizer_.Normalize(raw.field<float>(field_), row.field<float>(field_));
    }
    const ColumnsView rows(blocks_.rows.view());
    if (ready_rows_.size() == is_new_.size()) {
      ready.obs = rows;
    } else {
      GatherRows(rows, ready_rows_, blocks_.ready.view(), 0);
      ready.obs =
          ColumnsView(blocks_.ready.view()).Slice(0, static_cast<int64_t>(ready_rows_.size()));
    }
    return ready;
  }

 protected:
  bool has_own_statistics() const override { return true; }
  absl::Status SaveOwnStatistics(StateWriter* writer) const override {
    ScopedStateWriter scoped(writer, spec_.observation->field(field_).name);
    return normalizer_.SaveState(&scoped);
  }
  absl::Status LoadOwnStatistics(StateReader* reader) override {
    ScopedStateReader scoped(reader, spec_.observation->field(field_).name);
    return normalizer_.LoadState(&scoped);
  }
  absl::Status SaveOwnState(StateWriter* writer) const override {
    DING_RETURN_IF_ERROR(writer->WriteSpan<uint8_t>(kNew, is_new_));
    return SaveColumns(blocks_.rows.view(), kRowPrefix, writer);
  }
  absl::Status LoadOwnState(StateReader* reader, absl::Span<const int> restarted) override {
    DING_RETURN_IF_ERROR(reader->ReadSpan<uint8_t>(kNew, absl::MakeSpan(is_new_)));
    DING_RETURN_IF_ERROR(LoadColumns(kRowPrefix, blocks_.rows.view(), reader));
    for (const int env_id : restarted) NoteNew(env_id);
    return absl::OkStatus();
  }

 private:
  void NoteNew(int env_id) { is_new_[static_cast<size_t>(env_id)] = 1; }

  // Adds the new rows to the statistics.
  void Learn(const ReadyObs& ready) {
    values_.clear();
    for (size_t i = 0; i < ready.env_ids.size(); ++i) {
      if (is_new_[static_cast<size_t>(ready.env_ids[i])] == 0) continue;
      const absl::Span<const float> row =
          ready.obs.row(static_cast<int64_t>(i)).field<float>(field_);
      values_.insert(values_.end(), row.begin(), row.end());
    }
    normalizer_.Update(values_);
  }

  const EnvSpec spec_;
  const int field_;
  const bool learns_;
  RunningNormalizer normalizer_;
  const Blocks blocks_;
  std::vector<uint8_t> is_new_;      // whether the row of an env inside was not normalized yet
  std::vector<int64_t> ready_rows_;  // env ids
  std::vector<float> values_;        // working space
  Timesteps timesteps_;
};

absl::StatusOr<std::unique_ptr<EnvManager>> CreateObservation(
    const EnvWrapperConfig& /*config*/, const NormalizeObservationConfig& params,
    const EnvsUse& use, std::unique_ptr<EnvManager> inner) {
  DING_ASSIGN_OR_RETURN(const int index, FindObsField(inner->env_spec(), params.field()));
  FieldSpec field = inner->env_spec().observation->field(index);
  if (field.dtype != DType::kFloat32) {
    return absl::InvalidArgumentError(
        absl::StrCat("field '", field.name, "' is ", field.DebugString(),
                     ", expected float32: the wrapper flatten makes one"));
  }
  if (field.frame_stack_axis >= 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "field '", field.name,
        "' is a stack of frames, of which replay buffers keep each once: expected a field "
        "without frame_stack, since frames that are normalized by statistics of another "
        "moment differ"));
  }
  StateDict others;
  DING_RETURN_IF_ERROR(inner->SaveStatistics(&others));
  ScopedStateReader of_field(&others, field.name);
  if (!of_field.Names().empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("field '", field.name, "' is normalized by another wrapper already"));
  }
  field.low = {-params.clip()};
  field.high = {params.clip()};
  DING_ASSIGN_OR_RETURN(EnvSpec spec, WithObsField(inner->env_spec(), index, std::move(field)));
  const int env_num = inner->env_num();
  DING_ASSIGN_OR_RETURN(BatchBuilder rows, ZeroedRows(spec.observation, env_num));
  DING_ASSIGN_OR_RETURN(BatchBuilder ready, ZeroedRows(spec.observation, env_num));
  DING_ASSIGN_OR_RETURN(BatchBuilder final, ZeroedRows(spec.observation, env_num));
  return std::make_unique<NormalizedObservations>(
      std::move(inner), std::move(spec), index, params.clip(), !use.evaluates,
      NormalizedObservations::Blocks{std::move(rows), std::move(ready), std::move(final)});
}

class NormalizedRewards : public EnvManagerWrapper {
 public:
  NormalizedRewards(std::unique_ptr<EnvManager> inner, EnvSpec spec, double gamma, double clip)
      : EnvManagerWrapper(std::move(inner)),
        spec_(std::move(spec)),
        clip_(static_cast<float>(clip)),
        scaler_(gamma) {
    segments_.reserve(static_cast<size_t>(env_num()));
    scaled_.reserve(static_cast<size_t>(env_num()));
    rewards_.reserve(static_cast<size_t>(env_num()));
  }

  const EnvSpec& env_spec() const override { return spec_; }

  absl::Status Launch() override {
    Forget(0, env_num());
    return inner()->Launch();
  }
  absl::Status Reset() override {
    Forget(0, env_num());
    return inner()->Reset();
  }
  absl::Status Reset(absl::Span<const EnvReset> envs) override {
    DING_RETURN_IF_ERROR(inner()->Reset(envs));
    for (const EnvReset& env : envs) Forget(env.env_id, env.env_id + 1);
    return absl::OkStatus();
  }

  absl::StatusOr<const Timesteps*> Step(absl::Span<const int> env_ids,
                                        const ColumnsView& actions) override {
    DING_ASSIGN_OR_RETURN(const Timesteps* const stepped, inner()->Step(env_ids, actions));
    timesteps_ = *stepped;
    segments_.clear();
    scaled_.clear();
    for (size_t i = 0; i < stepped->reward.size(); ++i) {
      Segment segment;
      segment.stream = stepped->env_ids[i];
      segment.begin = static_cast<int64_t>(scaled_.size());
      const bool is_void = stepped->abnormal[i] != 0;  // It has no reward, and ends the episode.
      if (is_void || stepped->terminated[i] != 0 || stepped->truncated[i] != 0) {
        segment.end = SegmentEnd::kTerminated;
      }
      if (!is_void) {
        segment.length = 1;
        scaled_.push_back(stepped->reward[i]);
      }
      segments_.push_back(segment);
    }
    scaler_.Scale(segments_, absl::MakeSpan(scaled_));
    rewards_.assign(stepped->reward.begin(), stepped->reward.end());
    size_t next = 0;
    for (size_t i = 0; i < rewards_.size(); ++i) {
      if (segments_[i].length == 0) continue;
      rewards_[i] = std::clamp(scaled_[next++], -clip_, clip_);
    }
    timesteps_.reward = rewards_;
    return &timesteps_;
  }

 protected:
  absl::Status SaveOwnState(StateWriter* writer) const override {
    ScopedStateWriter scoped(writer, kStatistics);
    return scaler_.SaveState(&scoped);
  }
  absl::Status LoadOwnState(StateReader* reader, absl::Span<const int> restarted) override {
    ScopedStateReader scoped(reader, kStatistics);
    DING_RETURN_IF_ERROR(scaler_.LoadState(&scoped));
    for (const int env_id : restarted) Forget(env_id, env_id + 1);
    return absl::OkStatus();
  }

 private:
  // Forgets the returns so far of envs [begin, end), which begin new episodes.
  void Forget(int begin, int end) {
    segments_.clear();
    for (int env_id = begin; env_id < end; ++env_id) {
      Segment segment;
      segment.stream = env_id;
      segment.end = SegmentEnd::kTerminated;
      segments_.push_back(segment);
    }
    scaler_.Scale(segments_, {});
  }

  const EnvSpec spec_;
  const float clip_;
  RewardScaler scaler_;
  std::vector<Segment> segments_;  // working space
  std::vector<float> scaled_;      // rewards of the steps that are not void
  std::vector<float> rewards_;
  Timesteps timesteps_;
};

absl::StatusOr<std::unique_ptr<EnvManager>> CreateReward(const EnvWrapperConfig& /*config*/,
                                                         const NormalizeRewardConfig& params,
                                                         const EnvsUse& use,
                                                         std::unique_ptr<EnvManager> inner) {
  EnvSpec spec = inner->env_spec();
  DING_RETURN_IF_ERROR(CheckOneReward(spec));
  if (use.evaluates) return inner;
  spec.reward_low = -params.clip();
  spec.reward_high = params.clip();
  return std::make_unique<NormalizedRewards>(std::move(inner), std::move(spec),
                                             params.discount_factor(), params.clip());
}

DING_REGISTER(EnvWrapperRegistry(), "normalize_observation", CreateObservation,
              "normalizes a field by the mean and deviation of all envs so far");
DING_REGISTER(EnvWrapperRegistry(), "normalize_reward", CreateReward,
              "divides rewards by the deviation of the return of all envs so far");

}  // namespace
}  // namespace ding
