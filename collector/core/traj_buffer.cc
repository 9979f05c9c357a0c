#include "ding_worker/collector/core/traj_buffer.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ding_worker/base/checked_size.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/action_space.h"

namespace ding {
absl::StatusOr<TrajLayout> TrajLayout::Create(SpecPtr observation, SpecPtr output,
                                              bool with_level_seed, const Shape& reward_shape,
                                              const SpecPtr& info) {
  std::vector<FieldSpec> fields(observation->fields().begin(), observation->fields().end());
  fields.insert(fields.end(), output->fields().begin(), output->fields().end());
  TrajLayout layout;
  if (output->size() > 0) {
    DING_ASSIGN_OR_RETURN(layout.mask, FindActionMask(*observation, *output));
  }
  if (layout.mask.has_value()) layout.action_counts = CategoryCounts(output->field(0));
  layout.reward = static_cast<int>(fields.size());
  fields.push_back(Box("reward", reward_shape));
  if (!reward_shape.empty()) layout.reward_components = static_cast<size_t>(reward_shape[0]);
  layout.collect_iter = static_cast<int>(fields.size());
  fields.push_back(Scalar("collect_iter", DType::kInt64));
  if (with_level_seed) {
    layout.level_seed = static_cast<int>(fields.size());
    fields.push_back(Scalar("level_seed", DType::kInt64));
  }
  if (info != nullptr) {
    layout.info = info;
    layout.first_info = static_cast<int>(fields.size());
    fields.insert(fields.end(), info->fields().begin(), info->fields().end());
  }
  absl::StatusOr<SpecPtr> row = MakeSpec(std::move(fields));
  if (!row.ok()) return Annotate(row.status(), "row of observation and policy output");
  layout.row = *std::move(row);
  layout.observation = std::move(observation);
  layout.output = std::move(output);
  return layout;
}

bool operator==(const TrajLayout& a, const TrajLayout& b) {
  return *a.row == *b.row && a.reward == b.reward && a.level_seed == b.level_seed &&
         a.observation->size() == b.observation->size();
}

absl::Status TrajBuffer::Rows::Grow(int64_t extra) {
  // As many rows as do not fit 64 bits are refused as those that do not fit the memory.
  const int64_t rows = CheckedSum(used, extra).value_or(std::numeric_limits<int64_t>::max());
  if (block.has_value() && rows <= block->capacity_rows()) return absl::OkStatus();
  const int64_t capacity = block.has_value() ? 2 * block->capacity_rows() : 0;
  DING_ASSIGN_OR_RETURN(BatchBuilder larger, pool->Allocate(std::max(rows, capacity)));
  if (used > 0) CopyRows(block->view().Slice(0, used), larger.view(), 0);
  block = std::move(larger);
  return absl::OkStatus();
}

TrajBuffer::TrajBuffer(TrajLayout layout, Options options)
    : layout_(std::move(layout)),
      options_(options),
      arena_(layout_.row),
      finals_(layout_.observation),
      next_step_(static_cast<size_t>(options_.env_num), 0),
      newest_(static_cast<size_t>(options_.env_num), -1),
      running_(static_cast<size_t>(options_.env_num)),
      sample_rows_(static_cast<size_t>(options_.env_num), 0),
      out_of_game_(static_cast<size_t>(options_.env_num), 0),
      under_way_("rows", options_.env_num) {}

bool TrajBuffer::Fits(const TrajBuffer& other) const {
  return layout_ == other.layout_ && options_.env_num == other.options_.env_num &&
         options_.stream_base == other.options_.stream_base &&
         options_.stream_stride == other.options_.stream_stride &&
         options_.whole_episodes == other.options_.whole_episodes &&
         options_.maxlen == other.options_.maxlen &&
         options_.unroll_len == other.options_.unroll_len &&
         options_.cut_samples == other.options_.cut_samples;
}

void TrajBuffer::ContinueAfter(const TrajBuffer& old) {
  if (options_.env_num == old.options_.env_num) {
    next_step_ = old.next_step_;
    if (old.arena_.used == 0 && options_.unroll_len == old.options_.unroll_len) {
      sample_rows_ = old.sample_rows_;
    }
  } else {
    // No number may come twice in a stream, also when it pauses while there are fewer envs.
    const auto highest = std::max_element(old.next_step_.begin(), old.next_step_.end());
    std::fill(next_step_.begin(), next_step_.end(), *highest);
  }
}

absl::Status TrajBuffer::Reserve(int64_t rows) {
  DING_RETURN_IF_ERROR(arena_.Grow(rows));
  infos_.reserve(static_cast<size_t>(std::max<int64_t>(0, arena_.used + rows)));
  return absl::OkStatus();
}

absl::StatusOr<TrajBuffer::Appended> TrajBuffer::Append(const ActingEnvs& acting,
                                                        int64_t collect_iter,
                                                        absl::Span<const int64_t> level_seeds) {
  for (const int env_id : acting.env_ids) {
    if (env_id < 0 || env_id >= options_.env_num || under_way(env_id)) {
      return absl::InternalError(
          absl::StrCat("env manager says that env ", env_id, " is ready; it is ",
                       under_way(env_id) ? "being stepped" : "none of the envs"));
    }
  }
  if (layout_.level_seed >= 0 && static_cast<int>(level_seeds.size()) != options_.env_num) {
    return absl::InvalidArgumentError(
        absl::StrCat(level_seeds.size(), " level seeds for ", options_.env_num, " envs"));
  }
  const int64_t observed = acting.obs.rows();
  const bool fit = acting.rows.empty()
                       ? static_cast<int64_t>(acting.env_ids.size()) == observed
                       : acting.rows.size() == acting.env_ids.size() &&
                             std::all_of(acting.rows.begin(), acting.rows.end(),
                                         [=](int64_t row) { return row >= 0 && row < observed; });
  if (!fit) {
    return absl::InvalidArgumentError(absl::StrCat("there are ", observed, " observations and ",
                                                   acting.rows.size(), " chosen rows of them for ",
                                                   acting.env_ids.size(), " envs"));
  }
  if (options_.whole_episodes && options_.maxlen.has_value()) {
    for (const int env_id : acting.env_ids) MakeRoomInEpisode(env_id);
    // Most of the arena is dropped rows: without a copy of the others it would grow for ever.
    if (dropped_rows_ > arena_.used / 2) DING_RETURN_IF_ERROR(KeepRows(/*also_ready=*/true));
  }
  const int64_t rows = static_cast<int64_t>(acting.env_ids.size());
  const int64_t first = arena_.used;
  DING_RETURN_IF_ERROR(arena_.Grow(rows));
  const MutableColumnsView added = arena_.block->view().Slice(first, rows);
  if (acting.rows.empty()) {
    CopyRows(acting.obs, added, 0);
  } else {
    GatherRows(acting.obs, acting.rows, added, 0);
  }
  const absl::Span<int64_t> iters = added.column<int64_t>(layout_.collect_iter);
  std::fill(iters.begin(), iters.end(), collect_iter);
  infos_.resize(static_cast<size_t>(first + rows));
  for (int64_t i = 0; i < rows; ++i) {
    const int env_id = acting.env_ids[i];
    RowInfo& info = infos_[first + i];
    info.env_id = env_id;
    info.step = next_step_[env_id]++;
    info.prev = newest_[env_id];
    if (info.prev >= 0) infos_[info.prev].next = first + i;
    newest_[env_id] = first + i;
    if (options_.maxlen.has_value() && running_[env_id].rows++ == 0) {
      running_[env_id].oldest = first + i;
    }
    under_way_.Update(env_id, first + i);
    if (layout_.level_seed >= 0) {
      added.column<int64_t>(layout_.level_seed)[i] = level_seeds[env_id];
    }
  }
  arena_.used += rows;
  return Appended{added.Fields(layout_.observation.get(), 0),
                  added.Fields(layout_.output.get(), layout_.observation->size())};
}

absl::Status TrajBuffer::Store(const Timesteps& timesteps) {
  const int64_t first_final = finals_.used;
  if (!timesteps.finished.empty()) {
    DING_RETURN_IF_ERROR(finals_.Grow(timesteps.final_obs.rows()));
    CopyRows(timesteps.final_obs, finals_.block->view(), first_final);
    finals_.used += timesteps.final_obs.rows();
  }
  absl::Span<float> rewards;
  if (arena_.block.has_value()) rewards = arena_.block->column<float>(layout_.reward);
  const auto components = layout_.reward_components;
  if (timesteps.reward_components.size() != timesteps.env_ids.size() * components) {
    return absl::InternalError(absl::StrCat(
        "env manager returned ", timesteps.reward_components.size(), " components of rewards for ",
        timesteps.env_ids.size(), " envs, expected ", components, " for each"));
  }
  MutableColumnsView infos;
  if (layout_.info != nullptr && arena_.block.has_value()) {
    DING_RETURN_IF_ERROR(
        CheckSameLayout(*layout_.info, timesteps.info.spec(), "info of the env manager"));
    infos = arena_.block->view().Fields(layout_.info.get(), layout_.first_info);
  }
  size_t finished = 0;
  for (size_t i = 0; i < timesteps.env_ids.size(); ++i) {
    const int env_id = timesteps.env_ids[i];
    const int64_t* const pending = under_way_.Get(env_id);
    if (pending == nullptr) {
      return absl::InternalError(
          absl::StrCat("env manager answered for env ", env_id, ", which was not stepped"));
    }
    const bool has_final = finished < timesteps.finished.size() &&
                           timesteps.finished[finished].row == static_cast<int>(i);
    const int64_t final_row = first_final + static_cast<int64_t>(finished);
    if (has_final) ++finished;
    if (timesteps.abnormal[i] != 0) {
      DropEpisode(env_id);
      continue;
    }
    const int64_t row = *pending;
    RowInfo& info = infos_[row];
    info.state = timesteps.terminated[i] != 0  ? RowState::kTerminated
                 : timesteps.truncated[i] != 0 ? RowState::kTruncated
                                               : RowState::kOpen;
    if (Ended(row) != has_final) {
      return absl::InternalError(absl::StrCat(
          "env manager reports env ", env_id, " as ",
          has_final ? "finished in the middle of its episode" : "ended, without last observation"));
    }
    if (info.state == RowState::kTruncated && !AllowsAction(final_row)) {
      info.state = RowState::kTerminated;
      DING_LOG_FIRST_N(WARNING, 1)
          << "env " << env_id << ": its episode was truncated, but '"
          << layout_.observation->field(*layout_.mask).name
          << "' of the last observation allows no action: the episode counts as terminated, "
             "without "
             "the value of what would follow. If it was only cut off, let the mask say what would "
             "be legal next. Further ones are not reported";
    }
    if (components == 0) {
      rewards[row] = timesteps.reward[i];
    } else {
      std::copy_n(timesteps.reward_components.begin() + i * components, components,
                  rewards.begin() + row * static_cast<int64_t>(components));
    }
    if (layout_.info != nullptr) {
      CopyRow(timesteps.info.row(static_cast<int64_t>(i)), infos.row(row));
    }
    const bool complete = has_final && out_of_game_[env_id] == 0;
    if (has_final) info.final_row = final_row;
    under_way_.Reset(env_id);
    if (options_.unroll_len > 1) {
      info.ends_sample = ++sample_rows_[env_id] >= options_.unroll_len || has_final;
      if (info.ends_sample) sample_rows_[env_id] = 0;
    }
    if (EndsTrajectory(env_id, complete)) MarkReady(row);
  }
  return absl::OkStatus();
}

bool TrajBuffer::EndsTrajectory(int env_id, bool complete) {
  const bool full =
      !options_.whole_episodes && running_[env_id].rows >= options_.maxlen.value_or(0);
  if (complete || full) running_[env_id] = RunningEpisode();
  return complete || full;
}

bool TrajBuffer::AllowsAction(int64_t final_row) const {
  if (!layout_.mask.has_value()) return true;
  absl::Span<const uint8_t> mask =
      ActionMaskOf(ColumnsView(finals_.block->view()).Slice(final_row, 1), layout_.mask);
  for (const int64_t count : layout_.action_counts) {
    if (CountLegal(mask.first(static_cast<size_t>(count))) == 0) return false;
    mask.remove_prefix(static_cast<size_t>(count));
  }
  return true;
}

void TrajBuffer::EndGame(int env_id, int64_t next_step) {
  next_step_[env_id] = std::max(next_step_[env_id], next_step);
  if (out_of_game_[env_id] == 0) return;
  const int64_t last = newest_[env_id];
  if (last >= 0 && EndedEarly(last) && !infos_[last].ready) MarkReady(last);
  out_of_game_[env_id] = 0;
  running_[env_id] = RunningEpisode();
}

void TrajBuffer::DropEpisode(int env_id) {
  for (int64_t row = newest_[env_id];
       row >= 0 && (infos_[row].state == RowState::kUnderWay ||
                    infos_[row].state == RowState::kOpen || EndedEarly(row));
       row = infos_[row].prev) {
    DropRow(row);
  }
  under_way_.Reset(env_id);
  out_of_game_[env_id] = 0;
  running_[env_id] = RunningEpisode();
  sample_rows_[env_id] = 0;
  // Rows of it that were handed over before are not followed by what comes now.
  if (next_step_[env_id] > 0) ++next_step_[env_id];
}

void TrajBuffer::DropHeldRows() {
  for (int64_t row = 0; row < arena_.used; ++row) {
    const bool held = infos_[row].state == RowState::kOpen || EndedEarly(row);
    if (!held || infos_[row].ready) continue;
    DropRow(row);
    RunningEpisode& running = running_[infos_[row].env_id];
    running.oldest = infos_[row].next;
    --running.rows;
    sample_rows_[infos_[row].env_id] = 0;
  }
}

void TrajBuffer::MakeRoomInEpisode(int env_id) {
  RunningEpisode& running = running_[env_id];
  while (running.rows >= *options_.maxlen) {
    DropRow(running.oldest);
    running.oldest = infos_[running.oldest].next;
    --running.rows;
  }
}

absl::Status TrajBuffer::ReshapeRewards(
    int env_id,
    absl::FunctionRef<absl::Status(const ColumnsView& rows, absl::Span<float> rewards)> reshape) {
  const int64_t last = env_id >= 0 && env_id < options_.env_num ? newest_[env_id] : -1;
  if (!options_.whole_episodes || last < 0 || !infos_[last].ready || !Ended(last)) {
    return absl::FailedPreconditionError(
        absl::StrCat("env ", env_id, " has just finished no episode, whose rewards could change"));
  }
  order_.clear();
  for (int64_t row = last; order_.push_back(row), !BeginsSegment(row);) row = infos_[row].prev;
  std::reverse(order_.begin(), order_.end());
  const int64_t length = static_cast<int64_t>(order_.size());
  DING_ASSIGN_OR_RETURN(BatchBuilder episode, arena_.pool->Allocate(length));
  const MutableColumnsView rows = episode.view().Slice(0, length);
  GatherRows(arena_.block->view(), order_, rows, 0);
  const absl::Span<const float> before = rows.column<float>(layout_.reward);
  std::vector<float> rewards(before.begin(), before.end());
  DING_RETURN_IF_ERROR(reshape(rows, absl::MakeSpan(rewards)));
  const absl::Span<float> to = arena_.block->column<float>(layout_.reward);
  const int64_t width = static_cast<int64_t>(std::max<size_t>(1, layout_.reward_components));
  for (int64_t i = 0; i < length; ++i) {
    std::copy_n(rewards.begin() + i * width, width, to.begin() + order_[i] * width);
  }
  return absl::OkStatus();
}

void TrajBuffer::MarkReady(int64_t row) {
  do {
    infos_[row].ready = true;
    ++ready_rows_;
    ready_samples_ += infos_[row].ends_sample ? 1 : 0;
    row = infos_[row].prev;
  } while (row >= 0 && infos_[row].state == RowState::kOpen && !infos_[row].ready);
}

void TrajBuffer::DropRow(int64_t row) {
  RowInfo& info = infos_[row];
  if (info.state == RowState::kDropped) return;
  if (info.ready) {
    --ready_rows_;
    if (info.ends_sample) --ready_samples_;
  }
  info.ready = false;
  info.state = RowState::kDropped;
  ++dropped_rows_;
}

absl::Status TrajBuffer::KeepRows(bool also_ready) {
  std::vector<RowInfo> kept;
  std::vector<int64_t> finals;
  order_.clear();
  const int64_t count = held_rows() + (also_ready ? ready_rows_ : 0);
  for (int64_t row = 0; count > 0 && row < arena_.used; ++row) {
    if (infos_[row].state == RowState::kDropped || (infos_[row].ready && !also_ready)) continue;
    order_.push_back(row);
    kept.push_back(infos_[row]);
    if (Ended(row)) finals.push_back(infos_[row].final_row);
  }
  std::optional<BatchBuilder> last_obs;
  if (!finals.empty()) {
    DING_ASSIGN_OR_RETURN(last_obs, finals_.pool->Allocate(static_cast<int64_t>(finals.size())));
    GatherRows(finals_.block->view(), finals, last_obs->view(), 0);
  }
  if (count > 0) {
    DING_ASSIGN_OR_RETURN(BatchBuilder block, arena_.pool->Allocate(count));
    GatherRows(arena_.block->view(), order_, block.view(), 0);
    arena_.block = std::move(block);
  }
  if (last_obs.has_value()) finals_.block = std::move(last_obs);
  infos_.swap(kept);
  Link();
  return absl::OkStatus();
}

void TrajBuffer::Link() {
  std::fill(newest_.begin(), newest_.end(), -1);
  std::fill(running_.begin(), running_.end(), RunningEpisode());
  arena_.used = static_cast<int64_t>(infos_.size());
  finals_.used = 0;
  ready_rows_ = 0;
  ready_samples_ = 0;
  dropped_rows_ = 0;
  for (int64_t row = 0; row < arena_.used; ++row) {
    RowInfo& info = infos_[row];
    info.next = -1;
    info.ready = false;
    info.prev = std::exchange(newest_[info.env_id], row);
    if (info.prev >= 0) infos_[info.prev].next = row;
  }
  for (int64_t row = 0; row < arena_.used; ++row) {
    RowInfo& info = infos_[row];
    RunningEpisode& running = running_[info.env_id];
    if (Ended(row)) info.final_row = finals_.used++;
    if (running.rows++ == 0) running.oldest = row;
    if (info.state == RowState::kUnderWay) {
      under_way_.Update(info.env_id, row);
    } else if (EndsTrajectory(info.env_id, Ended(row) && !EndedEarly(row))) {
      MarkReady(row);
    }
  }
}

}  // namespace ding
