#include "ding_worker/policy/loss/loss_columns.h"

#include <algorithm>
#include <cstddef>
#include <list>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

namespace ding {
namespace {

constexpr int64_t kRows = 2;

void AddCritics(int num_critics, LossColumnNames* names) {
  for (int k = 0; k < num_critics; ++k) names->emplace_back(absl::StrCat("q", k), 0);
}

}  // namespace

LossColumns DqnLossColumns(int64_t actions, bool has_mask, bool has_target_of_obs) {
  LossColumns columns;
  columns.batch = {{"action", 0}, {"reward", 0}, {"discount", 0}};
  if (has_mask) {
    columns.batch.emplace_back("action_mask", actions);
    columns.batch.emplace_back("next_action_mask", actions);
  }
  columns.outputs = {{"q", actions}};
  columns.target = {{"next_q", actions}, {"next_value", 0}};
  if (has_target_of_obs) columns.target.emplace_back("q", actions);
  return columns;
}

LossColumns ActorCriticLossColumns() {
  return {{{"adv", 0}, {"return", 0}},
          {{"log_prob", 0}, {"entropy", 0}, {"value", 0}},
          {{"log_prob", 0}, {"value", 0}},
          {"value_weight", "entropy_weight", "clip_ratio", "value_clip"}};
}

LossColumns CriticLossColumns(int64_t width, int num_critics) {
  LossColumns columns;
  columns.batch = {{"action", width}, {"reward", 0}, {"discount", 0}};
  AddCritics(num_critics, &columns.outputs);
  columns.target = {{"next_value", 0}};
  return columns;
}

LossColumns ActorLossColumns(int64_t width, int num_critics, bool has_log_prob) {
  LossColumns columns;
  columns.batch = {{"action", width}};
  AddCritics(num_critics, &columns.outputs);
  columns.outputs.emplace_back("action", width);
  if (has_log_prob) {
    columns.outputs.emplace_back("log_prob", 0);
    columns.numbers = {"alpha"};
  }
  return columns;
}

absl::Status CheckLossColumns(LossFunction* loss, const LossColumns& columns) {
  auto* const checks = dynamic_cast<ChecksColumns*>(loss);
  if (checks == nullptr) return absl::OkStatus();
  std::list<std::vector<float>> values;
  const std::vector<int64_t> actions(kRows, 0);
  std::list<std::vector<uint8_t>> masks;
  const auto elements = [](int64_t width) {
    return static_cast<size_t>(kRows * std::max<int64_t>(1, width));
  };
  const auto column = [&](const std::string& name, int64_t width) -> LossColumn {
    if (name == "action" && width == 0) return {name, absl::MakeConstSpan(actions), 0};
    if (absl::EndsWith(name, "action_mask")) {
      return {name, absl::MakeConstSpan(masks.emplace_back(elements(width), 1)), width};
    }
    return {name, absl::MakeConstSpan(values.emplace_back(elements(width), 0.5f)), width};
  };
  LossInput input;
  input.rows = kRows;
  for (const auto& [name, width] : columns.batch) input.batch.push_back(column(name, width));
  for (const auto& [name, width] : columns.target) input.target.push_back(column(name, width));
  for (const auto& [name, width] : columns.outputs) {
    std::vector<float>& output = values.emplace_back(elements(width), 0.5f);
    std::vector<float>& gradient = values.emplace_back(elements(width), 0.0f);
    input.outputs.push_back({name, output, absl::MakeSpan(gradient), width});
  }
  for (const std::string& name : columns.numbers) input.numbers.Set(name, 0.5);
  return checks->CheckColumns(input);
}

}  // namespace ding
