#include "ding_worker/policy/random_policy.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/action_space.h"
#include "ding_worker/policy/network.h"
#include "ding_worker/policy/policy_modes.h"

namespace ding {
namespace {

constexpr char kRngName[] = "rng";

// Returns the bound of element `element`; `bounds` has one value for all or one per element.
double Bound(const std::vector<double>& bounds, int64_t element) {
  return bounds.size() == 1 ? bounds[0] : bounds[static_cast<size_t>(element)];
}

bool IsBounded(const FieldSpec& field) {
  const auto finite = [](double bound) { return std::isfinite(bound); };
  return !field.low.empty() && !field.high.empty() &&
         std::all_of(field.low.begin(), field.low.end(), finite) &&
         std::all_of(field.high.begin(), field.high.end(), finite);
}

absl::Status CheckCanSample(const FieldSpec& field) {
  if (field.is_discrete() && field.dtype == DType::kInt64) return absl::OkStatus();
  if (!field.is_discrete() && field.dtype == DType::kFloat32 && IsBounded(field)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "random actions: field '", field.name, "' is ", field.DebugString(),
      ", expected int64 categories or a float32 box with finite bounds for every element"));
}

void SampleBox(const FieldSpec& field, absl::Span<float> values, Rng* rng) {
  const int64_t elements = field.num_elements();
  for (size_t i = 0; i < values.size(); ++i) {
    const int64_t element = static_cast<int64_t>(i) % elements;
    // The bounds of an action are float32 values (Spec::Create), so that rounding does not pass
    // them.
    values[i] =
        static_cast<float>(rng->Uniform(Bound(field.low, element), Bound(field.high, element)));
  }
}

absl::Status SampleCategories(const FieldSpec& field, absl::Span<const uint8_t> masks, int64_t rows,
                              absl::Span<int64_t> values, Rng* rng) {
  const auto width = static_cast<size_t>(field.num_elements());
  const size_t mask_width = rows == 0 ? 0 : masks.size() / static_cast<size_t>(rows);
  for (size_t row = 0; row < static_cast<size_t>(rows); ++row) {
    DING_RETURN_IF_ERROR(Annotate(DrawCategories(field, masks.subspan(row * mask_width, mask_width),
                                                 rng, values.subspan(row * width, width)),
                                  absl::StrCat("random policy: row ", row)));
  }
  return absl::OkStatus();
}

// Forward() of both modes.
absl::Status SampleActions(const ColumnsView& obs, const MutableColumnsView& out,
                           ActionSampler* sampler) {
  DING_RETURN_IF_ERROR(CheckSameLayout(*sampler->spec(), out.spec(), "random policy's output"));
  if (out.rows() < obs.rows()) {
    return absl::InvalidArgumentError(absl::StrCat("random policy's output has ", out.rows(),
                                                   " rows for ", obs.rows(), " observations"));
  }
  return sampler->Sample(obs, out.Slice(0, obs.rows()));
}

class RandomEvalMode : public EvalMode {
 public:
  explicit RandomEvalMode(ActionSampler sampler) : sampler_(std::move(sampler)) {}

  const SpecPtr& output_spec() const override { return sampler_.spec(); }
  absl::Status Forward(const ColumnsView& obs, absl::Span<const int> /*env_ids*/,
                       const NamedValues& /*settings*/, const MutableColumnsView& out) override {
    return SampleActions(obs, out, &sampler_);
  }
  absl::Status LoadModel(StateReader* reader) override { return LoadEmptyModel(reader); }

 private:
  ActionSampler sampler_;
};

class RandomPolicy : public Policy {
 public:
  RandomPolicy(std::unique_ptr<CollectMode> collect, std::unique_ptr<EvalMode> eval,
               std::unique_ptr<CommandMode> command)
      : collect_(std::move(collect)), eval_(std::move(eval)), command_(std::move(command)) {}

