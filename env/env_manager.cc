#include "ding_worker/env/env_manager.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "ding_worker/base/status_macros.h"

namespace ding {
namespace {

absl::Status IllegalAction(const FieldSpec& field, int env_id, absl::string_view value) {
  return absl::InvalidArgumentError(absl::StrCat("env ", env_id, ": action ", value,
                                                 " is not legal, expected ", field.DebugString()));
}

}  // namespace

absl::string_view EnvStateName(EnvState state) {
  switch (state) {
    case EnvState::kVoid:
      return "VOID";
    case EnvState::kInit:
      return "INIT";
    case EnvState::kRun:
      return "RUN";
    case EnvState::kReset:
      return "RESET";
    case EnvState::kDone:
      return "DONE";
    case EnvState::kError:
      return "ERROR";
    case EnvState::kNeedReset:
      return "NEED_RESET";
  }
  return "unknown state";
}

absl::Status EnvManager::Seed(uint64_t seed, bool dynamic) {
  std::vector<uint64_t> seeds(static_cast<size_t>(env_num()));
  for (size_t i = 0; i < seeds.size(); ++i) seeds[i] = seed + i;
  return Seed(seeds, dynamic);
}

absl::Status CheckActions(const EnvSpec& spec, absl::Span<const int> env_ids,
                          const ColumnsView& actions) {
  const FieldSpec& want = spec.action->field(0);
  const FieldSpec& have = actions.spec().field(0);
  if (have.name != want.name || have.dtype != want.dtype || have.shape != want.shape) {
    return absl::InvalidArgumentError(
        absl::StrCat("actions: first field is '", have.name, "' ", have.DebugString(), ", env '",
                     spec.name, "' expects '", want.name, "' ", want.DebugString()));
  }
  if (actions.rows() != static_cast<int64_t>(env_ids.size())) {
    return absl::InvalidArgumentError(
        absl::StrCat(actions.rows(), " actions for ", env_ids.size(), " envs"));
  }
  const int64_t width = want.num_elements();
  if (want.is_discrete()) {
    const absl::Span<const int64_t> values = actions.column<int64_t>(0);
    for (size_t i = 0; i < values.size(); ++i) {
      const int64_t count = want.CategoryCount(static_cast<int64_t>(i) % width);
      if (static_cast<uint64_t>(values[i]) >= static_cast<uint64_t>(count)) {
        return IllegalAction(want, env_ids[i / width], absl::StrCat(values[i]));
      }
    }
    return absl::OkStatus();
  }
  const absl::Span<const float> values = actions.column<float>(0);
  const size_t bounds = want.low.size();
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t bound = bounds == 1 ? 0 : i % width;
    const bool inside = bounds == 0 || (values[i] >= static_cast<float>(want.low[bound]) &&
                                        values[i] <= static_cast<float>(want.high[bound]));
    if (!std::isfinite(values[i]) || !inside) {
      return IllegalAction(want, env_ids[i / width], absl::StrCat(values[i]));
    }
  }
  return absl::OkStatus();
}

}  // namespace ding
