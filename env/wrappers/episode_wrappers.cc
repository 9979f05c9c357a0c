// Registers the wrappers that change how episodes run: time_limit, action_repeat, sticky_actions,
// no_op_starts and episodic_life. Each saves what the rest of an episode depends on.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env.pb.h"
#include "ding_worker/env/env_host.h"
#include "ding_worker/env/env_registry.h"
#include "ding_worker/env/env_wrapper.h"
#include "ding_worker/env/wrappers/wrapper_specs.h"
#include "ding_worker/env/wrappers/wrappers.pb.h"

namespace ding {
namespace {

class TimeLimit : public EnvWrapper {
 public:
  TimeLimit(EnvSpec spec, int64_t max_steps)
      : EnvWrapper(std::move(spec), {}), max_steps_(max_steps) {}

  absl::StatusOr<Ask> AfterReset(const RowView&, const RowRef&, const RowRef&) override {
    steps_ = 0;
    return Ask::kNothing;
  }
  absl::StatusOr<Ask> AfterStep(const RowView&, const RowRef&, const RowRef&,
                                StepResult* result) override {
    ++steps_;
    if (steps_ >= max_steps_ && !result->terminated) result->truncated = true;
    return Ask::kNothing;
  }
  absl::Status SaveState(StateWriter* writer) const override {
    return writer->WriteInt("steps", steps_);
  }
  absl::Status LoadState(StateReader* reader) override {
    DING_ASSIGN_OR_RETURN(steps_, reader->ReadCount("steps"));
    return absl::OkStatus();
  }

 private:
  const int64_t max_steps_;
  int64_t steps_ = 0;
};

absl::StatusOr<std::unique_ptr<EnvWrapper>> CreateTimeLimit(const EnvWrapperConfig& /*config*/,
                                                            const TimeLimitConfig& params,
                                                            const EnvSpec& inner) {
  EnvSpec spec = inner;
  const bool shorter = spec.max_episode_steps == 0 || params.max_steps() < spec.max_episode_steps;
  if (shorter) spec.max_episode_steps = params.max_steps();
  return std::make_unique<TimeLimit>(std::move(spec), params.max_steps());
}

// Its whole state is in the middle of a step, which no saved state is.
class ActionRepeat : public EnvWrapper {
 public:
  ActionRepeat(EnvSpec spec, int count) : EnvWrapper(std::move(spec), {}), count_(count) {}

  void BeginStep(const RowView&, const RowRef&) override {
    if (left_ == 0) {
      left_ = count_;
      sum_ = 0;
    }
  }
  absl::StatusOr<Ask> AfterStep(const RowView&, const RowRef&, const RowRef&,
                                StepResult* result) override {
    sum_ += result->reward;
    --left_;
    const bool over = result->terminated || result->truncated;
    if (left_ > 0 && !over) return Ask::kStep;
    left_ = 0;
    result->reward = static_cast<float>(sum_);
    return Ask::kNothing;
  }
  void GiveUp() override { left_ = 0; }

 private:
  const int count_;
  int left_ = 0;
  double sum_ = 0;
};

absl::StatusOr<std::unique_ptr<EnvWrapper>> CreateActionRepeat(const EnvWrapperConfig& /*config*/,
                                                               const ActionRepeatConfig& params,
                                                               const EnvSpec& inner) {
  const int count = params.count();
  if (ActionMaskField(inner) >= 0 && count > 1) {
    return absl::InvalidArgumentError(absl::StrCat("the env has an action mask, '",
                                                   kActionMaskField,
                                                   "', which may forbid to repeat an action"));
  }
  EnvSpec spec = inner;
  spec.reward_low = std::min(inner.reward_low, inner.reward_low * count);
  spec.reward_high = std::max(inner.reward_high, inner.reward_high * count);
  spec.max_episode_steps = (inner.max_episode_steps + count - 1) / count;
  return std::make_unique<ActionRepeat>(std::move(spec), count);
}

// Draws from a stream of the episode's seed.
class StickyActions : public EnvWrapper {
 public:
  StickyActions(EnvSpec spec, double probability, BatchBuilder last)
      : EnvWrapper(std::move(spec), {false, true}),
        probability_(probability),
        last_(std::move(last)) {}

