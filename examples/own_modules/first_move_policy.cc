// A policy that learns nothing: "first_move" plays the first legal move. An engine of your own can
// be an opponent like this.
//   opponent { type: "first_move" }
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/policy_registry.h"

namespace own {
namespace {

class FirstMove : public ding::Policy, private ding::EvalMode {
 public:
  static absl::StatusOr<std::unique_ptr<ding::Policy>> Create(const ding::PolicyConfig& /*config*/,
                                                              const ding::PolicyContext& context) {
    const std::optional<int> mask = context.observation->Find(ding::kActionMaskField);
    if (context.modes.learn || context.modes.collect || !mask.has_value()) {
      return absl::InvalidArgumentError(
          "policy 'first_move' learns nothing and needs an action mask: expected it as "
          "opponent.type of a board game, with learns: false");
    }
    return absl::WrapUnique(new FirstMove(context.action, *mask));
  }

  ding::CollectMode* collect_mode() override { return nullptr; }
  ding::LearnMode* learn_mode() override { return nullptr; }
  ding::EvalMode* eval_mode() override { return this; }
  ding::CommandMode* command_mode() override { return nullptr; }

 private:
  FirstMove(ding::SpecPtr action, int mask) : action_(std::move(action)), mask_(mask) {}

  const ding::SpecPtr& output_spec() const override { return action_; }
  absl::Status Forward(const ding::ColumnsView& obs, absl::Span<const int> /*env_ids*/,
                       const ding::NamedValues& /*settings*/,
                       const ding::MutableColumnsView& out) override {
    const absl::Span<const uint8_t> masks = obs.column<uint8_t>(mask_);
    const size_t moves = obs.rows() == 0 ? 0 : masks.size() / static_cast<size_t>(obs.rows());
    const absl::Span<int64_t> chosen = out.column<int64_t>(0);
    for (size_t row = 0; row < static_cast<size_t>(obs.rows()); ++row) {
      const absl::Span<const uint8_t> legal = masks.subspan(row * moves, moves);
      chosen[row] = std::find(legal.begin(), legal.end(), 1) - legal.begin();
    }
    return absl::OkStatus();
  }
  absl::Status LoadModel(ding::StateReader* /*reader*/) override { return absl::OkStatus(); }

  const ding::SpecPtr action_;
  const int mask_;  // the field of the observation
};

DING_REGISTER(ding::PolicyRegistry(), "first_move", FirstMove::Create, "the first legal move");

}  // namespace
}  // namespace own
