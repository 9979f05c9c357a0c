#include "ding_worker/env/env_manager.h"

#include <cmath>

#include "absl/base/optimization.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/spec.h"

namespace ding {
namespace {

absl::Status IllegalAction(const FieldSpec& field, int env_id, absl::string_view value) {
  return absl::InvalidArgumentError(absl::StrCat("env ", env_id, ": ", field.name, " ", value,
                                                 " is not legal, expected ", field.DebugString()));
}

absl::Status CheckCategories(const FieldSpec& want, absl::Span<const int> env_ids,
                             absl::Span<const int64_t> values,
                             absl::FunctionRef<bool(int env_id)> plays) {
  const auto width = static_cast<size_t>(want.num_elements());
  const auto most = static_cast<uint64_t>(want.num_categories);
  bool legal = true;
  for (const int64_t value : values) legal &= static_cast<uint64_t>(value) < most;
  if (ABSL_PREDICT_TRUE(legal && want.high.empty())) return absl::OkStatus();
  for (size_t i = 0; i < values.size(); ++i) {
    const int64_t count = want.CategoryCount(static_cast<int64_t>(i % width));
    if ((values[i] >= 0 && values[i] < count) || !plays(env_ids[i / width])) continue;
    return IllegalAction(want, env_ids[i / width], absl::StrCat(values[i]));
  }
  return absl::OkStatus();
}

absl::Status CheckBounds(const FieldSpec& want, absl::Span<const int> env_ids,
                         absl::Span<const float> values,
                         absl::FunctionRef<bool(int env_id)> plays) {
  const auto width = static_cast<size_t>(want.num_elements());
  const size_t bounds = want.low.size();
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t bound = bounds == 1 ? 0 : i % width;
    const bool inside = bounds == 0 || (values[i] >= static_cast<float>(want.low[bound]) &&
                                        values[i] <= static_cast<float>(want.high[bound]));
    if ((!std::isfinite(values[i]) || !inside) && plays(env_ids[i / width])) {
      return IllegalAction(want, env_ids[i / width], absl::StrCat(values[i]));
    }
  }
  return absl::OkStatus();
}

// Checks the actions of one player.
absl::Status CheckActionColumn(const EnvSpec& spec, int field, absl::Span<const int> env_ids,
                               const ColumnsView& actions, PlaysFn plays) {
  const FieldSpec& want = spec.action->field(field);
  if (field >= actions.spec().size()) {
    return absl::InvalidArgumentError(absl::StrCat("actions: there is no field '", want.name,
                                                   "', which env '", spec.name, "' expects"));
  }
  const FieldSpec& have = actions.spec().field(field);
  const bool same = &have == &want || (have.name == want.name && have.dtype == want.dtype &&
                                       have.shape == want.shape);
  if (!same) {
    return absl::InvalidArgumentError(
        absl::StrCat("actions: field ", field, " is '", have.name, "' ", have.DebugString(),
                     ", env '", spec.name, "' expects '", want.name, "' ", want.DebugString()));
  }
  const auto player_plays = [&](int env_id) { return plays(env_id, field); };
  return want.is_discrete()
             ? CheckCategories(want, env_ids, actions.column<int64_t>(field), player_plays)
             : CheckBounds(want, env_ids, actions.column<float>(field), player_plays);
}

}  // namespace

absl::string_view EnvStateName(EnvState state) {
  // A switch, like those of other enums, and not a shared table: the compiler warns if a name is
  // missing.
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
                          const ColumnsView& actions, PlaysFn plays) {
  if (actions.rows() != static_cast<int64_t>(env_ids.size())) {
    return absl::InvalidArgumentError(
        absl::StrCat(actions.rows(), " actions for ", env_ids.size(), " envs"));
  }
  if (env_ids.empty()) return absl::OkStatus();  // `actions` may be without a spec.
  for (int field = 0; field < spec.players; ++field) {
    DING_RETURN_IF_ERROR(CheckActionColumn(spec, field, env_ids, actions, plays));
  }
  return absl::OkStatus();
}

absl::Status CheckActionMasks(const EnvSpec& spec, absl::Span<const int> masks,
                              absl::Span<const int> env_ids, const ColumnsView& actions,
                              const ColumnsView& obs, PlaysFn plays) {
  if (static_cast<int>(masks.size()) > spec.players ||
      actions.rows() != static_cast<int64_t>(env_ids.size())) {
    return absl::InvalidArgumentError(absl::StrCat(masks.size(), " masks of ", spec.players,
                                                   " players, ", actions.rows(), " actions for ",
                                                   env_ids.size(), " envs"));
  }
  for (const int env_id : env_ids) {
    if (env_id >= 0 && env_id < obs.rows()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("there is no observation of env ", env_id, ", only of 0..", obs.rows() - 1));
  }
  for (int player = 0; player < static_cast<int>(masks.size()); ++player) {
    if (masks[player] < 0) continue;
    const FieldSpec& field = spec.action->field(player);
    if (masks[player] >= obs.spec().size() || obs.spec().dtype(masks[player]) != DType::kBool) {
      return absl::InvalidArgumentError(
          absl::StrCat("field ", masks[player], " of the observation is no action mask"));
    }
    const absl::Span<const int64_t> chosen = actions.column<int64_t>(player);
    const auto width = static_cast<size_t>(field.num_elements());
    for (size_t i = 0; i < env_ids.size(); ++i) {
      const absl::Span<const uint8_t> legal = obs.row(env_ids[i]).field<uint8_t>(masks[player]);
      size_t offset = 0;  // where the element's categories begin in the mask
      for (size_t j = 0; j < width; ++j) {
        const int64_t value = chosen[i * width + j];
        const size_t place = offset + static_cast<size_t>(value);
        const bool in_range = value >= 0 && place >= offset && place < legal.size();
        // Nobody reads the action of a player that has ended.
        if (!(in_range && legal[place] != 0) && plays(env_ids[i], player)) {
          if (!in_range) return IllegalAction(field, env_ids[i], absl::StrCat(value));
          return absl::InvalidArgumentError(absl::StrCat(
              "env ", env_ids[i], ": ", field.name, " ", value, " is not legal: its observation '",
              spec.observation->field(masks[player]).name, "' forbids it"));
        }
        offset += static_cast<size_t>(field.CategoryCount(static_cast<int64_t>(j)));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace ding