  Ask BeginReset(const EpisodeStart& start, const RowRef&) override {
    rng_ = Rng(start.seed, "env/sticky_actions");
    has_last_ = false;
    return Ask::kReset;
  }
  void BeginStep(const RowView& action, const RowRef& inner_action) override {
    const RowRef last = last_.view().row(0);
    if (!has_last_ || rng_.Uniform() >= probability_) CopyRow(action, last);
    has_last_ = true;
    CopyRow(last, inner_action);
  }
  absl::Status SaveState(StateWriter* writer) const override {
    DING_RETURN_IF_ERROR(writer->WriteRng("rng", rng_));
    DING_RETURN_IF_ERROR(writer->WriteInt("has_last", has_last_ ? 1 : 0));
    return writer->WriteString("last", Last());
  }
  absl::Status LoadState(StateReader* reader) override {
    DING_RETURN_IF_ERROR(reader->ReadRng("rng", &rng_));
    DING_ASSIGN_OR_RETURN(const int64_t has_last, reader->ReadInt("has_last"));
    has_last_ = has_last != 0;
    const RowRef last = last_.view().row(0);
    return reader->Read(
        "last", {absl::Span<char>(reinterpret_cast<char*>(last.raw_field(0)), Last().size())});
  }

 private:
  absl::string_view Last() const {
    const RowRef last = last_.view().row(0);
    return {reinterpret_cast<const char*>(last.raw_field(0)),
            static_cast<size_t>(last.spec().row_bytes(0))};
  }

  const double probability_;
  BatchBuilder last_;  // the action that the env got
  bool has_last_ = false;
  Rng rng_{0, "env/sticky_actions"};
};

absl::StatusOr<std::unique_ptr<EnvWrapper>> CreateStickyActions(const EnvWrapperConfig& /*config*/,
                                                                const StickyActionsConfig& params,
                                                                const EnvSpec& inner) {
  if (ActionMaskField(inner) >= 0) {
    return absl::InvalidArgumentError(absl::StrCat("the env has an action mask, '",
                                                   kActionMaskField,
                                                   "', which may forbid the action before"));
  }
  DING_ASSIGN_OR_RETURN(BatchBuilder last, ZeroedRows(inner.action, 1));
  return std::make_unique<StickyActions>(inner, params.probability(), std::move(last));
}

// Its whole state is in the middle of a reset, which no saved state is.
class NoOpStarts : public EnvWrapper {
 public:
  NoOpStarts(EnvSpec spec, int max_steps, int64_t action)
      : EnvWrapper(std::move(spec), {false, true}), max_steps_(max_steps), action_(action) {}

  Ask BeginReset(const EpisodeStart& start, const RowRef&) override {
    Rng rng(start.seed, "env/no_op_starts");
    left_ = static_cast<int>(rng.UniformInt(static_cast<uint64_t>(max_steps_) + 1));
    return Ask::kReset;
  }
  void BeginStep(const RowView& action, const RowRef& inner_action) override {
    CopyRow(action, inner_action);
  }
  absl::StatusOr<Ask> AfterReset(const RowView&, const RowRef&,
                                 const RowRef& inner_action) override {
    return NextNoOp(inner_action);
  }
  absl::StatusOr<Ask> AfterStep(const RowView&, const RowRef&, const RowRef& inner_action,
                                StepResult* result) override {
    if (!starting_) return Ask::kNothing;
    if (result->terminated || result->truncated) {
      left_ = 0;  // The episode begins without any.
      return Ask::kReset;
    }
    const Ask ask = NextNoOp(inner_action);
    if (ask == Ask::kNothing) *result = StepResult();
    return ask;
  }
  void GiveUp() override { starting_ = false; }

 private:
  Ask NextNoOp(const RowRef& inner_action) {
    starting_ = left_ > 0;
    if (!starting_) return Ask::kNothing;
    --left_;
    inner_action.field<int64_t>(0)[0] = action_;
    return Ask::kStep;
  }

  const int max_steps_;
  const int64_t action_;
  int left_ = 0;
  bool starting_ = false;  // whether the step that is made is one of the first
};

absl::StatusOr<std::unique_ptr<EnvWrapper>> CreateNoOpStarts(const EnvWrapperConfig& /*config*/,
                                                             const NoOpStartsConfig& params,
                                                             const EnvSpec& inner) {
  DING_RETURN_IF_ERROR(CheckCategory(inner, params.action()));
  return std::make_unique<NoOpStarts>(inner, params.max_steps(), params.action());
}

class EpisodicLife : public EnvWrapper {
 public:
  EpisodicLife(EnvSpec spec, int field, int64_t action)
      : EnvWrapper(std::move(spec), {false, true}), field_(field), action_(action) {}