  CollectMode* collect_mode() override { return collect_.get(); }
  LearnMode* learn_mode() override { return nullptr; }
  EvalMode* eval_mode() override { return eval_.get(); }
  CommandMode* command_mode() override { return command_.get(); }

 private:
  const std::unique_ptr<CollectMode> collect_;
  const std::unique_ptr<EvalMode> eval_;
  const std::unique_ptr<CommandMode> command_;
};

}  // namespace

absl::StatusOr<ActionSampler> ActionSampler::Create(SpecPtr action, Rng rng, SpecPtr observation) {
  if (action == nullptr || action->size() == 0 || action->field(0).name != "action") {
    return absl::InvalidArgumentError(
        "random actions: the action space has no first field 'action'");
  }
  for (const FieldSpec& field : action->fields()) DING_RETURN_IF_ERROR(CheckCanSample(field));
  std::optional<int> mask_field;
  if (observation != nullptr) {
    DING_ASSIGN_OR_RETURN(mask_field, FindActionMask(*observation, *action));
  }
  return ActionSampler(std::move(action), rng, std::move(observation), mask_field);
}

absl::Status ActionSampler::Sample(const ColumnsView& obs, const MutableColumnsView& out) {
  absl::Span<const uint8_t> masks;
  if (mask_field_.has_value()) {
    DING_RETURN_IF_ERROR(CheckFirstFields(*observation_, obs.spec(), "random policy's input"));
    masks = ActionMaskOf(obs, mask_field_);
  }
  for (int i = 0; i < spec_->size(); ++i) {
    const FieldSpec& field = spec_->field(i);
    if (!field.is_discrete()) {
      SampleBox(field, out.column<float>(i), &rng_);
      continue;
    }
    DING_RETURN_IF_ERROR(SampleCategories(field, masks, obs.rows(), out.column<int64_t>(i), &rng_));
    masks = {};  // Only the first field, the action, has a mask.
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<RandomCollectMode>> RandomCollectMode::Create(
    SpecPtr action, uint64_t seed, CollectAttributes attributes, SpecPtr observation) {
  DING_ASSIGN_OR_RETURN(ActionSampler sampler,
                        ActionSampler::Create(std::move(action), Rng(seed, "policy/collect"),
                                              std::move(observation)));
  return absl::WrapUnique(new RandomCollectMode(std::move(sampler), attributes));
}

absl::Status RandomCollectMode::Forward(const ColumnsView& obs, absl::Span<const int> /*env_ids*/,
                                        const NamedValues& /*settings*/,
                                        const MutableColumnsView& out) {
  return SampleActions(obs, out, &sampler_);
}

absl::Status RandomCollectMode::LoadModel(StateReader* reader) { return LoadEmptyModel(reader); }

absl::Status RandomCollectMode::SaveState(StateWriter* writer) const {
  return writer->WriteRng(kRngName, sampler_.rng());
}

absl::Status RandomCollectMode::LoadState(StateReader* reader) {
  return reader->ReadRng(kRngName, &sampler_.rng());
}

absl::StatusOr<std::unique_ptr<Policy>> CreateRandomPolicy(const RandomPolicyOptions& options) {
  std::unique_ptr<CollectMode> collect;
  std::unique_ptr<EvalMode> eval;
  std::unique_ptr<CommandMode> command;
  if (options.modes.collect) {
    DING_ASSIGN_OR_RETURN(collect, RandomCollectMode::Create(options.action, options.seed,
                                                             options.collect, options.observation));
  }
  if (options.modes.eval) {
    DING_ASSIGN_OR_RETURN(ActionSampler sampler,
                          ActionSampler::Create(options.action, Rng(options.seed, "policy/eval"),
                                                options.observation));
    eval = std::make_unique<RandomEvalMode>(std::move(sampler));
  }
  if (options.modes.command) command = std::make_unique<ScheduledSettings>();
  return std::make_unique<RandomPolicy>(std::move(collect), std::move(eval), std::move(command));
}

}  // namespace ding
