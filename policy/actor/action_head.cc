#include "ding_worker/policy/actor/action_head.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ding_worker/base/finite.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/action_distribution.h"
#include "ding_worker/policy/action_space.h"
#include "ding_worker/policy/actor/actor_description.h"
#include "ding_worker/policy/batch_columns.h"
#include "ding_worker/policy/loss/td_loss.h"
#include "ding_worker/policy/network.h"

namespace ding {
namespace {

constexpr char kDistributionScope[] = "distribution";

class QHead : public ActionHead {
 public:
  explicit QHead(const SpecPtr& action)
      : action_(action->field(0)), width_(action_.num_categories) {}

  std::vector<FieldSpec> outputs() const override { return {Box("q", {width_})}; }

  absl::Status Best(const ColumnsView& outputs, absl::Span<const uint8_t> mask,
                    const MutableColumnsView& action) override {
    DING_RETURN_IF_ERROR(Check(outputs, mask));
    for (int64_t row = 0; row < outputs.rows(); ++row) {
      action.column<int64_t>(0)[static_cast<size_t>(row)] = BestOf(outputs, mask, row);
    }
    return absl::OkStatus();
  }

  absl::Status Sample(const ColumnsView& outputs, absl::Span<const uint8_t> mask,
                      double exploration, Rng* rng, const MutableColumnsView& action) override {
    DING_RETURN_IF_ERROR(Check(outputs, mask));
    for (int64_t row = 0; row < outputs.rows(); ++row) {
      const absl::Span<int64_t> taken = action.column<int64_t>(0).subspan(row, 1);
      if (rng->Uniform() < exploration) {
        DING_RETURN_IF_ERROR(DrawCategories(action_, OfRow(mask, row), rng, taken));
      } else {
        taken[0] = BestOf(outputs, mask, row);
      }
    }
    return absl::OkStatus();
  }

 private:
  template <typename T>
  absl::Span<const T> OfRow(absl::Span<const T> values, int64_t row) const {
    return values.empty() ? values : values.subspan(row * width_, width_);
  }
  int64_t BestOf(const ColumnsView& outputs, absl::Span<const uint8_t> mask, int64_t row) const {
    return Argmax(OfRow(outputs.column<float>(0), row), OfRow(mask, row));
  }
  absl::Status Check(const ColumnsView& outputs, absl::Span<const uint8_t> mask) const {
    const absl::Span<const float> q = outputs.column<float>(0);
    const int64_t bad = FindNonFinite(q);
    if (bad >= 0) {
      return absl::InternalError(absl::StrCat("'q' of row ", bad / width_, ", action ",
                                              bad % width_, " is ", q[bad],
                                              "; expected finite values"));
    }
    return CheckLegal(mask, {width_});
  }

  const FieldSpec action_;
  const int64_t width_;
};

class DistributionHead : public ActionHead {
 public:
  explicit DistributionHead(std::unique_ptr<ActionDistribution> distribution)
      : distribution_(std::move(distribution)),
        samples_(*MakeSpec(
            {distribution_->sample_fields().begin(), distribution_->sample_fields().end()})) {}

  std::vector<FieldSpec> outputs() const override { return {distribution_->head()}; }
  absl::Status Load(StateReader* model) override {
    return LoadParameters(distribution_->parameter_info(), kDistributionScope, model,
                          distribution_->parameters());
  }

  absl::Status Best(const ColumnsView& outputs, absl::Span<const uint8_t> mask,
                    const MutableColumnsView& action) override {
    DING_RETURN_IF_ERROR(distribution_->Set(outputs.column<float>(0), mask));
    distribution_->Mode(action);
    return absl::OkStatus();
  }

  absl::Status Sample(const ColumnsView& outputs, absl::Span<const uint8_t> mask,
                      double /*exploration*/, Rng* rng, const MutableColumnsView& action) override {
    DING_RETURN_IF_ERROR(distribution_->Set(outputs.column<float>(0), mask));
    DING_ASSIGN_OR_RETURN(const MutableColumnsView samples, samples_.Rows(outputs.rows()));
    distribution_->Sample(rng, samples);
    std::copy_n(samples.raw_column(0), outputs.rows() * samples.spec().row_bytes(0),
                action.raw_column(0));
    return absl::OkStatus();
  }

 private:
  const std::unique_ptr<ActionDistribution> distribution_;
  ScratchColumns samples_;
};

// The actors of TD3 and DDPG, and of SAC.
class TanhHead : public ActionHead {
 public:
  TanhHead(const FieldSpec& action, bool normal)
      : shape_(action.shape), normal_(normal), scale_(action) {}

  std::vector<FieldSpec> outputs() const override {
    std::vector<FieldSpec> fields = {Box("mean", shape_)};
    if (normal_) fields.push_back(Box("log_std", shape_));
    return fields;
  }

  absl::Status Best(const ColumnsView& outputs, absl::Span<const uint8_t> /*mask*/,
                    const MutableColumnsView& action) override {
    return Squash(outputs, nullptr, action);
  }
  absl::Status Sample(const ColumnsView& outputs, absl::Span<const uint8_t> /*mask*/,
                      double /*exploration*/, Rng* rng, const MutableColumnsView& action) override {
    return Squash(outputs, normal_ ? rng : nullptr, action);
  }