  Ask BeginReset(const EpisodeStart&, const RowRef& inner_action) override {
    if (!goes_on_) return Ask::kReset;
    beginning_ = true;
    inner_action.field<int64_t>(0)[0] = action_;
    return Ask::kStep;
  }
  void BeginStep(const RowView& action, const RowRef& inner_action) override {
    goes_on_ = false;  // A reset in the middle of a life is one of the env.
    CopyRow(action, inner_action);
  }
  absl::StatusOr<Ask> AfterReset(const RowView& inner, const RowRef&, const RowRef&) override {
    lives_ = LivesOf(inner);
    goes_on_ = false;
    return Ask::kNothing;
  }
  absl::StatusOr<Ask> AfterStep(const RowView& inner, const RowRef&, const RowRef&,
                                StepResult* result) override {
    const double lives = LivesOf(inner);
    const bool over = result->terminated || result->truncated;
    if (std::exchange(beginning_, false)) {
      lives_ = lives;
      goes_on_ = false;
      return over ? Ask::kReset : Ask::kNothing;
    }
    goes_on_ = !over && lives < lives_;
    if (goes_on_) result->terminated = true;
    lives_ = lives;
    return Ask::kNothing;
  }
  void GiveUp() override { goes_on_ = beginning_ = false; }

  absl::Status SaveState(StateWriter* writer) const override {
    DING_RETURN_IF_ERROR(writer->WriteDouble("lives", lives_));
    return writer->WriteInt("goes_on", goes_on_ ? 1 : 0);
  }
  absl::Status LoadState(StateReader* reader) override {
    DING_ASSIGN_OR_RETURN(lives_, reader->ReadDouble("lives"));
    DING_ASSIGN_OR_RETURN(const int64_t goes_on, reader->ReadInt("goes_on"));
    goes_on_ = goes_on != 0;
    return absl::OkStatus();
  }

 private:
  double LivesOf(const RowView& row) const {
    switch (row.spec().dtype(field_)) {
      case DType::kUint8:
      case DType::kBool:
        return row.scalar<uint8_t>(field_);
      case DType::kInt32:
        return row.scalar<int32_t>(field_);
      case DType::kInt64:
        return static_cast<double>(row.scalar<int64_t>(field_));
      default:
        return row.scalar<float>(field_);
    }
  }

  const int field_;
  const int64_t action_;
  double lives_ = 0;
  bool goes_on_ = false;    // a life ended, and the env's own episode did not
  bool beginning_ = false;  // whether the step that is made begins an episode
};

absl::StatusOr<std::unique_ptr<EnvWrapper>> CreateEpisodicLife(const EnvWrapperConfig& /*config*/,
                                                               const EpisodicLifeConfig& params,
                                                               const EnvSpec& inner) {
  DING_RETURN_IF_ERROR(CheckCategory(inner, params.action()));
  DING_ASSIGN_OR_RETURN(const int field, FindObsField(inner, params.field()));
  const FieldSpec& lives = inner.observation->field(field);
  if (lives.num_elements() != 1) {
    return absl::InvalidArgumentError(absl::StrCat("field '", lives.name, "' is ",
                                                   lives.DebugString(),
                                                   ", expected one number: that of the lives"));
  }
  return std::make_unique<EpisodicLife>(inner, field, params.action());
}

DING_REGISTER(EnvWrapperRegistry(), "time_limit", CreateTimeLimit,
              "truncates an episode after max_steps steps");
DING_REGISTER(EnvWrapperRegistry(), "action_repeat", CreateActionRepeat,
              "takes each action `count` times and sums the rewards");
DING_REGISTER(EnvWrapperRegistry(), "sticky_actions", CreateStickyActions,
              "takes the action before instead, with a probability");
DING_REGISTER(EnvWrapperRegistry(), "no_op_starts", CreateNoOpStarts,
              "begins an episode with a random number of steps of one action");
DING_REGISTER(EnvWrapperRegistry(), "episodic_life", CreateEpisodicLife,
              "ends an episode when a life is lost");

}  // namespace
}  // namespace ding
