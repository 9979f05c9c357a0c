// The ends of episodes of EnvManagerCore: it sets the last observations aside, tells
// on_episode_end, and begins the next episodes.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"
#include "ding_worker/base/call_user.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/env/env_manager_core.h"

namespace ding {

absl::Status EnvManagerCore::InCallback(absl::string_view call) {
  return absl::FailedPreconditionError(
      absl::StrCat(call,
                   ": it is called from on_episode_end, while a step is under way; expected "
                   "Render() at most, other calls come after the step"));
}

absl::Status EnvManagerCore::EndEpisodes(absl::Span<const int> env_ids) {
  reset_ids_.clear();
  for (Ended& ended : ended_) {
    const int env_id = env_ids[static_cast<size_t>(ended.row)];
    if (!ended.abnormal) {
      FinishEpisode(env_id, &ended);
      const absl::Status told = TellEpisodeEnd(env_id);
      if (!told.ok()) {
        const absl::Status failure = FailStep(env_ids, static_cast<size_t>(ended.row),
                                              env_ids.size(), Annotate(told, EnvName(env_id)));
        if (close_after_callback_) Close();
        return failure;
      }
    }
    if (slots_[static_cast<size_t>(env_id)].state == EnvState::kRun) reset_ids_.push_back(env_id);
  }
  const absl::Status status = BeginResets(reset_ids_);
  if (!status.ok()) Close();
  return status;
}

absl::Status EnvManagerCore::TellEpisodeEnd(int env_id) {
  if (on_episode_end_ == nullptr) return absl::OkStatus();
  const std::function<void(int)> function = on_episode_end_;  // It may set another one.
  in_callback_ = true;
  absl::Status status = CallUser("on_episode_end", [&] {
    function(env_id);
    return absl::OkStatus();
  });
  in_callback_ = false;
  if (close_after_callback_) {
    status.Update(absl::FailedPreconditionError("on_episode_end has closed the env manager"));
  }
  return status;
}

namespace {

// Adds the single numbers among the fields of a row of info to the values of the episode that it
// ends.
void AddNumbers(const RowView& row, NamedValues* values) {
  for (int i = 0; i < row.spec().size(); ++i) {
    const FieldSpec& field = row.spec().field(i);
    const absl::string_view name = absl::StripPrefix(field.name, "info/");
    if (field.num_elements() != 1 || values->Get(name).has_value()) continue;
    switch (field.dtype) {
      case DType::kBool:
      case DType::kUint8:
        values->Set(name, row.scalar<uint8_t>(i));
        break;
      case DType::kInt32:
        values->Set(name, row.scalar<int32_t>(i));
        break;
      case DType::kInt64:
        values->Set(name, static_cast<double>(row.scalar<int64_t>(i)));
        break;
      case DType::kFloat32:
        values->Set(name, row.scalar<float>(i));
        break;
      case DType::kFloat64:
        values->Set(name, row.scalar<double>(i));
        break;
    }
  }
}

}  // namespace

void EnvManagerCore::FinishEpisode(int env_id, Ended* ended) {
  if (blocks_.info.has_value()) {
    AddNumbers(ColumnsView(blocks_.info->view()).row(ended->row), &ended->info);
  }
  Slot& slot = slots_[static_cast<size_t>(env_id)];
  CopyRows(ColumnsView(rows_).Slice(env_id, 1), blocks_.final.view(),
           static_cast<int64_t>(finished_.size()));
  const double episode_return = ended->info.GetOr(kEpisodeReturn, slot.episode_return);
  finished_.push_back(
      {ended->row, episode_return, slot.other_returns, slot.length, std::move(ended->info),
       components_ > 0 ? slot.component_returns : std::move(ended->component_returns)});
  ++slot.episodes_done;
  if (options_.episode_num > 0 && slot.episodes_done >= options_.episode_num) {
    SetState(env_id, EnvState::kDone);
  } else if (!options_.auto_reset) {
    SetState(env_id, EnvState::kNeedReset);
  }
}

}  // namespace ding