 private:
  static constexpr float kMinLogStd = -20;
  static constexpr float kMaxLogStd = 2;

  absl::Status Squash(const ColumnsView& outputs, Rng* rng,
                      const MutableColumnsView& action) const {
    const size_t size = static_cast<size_t>(outputs.rows()) * scale_.width();
    for (int field = 0; field < outputs.spec().size(); ++field) {
      const int64_t bad = FindNonFinite(outputs.column<float>(field));
      if (bad < 0) continue;
      return absl::InternalError(absl::StrCat(
          "'", outputs.spec().field(field).name, "' of row ", bad / scale_.width(), " is ",
          outputs.column<float>(field)[static_cast<size_t>(bad)], "; expected finite values"));
    }
    for (size_t at = 0; at < size; ++at) {
      float value = outputs.column<float>(0)[at];
      if (rng != nullptr) {
        const float log_std = std::clamp(outputs.column<float>(1)[at], kMinLogStd, kMaxLogStd);
        value += std::exp(log_std) * static_cast<float>(rng->Normal());
      }
      action.column<float>(0)[at] = scale_.FromUnit(std::tanh(value), at % scale_.width());
    }
    return absl::OkStatus();
  }

  const Shape shape_;
  const bool normal_;
  const ActionScale scale_;
};

absl::Status DoesNotFit(absl::string_view type, absl::string_view expected, const Spec& action) {
  return absl::InvalidArgumentError(absl::StrCat("head '", type, "' chooses ", expected,
                                                 ", the action space is\n", action.DebugString()));
}

absl::StatusOr<std::unique_ptr<ActionHead>> MakeQHead(const SpecPtr& action) {
  if (action->size() == 1 && action->field(0).is_discrete() &&
      action->field(0).num_elements() == 1) {
    return std::make_unique<QHead>(action);
  }
  return DoesNotFit(kQHead, "one category", *action);
}

absl::StatusOr<std::unique_ptr<ActionHead>> MakeCategoricalHead(const SpecPtr& action) {
  DING_ASSIGN_OR_RETURN(auto distribution, ActionDistribution::Create(*action));
  if (!action->field(0).is_discrete()) return DoesNotFit(kCategoricalHead, "categories", *action);
  return std::make_unique<DistributionHead>(std::move(distribution));
}

absl::StatusOr<std::unique_ptr<ActionHead>> MakeNormalHead(const SpecPtr& action) {
  DING_ASSIGN_OR_RETURN(auto distribution, ActionDistribution::Create(*action));
  if (action->field(0).is_discrete()) {
    return DoesNotFit(kNormalHead, "numbers within bounds", *action);
  }
  return std::make_unique<DistributionHead>(std::move(distribution));
}

absl::StatusOr<std::unique_ptr<ActionHead>> MakeSquashedNormalHead(const SpecPtr& action) {
  DING_RETURN_IF_ERROR(ActionScale::Create(*action, "head 'squashed_normal'").status());
  DING_ASSIGN_OR_RETURN(auto distribution,
                        ActionDistribution::Create(*action, /*initial_log_std=*/0,
                                                   /*squash=*/true));
  return std::make_unique<DistributionHead>(std::move(distribution));
}

absl::StatusOr<std::unique_ptr<ActionHead>> MakeTanhHead(const SpecPtr& action) {
  DING_RETURN_IF_ERROR(ActionScale::Create(*action, "head 'tanh'").status());
  return std::make_unique<TanhHead>(action->field(0), /*normal=*/false);
}

absl::StatusOr<std::unique_ptr<ActionHead>> MakeTanhNormalHead(const SpecPtr& action) {
  DING_RETURN_IF_ERROR(ActionScale::Create(*action, "head 'tanh_normal'").status());
  return std::make_unique<TanhHead>(action->field(0), /*normal=*/true);
}

struct HeadType {
  const char* name;
  absl::StatusOr<std::unique_ptr<ActionHead>> (*make)(const SpecPtr& action);
};
constexpr HeadType kHeadTypes[] = {{kQHead, MakeQHead},
                                   {kQDistributionHead, MakeQHead},
                                   {kCategoricalHead, MakeCategoricalHead},
                                   {kNormalHead, MakeNormalHead},
                                   {kSquashedNormalHead, MakeSquashedNormalHead},
                                   {kTanhHead, MakeTanhHead},
                                   {kTanhNormalHead, MakeTanhNormalHead}};

}  // namespace

absl::StatusOr<std::unique_ptr<ActionHead>> MakeActionHead(absl::string_view type,
                                                           const SpecPtr& action) {
  std::string known;
  for (const HeadType& head : kHeadTypes) {
    if (type == head.name) return head.make(action);
    absl::StrAppend(&known, known.empty() ? "" : ", ", head.name);
  }
  return absl::UnimplementedError(
      absl::StrCat("found head '", type, "', which this version does not know; it knows: ", known,
                   ". Use the version that trained the policy, or a later one"));
}

}  // namespace ding
