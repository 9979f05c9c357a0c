#include "ding_worker/collector/core/turn_transitions.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/saved_columns.h"
#include "ding_worker/policy/action_space.h"

namespace ding {
namespace {

constexpr char kHeldPrefix[] = "held/";

}  // namespace

absl::StatusOr<TurnTransitions> TurnTransitions::Create(const EnvSpec& player, SpecPtr output) {
  DING_ASSIGN_OR_RETURN(const std::optional<int> mask_field,
                        FindActionMask(*player.observation, *player.action));
  DING_ASSIGN_OR_RETURN(TrajLayout layout, TrajLayout::Create(player.observation, std::move(output),
                                                              /*with_level_seed=*/false,
                                                              /*reward_shape=*/{}, player.info));
  std::vector<int64_t> counts;
  if (mask_field.has_value()) counts = CategoryCounts(player.action->field(0));
  return TurnTransitions(std::move(layout), mask_field, std::move(counts));
}

TurnTransitions::TurnTransitions(TrajLayout layout, std::optional<int> mask_field,
                                 std::vector<int64_t> counts)
    : layout_(std::move(layout)),
      mask_field_(mask_field),
      counts_(std::move(counts)),
      rows_pool_(std::make_unique<BlockPool>(layout_.row)),
      finals_pool_(std::make_unique<BlockPool>(layout_.observation)) {}

bool TurnTransitions::IsChoice(const ColumnsView& obs, int64_t row) const {
  if (!mask_field_.has_value()) return true;
  absl::Span<const uint8_t> mask = ActionMaskOf(obs.Slice(row, 1), mask_field_);
  for (const int64_t count : counts_) {
    if (CountLegal(mask.first(static_cast<size_t>(count))) > 1) return true;
    mask.remove_prefix(static_cast<size_t>(count));
  }
  return false;
}

absl::Status TurnTransitions::CheckRows(const SegmentBatch& data) const {
  if (data.segments.empty() && data.size() == 0) return absl::OkStatus();
  DING_RETURN_IF_ERROR(ValidateSegments(data));
  DING_RETURN_IF_ERROR(CheckSameLayout(*layout_.row, data.rows.spec(), "rows of a game"));
  return CheckSameLayout(*layout_.observation, data.final_obs.spec(), "final_obs of a game");
}

absl::StatusOr<SegmentBatch> TurnTransitions::Take(absl::Span<const SegmentBatch> players) {
  Plan plan;
  std::map<int64_t, Stream> streams = streams_;
  std::vector<ColumnsView> tables = {held_rows_.view()};
  for (const SegmentBatch& data : players) {
    DING_RETURN_IF_ERROR(CheckRows(data));
    const int table = static_cast<int>(tables.size());
    tables.push_back(data.rows.view());
    tables.push_back(data.final_obs.view());
    for (size_t i = 0; i < data.segments.size(); ++i) {
      Follow(data, i, table, &streams[data.segments[i].stream], &plan);
    }
  }
  std::vector<Source> held;
  for (auto& [id, stream] : streams) {
    if (!stream.held.has_value()) continue;
    held.push_back(*stream.held);
    stream.held = Source{0, static_cast<int64_t>(held.size()) - 1};
  }
  SegmentBatch moves;
  DING_ASSIGN_OR_RETURN(moves.rows, Copy(tables, plan.rows, rows_pool_.get(), plan.rewards));
  DING_ASSIGN_OR_RETURN(moves.final_obs, Copy(tables, plan.finals, finals_pool_.get(), {}));
  DING_ASSIGN_OR_RETURN(Batch held_rows, Copy(tables, held, rows_pool_.get(), {}));
  moves.segments = std::move(plan.segments);
  held_rows_ = std::move(held_rows);
  streams_ = std::move(streams);
  return moves;
}

void TurnTransitions::Follow(const SegmentBatch& data, size_t index, int table, Stream* stream,
                             Plan* plan) const {
  const Segment& segment = data.segments[index];
  if (segment.first_step != stream->next_step) {
    // Rows are missing, so the next observation of the held choice is not known: drop it.
    stream->held.reset();
    ++stream->next_move;
  }
  stream->next_step = segment.first_step + segment.length;

  const ColumnsView rows = data.rows.view();
  const absl::Span<const float> reward = rows.column<float>(layout_.reward);
  std::optional<Source>& held = stream->held;
  Segment moves;
  moves.stream = segment.stream;
  moves.first_step = stream->next_move;
  moves.begin = static_cast<int64_t>(plan->rows.size());
  moves.end = segment.end;
  const auto hand_over_held = [&] {
    plan->rows.push_back(*held);
    plan->rewards.push_back(static_cast<float>(stream->reward));
    held.reset();
  };
  for (int64_t row = segment.begin; row < segment.begin + segment.length; ++row) {
    const float row_reward = reward[static_cast<size_t>(row)];
    if (!IsChoice(rows, row)) {
      stream->reward += row_reward;
      continue;
    }
    if (held.has_value()) hand_over_held();
    held = Source{table, row};
    stream->reward = row_reward;
  }

  Source final_obs = {table + 1, static_cast<int64_t>(index)};
  if (held.has_value()) {
    if (segment.end == SegmentEnd::kTerminated ||
        IsChoice(data.final_obs.view(), static_cast<int64_t>(index))) {
      hand_over_held();
    } else {
      final_obs = *held;
      moves.end = SegmentEnd::kCut;
    }
  }
  moves.length = static_cast<int64_t>(plan->rows.size()) - moves.begin;
  stream->next_move += moves.length;
  if (held.has_value() && segment.end == SegmentEnd::kTruncated) {
    held.reset();
    ++stream->next_move;
  }
  if (moves.length == 0) return;
  plan->segments.push_back(moves);
  plan->finals.push_back(final_obs);
}

absl::StatusOr<Batch> TurnTransitions::Copy(const std::vector<ColumnsView>& tables,
                                            absl::Span<const Source> from, BlockPool* pool,
                                            absl::Span<const float> rewards) const {
  const auto count = static_cast<int64_t>(from.size());
  DING_ASSIGN_OR_RETURN(BatchBuilder made, pool->Allocate(std::max<int64_t>(1, count)));
  std::vector<int64_t> run;
  for (size_t i = 0; i < from.size(); ++i) {
    run.push_back(from[i].row);
    if (i + 1 < from.size() && from[i + 1].table == from[i].table) continue;
    // Rows begin with the observation fields, so a view of these works for all tables.
    GatherRows(tables[static_cast<size_t>(from[i].table)].Fields(pool->spec().get(), 0), run,
               made.view(), static_cast<int64_t>(i + 1 - run.size()));
    run.clear();
  }
  if (!rewards.empty()) {
    std::copy(rewards.begin(), rewards.end(), made.column<float>(layout_.reward).begin());
  }
  return std::move(made).Seal(count);
}

void TurnTransitions::DropHeld() {
  for (auto& [id, stream] : streams_) {
    if (!stream.held.has_value()) continue;
    stream.held.reset();
    ++stream.next_move;
  }
  held_rows_ = Batch();
}

void TurnTransitions::ContinueAfter(const TurnTransitions& old) {
  streams_ = old.streams_;
  for (auto& [id, stream] : streams_) {
    stream.held.reset();
    ++stream.next_move;
  }
}

absl::Status TurnTransitions::SaveState(StateWriter* writer) const {
  std::vector<int64_t> numbers;
  std::vector<double> rewards;
  for (const auto& [id, stream] : streams_) {
    numbers.insert(numbers.end(), {id, stream.next_step, stream.next_move,
                                   stream.held.has_value() ? stream.held->row : -1});
    rewards.push_back(stream.reward);
  }
  DING_RETURN_IF_ERROR(writer->WriteSpan<int64_t>("streams", numbers));
  DING_RETURN_IF_ERROR(writer->WriteSpan<double>("rewards", rewards));
  DING_RETURN_IF_ERROR(writer->WriteInt("held_rows", held_rows_.rows()));
  if (held_rows_.empty()) return absl::OkStatus();
  return SaveColumns(held_rows_.view(), kHeldPrefix, writer);
}

absl::Status TurnTransitions::LoadState(StateReader* reader) {
  DING_ASSIGN_OR_RETURN(const TensorInfo info, reader->Info("rewards"));
  std::vector<double> rewards(static_cast<size_t>(NumElements(info.shape)));
  std::vector<int64_t> numbers(4 * rewards.size());
  DING_RETURN_IF_ERROR(reader->ReadSpan<double>("rewards", absl::MakeSpan(rewards)));
  DING_RETURN_IF_ERROR(reader->ReadSpan<int64_t>("streams", absl::MakeSpan(numbers)));
  DING_ASSIGN_OR_RETURN(const int64_t held, reader->ReadInt("held_rows"));
  if (held < 0 || held > static_cast<int64_t>(rewards.size())) {
    return absl::DataLossError(absl::StrCat("saved 'held_rows' is ", held, " of ", rewards.size(),
                                            " streams, expected at most one of each"));
  }
  std::map<int64_t, Stream> streams;
  for (size_t i = 0; i < rewards.size(); ++i) {
    const int64_t* const saved = &numbers[4 * i];
    if (saved[3] < -1 || saved[3] >= held) {
      return absl::DataLossError(
          absl::StrCat("saved stream ", saved[0], " holds back row ", saved[3], " of ", held));
    }
    if (saved[2] < 0 || saved[2] > kMaxSavedCount) {
      return absl::DataLossError(absl::StrCat("saved stream ", saved[0], " goes on with move ",
                                              saved[2], ", expected 0 to ", kMaxSavedCount));
    }
    Stream& stream = streams[saved[0]];
    stream.next_step = saved[1];
    stream.next_move = saved[2];
    if (saved[3] >= 0) stream.held = Source{0, saved[3]};
    stream.reward = rewards[i];
  }
  Batch held_rows;
  if (held > 0) {
    DING_ASSIGN_OR_RETURN(BatchBuilder made, rows_pool_->Allocate(held));
    DING_RETURN_IF_ERROR(LoadColumns(kHeldPrefix, made.view().Slice(0, held), reader));
    held_rows = std::move(made).Seal(held);
  }
  streams_ = std::move(streams);
  held_rows_ = std::move(held_rows);
  return absl::OkStatus();
}

}  // namespace ding
