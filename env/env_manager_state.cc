// The saved state of EnvManagerCore. Tensors: "env" (name), "dynamic_seed"; "state", "seed",
// "saved" and the counters of kCounters with one element per env; "episode_return" with one per env
// and player; "player_out" likewise, if a player has ended before its game; "component_return" with
// one per env and component of the reward, if it has components; "row/<field>" with a row per env;
// "params/<i>/..." and "env/<i>/..." for env i.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/saved_columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/data/tensor.h"
#include "ding_worker/env/env_host.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/env/env_manager_core.h"

namespace ding {

constexpr char kRowPrefix[] = "row/";
constexpr char kPlayerOut[] = "player_out";

struct EnvManagerCore::Counter {
  absl::string_view name;
  int64_t Slot::*value;
};

const EnvManagerCore::Counter EnvManagerCore::kCounters[] = {
    {"length", &Slot::length},
    {"abnormal_in_a_row", &Slot::abnormal_in_a_row},
    {"episodes_done", &Slot::episodes_done},
    {"episodes_begun", &Slot::episodes_begun},
};

struct EnvManagerCore::SavedState {
  bool dynamic_seed = true;
  std::vector<uint8_t> saved;  // whether the env saved itself
  std::vector<Slot> slots;
  std::vector<Tensor> columns;
};

namespace {

absl::Status WriteParams(const NamedValues& params, StateWriter* writer) {
  std::vector<double> values;
  for (const NamedValues::Entry& entry : params) {
    DING_RETURN_IF_ERROR(writer->WriteString(absl::StrCat("name", values.size()), entry.first));
    values.push_back(entry.second);
  }
  return writer->WriteSpan<double>("values", values);
}

absl::StatusOr<NamedValues> ReadParams(StateReader* reader) {
  NamedValues params;
  DING_ASSIGN_OR_RETURN(const TensorInfo info, reader->Info("values"));
  std::vector<double> values(static_cast<size_t>(NumElements(info.shape)));
  DING_RETURN_IF_ERROR(reader->ReadSpan<double>("values", absl::MakeSpan(values)));
  for (size_t i = 0; i < values.size(); ++i) {
    DING_ASSIGN_OR_RETURN(const std::string name, reader->ReadString(absl::StrCat("name", i)));
    params.Set(name, values[i]);
  }
  return params;
}

// SaveState() writes these states only.
bool IsRestingState(uint8_t state) {
  return state == static_cast<uint8_t>(EnvState::kRun) ||
         state == static_cast<uint8_t>(EnvState::kDone) ||
         state == static_cast<uint8_t>(EnvState::kError) ||
         state == static_cast<uint8_t>(EnvState::kNeedReset);
}

}  // namespace

absl::Status EnvManagerCore::SaveState(StateWriter* writer) const {
  DING_RETURN_IF_ERROR(CheckOpen("SaveState"));
  DING_RETURN_IF_ERROR(writer->WriteString("env", spec_.name));
  DING_RETURN_IF_ERROR(writer->WriteInt("dynamic_seed", dynamic_seed_ ? 1 : 0));
  std::vector<uint8_t> states;
  std::vector<int64_t> seeds;
  std::vector<double> returns;
  for (const Slot& slot : slots_) {
    // A reset that is under way begins again after a load.
    const EnvState state = slot.state == EnvState::kReset ? EnvState::kRun : slot.state;
    states.push_back(static_cast<uint8_t>(state));
    seeds.push_back(static_cast<int64_t>(slot.seed));
    returns.push_back(slot.episode_return);
    returns.insert(returns.end(), slot.other_returns.begin(), slot.other_returns.end());
  }
  DING_RETURN_IF_ERROR(writer->WriteSpan<uint8_t>("state", states));
  DING_RETURN_IF_ERROR(writer->WriteSpan<int64_t>("seed", seeds));
  DING_RETURN_IF_ERROR(writer->WriteSpan<double>("episode_return", returns));
  std::vector<uint8_t> out;
  for (const Slot& slot : slots_) out.insert(out.end(), slot.out.begin(), slot.out.end());
  if (absl::c_any_of(out, [](uint8_t player_out) { return player_out != 0; })) {
    DING_RETURN_IF_ERROR(writer->WriteSpan<uint8_t>(kPlayerOut, out));
  }
  if (components_ > 0) {
    returns.clear();
    for (const Slot& slot : slots_) {
      returns.insert(returns.end(), slot.component_returns.begin(), slot.component_returns.end());
    }
    DING_RETURN_IF_ERROR(writer->WriteSpan<double>("component_return", returns));
  }
  for (const Counter& counter : kCounters) {
    std::vector<int64_t> values;
    for (const Slot& slot : slots_) values.push_back(slot.*counter.value);
    DING_RETURN_IF_ERROR(writer->WriteSpan<int64_t>(counter.name, values));
  }
  DING_RETURN_IF_ERROR(SaveRows(writer));
  return SaveEnvs(writer);
}

// While a request to an env is open, its thread or process may be writing its row. Such an env
// begins a new episode after a load, so zeros are saved in the place of its row.
absl::Status EnvManagerCore::SaveRows(StateWriter* writer) const {
  if (absl::c_none_of(slots_, [](const Slot& slot) { return slot.asked; })) {
    return SaveColumns(rows_, kRowPrefix, writer);
  }
  DING_ASSIGN_OR_RETURN(const BatchBuilder saved,
                        ZeroedRows(spec_.observation, static_cast<int64_t>(slots_.size())));
  for (const int env_id : all_ids_) {
    if (!asked(env_id)) CopyRows(ColumnsView(rows_).Slice(env_id, 1), saved.view(), env_id);
  }
  return SaveColumns(saved.view(), kRowPrefix, writer);
}

absl::Status EnvManagerCore::SaveEnvs(StateWriter* writer) const {
  std::vector<uint8_t> saved;
  for (const int env_id : all_ids_) {
    const Slot& slot = slots_[static_cast<size_t>(env_id)];
    ScopedStateWriter params(writer, absl::StrCat("params/", env_id));
    DING_RETURN_IF_ERROR(WriteParams(slot.params, &params));
    // Only a running episode can be continued; the result of a step under way is not known yet.
    absl::Status status = absl::UnimplementedError("not running");
    if (slot.ready) {
      ScopedStateWriter scoped(writer, absl::StrCat("env/", env_id));
      status = SaveEnv(env_id, &scoped);
    }
    saved.push_back(status.ok() ? 1 : 0);
    if (absl::IsUnimplemented(status)) continue;
    DING_RETURN_IF_ERROR(Annotate(status, absl::StrCat(EnvName(env_id), ": saving its state")));
  }
  return writer->WriteSpan<uint8_t>("saved", saved);
}

absl::StatusOr<EnvManagerCore::SavedState> EnvManagerCore::ReadState(StateReader* reader) const {
  const size_t count = slots_.size();
  SavedState state;
  state.slots.resize(count);
  DING_ASSIGN_OR_RETURN(const std::string name, reader->ReadString("env"));
  if (name != spec_.name) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the saved envs are '", name, "', those of this manager are '", spec_.name, "'"));
  }
  DING_ASSIGN_OR_RETURN(const int64_t dynamic_seed, reader->ReadInt("dynamic_seed"));
  state.dynamic_seed = dynamic_seed != 0;
  state.saved.resize(count);
  DING_RETURN_IF_ERROR(reader->ReadSpan<uint8_t>("saved", absl::MakeSpan(state.saved)));
  std::vector<uint8_t> states(count);
  std::vector<int64_t> ints(count);
  const auto players = static_cast<size_t>(spec_.players);
  std::vector<double> returns(count * players);
  std::vector<uint8_t> out(players > 1 ? count * players : 0);
  if (reader->Info(kPlayerOut).ok()) {
    DING_RETURN_IF_ERROR(reader->ReadSpan<uint8_t>(kPlayerOut, absl::MakeSpan(out)));
  }
  DING_RETURN_IF_ERROR(reader->ReadSpan<uint8_t>("state", absl::MakeSpan(states)));
  DING_RETURN_IF_ERROR(reader->ReadSpan<double>("episode_return", absl::MakeSpan(returns)));
  DING_RETURN_IF_ERROR(reader->ReadSpan<int64_t>("seed", absl::MakeSpan(ints)));
  for (size_t i = 0; i < count; ++i) {
    if (!IsRestingState(states[i])) {
      return absl::InvalidArgumentError(absl::StrCat("saved state of env ", i, " is ", states[i],
                                                     ", which is not a state of an env at rest"));
    }
    state.slots[i].state = static_cast<EnvState>(states[i]);
    const auto of_env = returns.begin() + static_cast<ptrdiff_t>(i * players);
    state.slots[i].episode_return = *of_env;
    state.slots[i].other_returns.assign(of_env + 1, of_env + spec_.players);
    if (players > 1) {
      const auto out_of_env = out.begin() + static_cast<ptrdiff_t>(i * players);
      state.slots[i].out.assign(out_of_env, out_of_env + spec_.players);
    }
    state.slots[i].seed = static_cast<uint64_t>(ints[i]);
    ScopedStateReader params(reader, absl::StrCat("params/", i));
    DING_ASSIGN_OR_RETURN(state.slots[i].params, ReadParams(&params));
  }
  if (components_ > 0) {
    const auto components = static_cast<size_t>(components_);
    returns.resize(count * components);
    DING_RETURN_IF_ERROR(reader->ReadSpan<double>("component_return", absl::MakeSpan(returns)));
    for (size_t i = 0; i < count; ++i) {
      const auto of_env = returns.begin() + static_cast<ptrdiff_t>(i * components);
      state.slots[i].component_returns.assign(of_env, of_env + components_);
    }
  }
  for (const Counter& counter : kCounters) {
    DING_RETURN_IF_ERROR(reader->ReadCounts(counter.name, absl::MakeSpan(ints)));
    for (size_t i = 0; i < count; ++i) state.slots[i].*counter.value = ints[i];
  }
  return state;
}

