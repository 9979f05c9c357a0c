// What TrajBuffer saves: the rows that were not dropped, with their env, step and state; the last
// observations of the episodes that ended; which players have left their game, if any; and, if
// samples have several rows, where they end and how many rows unfinished ones have.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/collector/core/traj_buffer.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/saved_columns.h"
#include "ding_worker/data/state.h"
#include "ding_worker/data/tensor.h"

namespace ding {
namespace {

constexpr char kOutOfGame[] = "out_of_game";

}  // namespace

absl::Status TrajBuffer::SaveState(StateWriter* writer) const {
  std::vector<int64_t> rows;
  std::vector<int64_t> finals;
  std::array<std::vector<int64_t>, 4> infos;
  for (int64_t row = 0; row < arena_.used; ++row) {
    const RowInfo& info = infos_[row];
    if (info.state == RowState::kDropped || info.state == RowState::kUnderWay) continue;
    rows.push_back(row);
    if (Ended(row)) finals.push_back(info.final_row);
    infos[0].push_back(info.env_id);
    infos[1].push_back(info.step);
    infos[2].push_back(static_cast<int64_t>(info.state));
    infos[3].push_back(info.ends_sample ? 1 : 0);
  }
  DING_RETURN_IF_ERROR(writer->WriteSpan<int64_t>("next_step", next_step_));
  DING_RETURN_IF_ERROR(writer->WriteSpan<int64_t>("row_env", infos[0]));
  DING_RETURN_IF_ERROR(writer->WriteSpan<int64_t>("row_step", infos[1]));
  DING_RETURN_IF_ERROR(writer->WriteSpan<int64_t>("row_state", infos[2]));
  if (std::count(out_of_game_.begin(), out_of_game_.end(), 0) < options_.env_num) {
    DING_RETURN_IF_ERROR(writer->WriteSpan<uint8_t>(kOutOfGame, out_of_game_));
  }
  if (options_.unroll_len > 1) {
    DING_RETURN_IF_ERROR(writer->WriteSpan<int64_t>("row_ends_sample", infos[3]));
    DING_RETURN_IF_ERROR(writer->WriteSpan<int64_t>("sample_rows", sample_rows_));
  }
  if (!rows.empty()) {
    DING_ASSIGN_OR_RETURN(BatchBuilder block,
                          BatchBuilder::Create(layout_.row, static_cast<int64_t>(rows.size())));
    GatherRows(arena_.block->view(), rows, block.view(), 0);
    DING_RETURN_IF_ERROR(SaveColumns(block.view(), "rows/", writer));
  }
  if (!finals.empty()) {
    DING_ASSIGN_OR_RETURN(
        BatchBuilder block,
        BatchBuilder::Create(layout_.observation, static_cast<int64_t>(finals.size())));
    GatherRows(finals_.block->view(), finals, block.view(), 0);
    DING_RETURN_IF_ERROR(SaveColumns(block.view(), "final_obs/", writer));
  }
  return absl::OkStatus();
}

bool TrajBuffer::SavedSamples(const StateReader& reader) const {
  return options_.unroll_len > 1 && reader.Info("sample_rows").ok();
}

absl::StatusOr<std::vector<TrajBuffer::RowInfo>> TrajBuffer::LoadInfos(StateReader* reader) const {
  DING_ASSIGN_OR_RETURN(const TensorInfo shape, reader->Info("row_env"));
  const size_t rows = static_cast<size_t>(NumElements(shape.shape));
  std::vector<int64_t> env(rows);
  std::vector<int64_t> step(rows);
  std::vector<int64_t> state(rows);
  std::vector<int64_t> ends_sample(rows, 1);
  DING_RETURN_IF_ERROR(reader->ReadSpan<int64_t>("row_env", absl::MakeSpan(env)));
  DING_RETURN_IF_ERROR(reader->ReadCounts("row_step", absl::MakeSpan(step)));
  DING_RETURN_IF_ERROR(reader->ReadSpan<int64_t>("row_state", absl::MakeSpan(state)));
  if (SavedSamples(*reader)) {
    DING_RETURN_IF_ERROR(reader->ReadSpan<int64_t>("row_ends_sample", absl::MakeSpan(ends_sample)));
  }
  std::vector<RowInfo> infos(rows);
  for (size_t i = 0; i < rows; ++i) {
    if (env[i] < 0 || env[i] >= options_.env_num ||
        state[i] < static_cast<int64_t>(RowState::kOpen) ||
        state[i] > static_cast<int64_t>(RowState::kTruncated)) {
      return absl::DataLossError(absl::StrCat("saved row ", i, " is of env ", env[i],
                                              " and in state ", state[i], ", which is impossible"));
    }
    infos[i].env_id = static_cast<int>(env[i]);
    infos[i].step = step[i];
    infos[i].state = static_cast<RowState>(state[i]);
    infos[i].ends_sample = ends_sample[i] != 0;
  }
  return infos;
}

absl::Status TrajBuffer::LoadState(StateReader* reader) {
  TrajBuffer loaded(layout_, options_);
  DING_RETURN_IF_ERROR(reader->ReadCounts("next_step", absl::MakeSpan(loaded.next_step_)));
  if (SavedSamples(*reader)) {
    DING_RETURN_IF_ERROR(reader->ReadCounts("sample_rows", absl::MakeSpan(loaded.sample_rows_)));
  }
  if (reader->Info(kOutOfGame).ok()) {
    DING_RETURN_IF_ERROR(
        reader->ReadSpan<uint8_t>(kOutOfGame, absl::MakeSpan(loaded.out_of_game_)));
  }
  DING_ASSIGN_OR_RETURN(loaded.infos_, LoadInfos(reader));
  loaded.Link();
  const int64_t rows = std::exchange(loaded.arena_.used, 0);
  const int64_t finals = std::exchange(loaded.finals_.used, 0);
  if (rows > 0) {
    DING_RETURN_IF_ERROR(loaded.arena_.Grow(rows));
    DING_RETURN_IF_ERROR(LoadColumns("rows/", loaded.arena_.block->view().Slice(0, rows), reader));
  }
  if (finals > 0) {
    DING_RETURN_IF_ERROR(loaded.finals_.Grow(finals));
    DING_RETURN_IF_ERROR(
        LoadColumns("final_obs/", loaded.finals_.block->view().Slice(0, finals), reader));
  }
  loaded.arena_.used = rows;
  loaded.finals_.used = finals;
  *this = std::move(loaded);
  return absl::OkStatus();
}

}  // namespace ding