absl::Status EnvManagerCore::ReadRows(StateReader* reader, std::vector<Tensor>* columns) const {
  for (const FieldSpec& field : spec_.observation->fields()) {
    DING_RETURN_IF_ERROR(
        CheckSavedColumn(*reader, kRowPrefix, field, ColumnShape(env_num(), field.shape)));
    DING_ASSIGN_OR_RETURN(Tensor tensor, reader->ReadTensor(absl::StrCat(kRowPrefix, field.name)));
    columns->push_back(std::move(tensor));
  }
  return absl::OkStatus();
}

absl::Status EnvManagerCore::LoadState(StateReader* reader, std::vector<int>* restarted) {
  if (in_callback_) return InCallback("LoadState");
  DING_ASSIGN_OR_RETURN(SavedState state, ReadState(reader));
  DING_RETURN_IF_ERROR(ReadRows(reader, &state.columns));
  if (!closed_) DING_RETURN_IF_ERROR(Settle(all_ids_));
  for (int i = 0; i < env_num(); ++i) {
    Slot& slot = slots_[static_cast<size_t>(i)];
    Slot& from = state.slots[static_cast<size_t>(i)];
    SetState(i, from.state);
    slot.episode_return = from.episode_return;
    slot.other_returns = from.other_returns;
    slot.component_returns = from.component_returns;
    slot.out = from.out;
    slot.seed = from.seed;
    slot.params = std::move(from.params);
    for (const Counter& counter : kCounters) slot.*counter.value = from.*counter.value;
    // An env that begins a new episode has made other steps since its last abnormal one.
    if (slot.length > 0) slot.abnormal_in_a_row = 0;
  }
  dynamic_seed_ = state.dynamic_seed;
  closed_ = false;
  for (size_t i = 0; i < state.columns.size(); ++i) {
    const absl::string_view bytes = state.columns[i].bytes();
    std::memcpy(rows_.raw_column(static_cast<int>(i)), bytes.data(), bytes.size());
  }
  const absl::Status status = LoadEnvs(reader, state.saved, restarted);
  if (!status.ok()) Close();
  return status;
}

absl::Status EnvManagerCore::LoadEnvs(StateReader* reader, absl::Span<const uint8_t> saved,
                                      std::vector<int>* restarted) {
  restarted->clear();
  for (const int env_id : all_ids_) {
    Slot& slot = slots_[static_cast<size_t>(env_id)];
    if (slot.state != EnvState::kRun) continue;
    if (saved[static_cast<size_t>(env_id)] == 0) {
      restarted->push_back(env_id);
      DING_RETURN_IF_ERROR(ResetEnvs({env_id}));
      continue;
    }
    const std::string context = absl::StrCat(EnvName(env_id), ": loading its state");
    ScopedStateReader scoped(reader, absl::StrCat("env/", env_id));
    DING_RETURN_IF_ERROR(Annotate(LoadEnv(env_id, &scoped), context));
  }
  return absl::OkStatus();
}

}  // namespace ding
