#include "ding_worker/replay_buffer/selection/priority_table.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/tensor.h"
#include "ding_worker/replay_buffer/selection/fill_random.h"

namespace ding {
namespace {

constexpr int64_t kBlockRows = 512;
// Uses are counted up to this number, which no run reaches and which is far from overflow.
constexpr int32_t kMaxUse = 1 << 30;
constexpr float kMaxPriority = std::numeric_limits<float>::max();

// As Rng::Uniform() makes it of these bits.
double UniformOf(uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1.0p-53; }

}  // namespace

absl::Status CheckPriorities(absl::Span<const float> priorities) {
  for (size_t i = 0; i < priorities.size(); ++i) {
    if (priorities[i] >= 0 && priorities[i] <= kMaxPriority) continue;
    return absl::InvalidArgumentError(absl::StrCat("priority ", i, " of ", priorities.size(),
                                                   " is ", priorities[i],
                                                   ", expected a finite number of at least 0"));
  }
  return absl::OkStatus();
}

absl::Status CheckPriorityInfo(const PriorityInfo& info) {
  if (info.replay_unique_id.size() != info.priority.size() ||
      info.replay_buffer_idx.size() != info.priority.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(info.priority.size(), " priorities for ", info.replay_unique_id.size(),
                     " replay_unique_id and ", info.replay_buffer_idx.size(),
                     " replay_buffer_idx, expected as many of each"));
  }
  return CheckPriorities(info.priority);
}

absl::StatusOr<std::unique_ptr<PriorityTable>> PriorityTable::Create(int64_t capacity_rows,
                                                                     double alpha,
                                                                     int64_t first_id) {
  DING_ASSIGN_OR_RETURN(std::unique_ptr<PriorityTree> tree, PriorityTree::Create(capacity_rows));
  const int64_t bytes = capacity_rows * static_cast<int64_t>(sizeof(Row));
  std::shared_ptr<std::byte> rows = AllocateAligned(bytes);
  if (rows == nullptr) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "out of memory: ", bytes, " bytes for priorities and uses of ", capacity_rows, " rows"));
  }
  return std::unique_ptr<PriorityTable>(
      new PriorityTable(std::move(tree), std::move(rows), alpha, first_id));
}

PriorityTable::PriorityTable(std::unique_ptr<PriorityTree> tree, std::shared_ptr<std::byte> rows,
                             double alpha, int64_t first_id)
    : tree_(std::move(tree)),
      capacity_(tree_->size()),
      alpha_(static_cast<float>(alpha)),
      row_memory_(std::move(rows)),
      rows_(reinterpret_cast<Row*>(row_memory_.get()), static_cast<size_t>(capacity_)),
      valid_in_block_(static_cast<size_t>((capacity_ + kBlockRows - 1) / kBlockRows)) {
  std::uninitialized_fill(rows_.begin(), rows_.end(), Row());
  SetWindow(first_id, first_id);
}

float PriorityTable::WeightOf(float priority) const { return std::pow(priority, alpha_); }

void PriorityTable::SetWindow(int64_t begin, int64_t end) {
  begin_ = begin;
  end_ = end;
  begin_slot_ = begin % capacity_;
}

int64_t PriorityTable::SlotOf(int64_t id) const {
  const int64_t slot = begin_slot_ + (id - begin_);
  return slot < capacity_ ? slot : slot - capacity_;
}

bool PriorityTable::IsValid(int64_t id) const {
  return id >= begin_ && id < end_ && rows_[SlotOf(id)].priority > 0;
}

// Calls f(begin slot, end slot, id of the first) for the one or two pieces of [begin, end).
template <typename F>
void PriorityTable::ForEachPiece(int64_t begin, int64_t end, F f) const {
  while (begin < end) {
    const int64_t slot = SlotOf(begin);
    const int64_t rows = std::min(end - begin, capacity_ - slot);
    f(slot, slot + rows, begin);
    begin += rows;
  }
}

// Calls f(begin slot, end slot) for each block's part of [slot, slot_end). Counting once per block
// and not once per row keeps the lock short when thousands of rows are pushed.
template <typename F>
void PriorityTable::ForEachBlock(int64_t slot, int64_t slot_end, F f) {
  while (slot < slot_end) {
    const int64_t end = std::min(slot_end, (slot / kBlockRows + 1) * kBlockRows);
    f(slot, end);
    slot = end;
  }
}

void PriorityTable::CountValid(int64_t slot, int64_t change) {
  valid_in_block_[slot / kBlockRows] += static_cast<int32_t>(change);
  count_ += change;
}

// Retires the row, except for its weight in the tree. Returns false if the row was not valid.
bool PriorityTable::Invalidate(int64_t slot) {
  if (!(rows_[slot].priority > 0)) return false;
  rows_[slot].priority = 0;
  CountValid(slot, -1);
  return true;
}

void PriorityTable::Drop(int64_t begin, int64_t end) {
  ForEachPiece(begin, end, [this](int64_t slot, int64_t slot_end, int64_t /*id*/) {
    ForEachBlock(slot, slot_end, [this](int64_t first, int64_t last) {
      int32_t valid = 0;
      for (int64_t i = first; i < last; ++i) {
        valid += rows_[i].priority > 0 ? 1 : 0;
        rows_[i].priority = 0;
      }
      CountValid(first, -valid);
    });
  });
}

void PriorityTable::Retire(int64_t begin, int64_t end) {
  begin = std::max(begin, begin_);
  if (begin >= end) return;
  Drop(begin, end);
  ForEachPiece(begin, end, [this](int64_t slot, int64_t slot_end, int64_t /*id*/) {
    tree_->Fill(slot, slot_end, 0);
  });
}

// Drops the rows before `begin`, except for their weights: rows are evicted only when the ring is
// full, so new rows overwrite the weights of evicted ones. Returns the first new row.
int64_t PriorityTable::MoveWindow(int64_t begin, int64_t end) {
  Drop(begin_, std::min(begin, end_));
  const int64_t first = std::max(begin, end_);
  SetWindow(begin, end);
  return first;
}

void PriorityTable::AppendAbsent(int64_t begin, int64_t end) {
  const int64_t first = MoveWindow(begin, end);
  ForEachPiece(first, end, [this](int64_t slot, int64_t slot_end, int64_t /*id*/) {
    std::fill(rows_.begin() + slot, rows_.begin() + slot_end, Row());
    tree_->Fill(slot, slot_end, 0);
  });
}

void PriorityTable::Insert(absl::Span<const int64_t> ids) {
  changed_.clear();
  for (const int64_t id : ids) {
    const int64_t slot = SlotOf(id);
    rows_[slot].priority = max_priority_;
    CountValid(slot, 1);
    changed_.push_back(slot);
  }
  weights_.assign(changed_.size(), WeightOf(max_priority_));
  tree_->Set(changed_, weights_);
}

void PriorityTable::Append(int64_t begin, int64_t end, absl::Span<const float> given) {
  const int64_t first = MoveWindow(begin, end);
  const float same = max_priority_;
  const float same_weight = WeightOf(same);
  ForEachPiece(first, end, [&](int64_t slot, int64_t slot_end, int64_t id) {
    std::fill(rows_.begin() + slot, rows_.begin() + slot_end, Row{same, 0});
    ForEachBlock(slot, slot_end,
                 [this](int64_t first, int64_t last) { CountValid(first, last - first); });
    if (given.empty()) {
      tree_->Fill(slot, slot_end, same_weight);
      return;
    }
    weights_.clear();
    for (int64_t i = slot; i < slot_end; ++i, ++id) {
      rows_[i].priority = given[given.size() - static_cast<size_t>(end - id)] + kPriorityOffset;
      weights_.push_back(WeightOf(rows_[i].priority));
    }
    tree_->Assign(slot, weights_);
  });
}

void PriorityTable::Clear() {
  Retire(begin_, end_);
  SetWindow(end_, end_);
  max_priority_ = 1;
}

void PriorityTable::Draw(int64_t first_rank, int64_t end_rank, Rng* rng,
                         absl::Span<int64_t> slots) {
  DING_CHECK(0 <= first_rank && first_rank < end_rank && end_rank <= count_)
      << "draw of [" << first_rank << ", " << end_rank << ") of " << count_ << " rows";
  const auto size = static_cast<double>(slots.size());
  if (end_rank - first_rank == count_) {
    const double stratum = tree_->total() / size;
    bits_.resize(2 * slots.size());
    FillRandom(rng, absl::MakeSpan(bits_));
    points_.resize(slots.size());
    for (size_t i = 0; i < slots.size(); ++i) {
      const double u = UniformOf(uint64_t{bits_[2 * i]} << 32 | bits_[2 * i + 1]);
      points_[i] = (static_cast<double>(i) + u) * stratum;
    }
    tree_->Find(absl::MakeSpan(points_), slots);
    for (const int64_t slot : slots) __builtin_prefetch(&rows_[slot], /*rw=*/1);
    return;
  }
  // The part is one range of slots, or two where the ring wraps: `old` and then `young`.
  const int64_t first = IdOfRank(first_rank);
  const int64_t end = end_rank == count_ ? end_ : IdOfRank(end_rank - 1) + 1;
  const int64_t first_slot = SlotOf(first);
  const int64_t old_rows = std::min(end - first, capacity_ - first_slot);
  const double old = tree_->RangeSum(first_slot, first_slot + old_rows);
  const double young = tree_->RangeSum(0, end - first - old_rows);
  const double stratum = (old + young) / size;
  for (size_t i = 0; i < slots.size(); ++i) {
    const double x = (static_cast<double>(i) + rng->Uniform()) * stratum;
    slots[i] = x < old ? tree_->FindFrom(first_slot, x) : tree_->FindFrom(0, x - old);
    // This happens only if rounding has put x beyond the sum.
    if (slots[i] == capacity_ || IdOf(slots[i]) < first || IdOf(slots[i]) >= end ||
        !IsValid(IdOf(slots[i]))) {
      slots[i] = SlotOf(IdOfRank(end_rank - 1));
    }
  }
}

// Returns the id from which on there are exactly `part` valid rows.
int64_t PriorityTable::FirstOfNewest(int64_t part) const {
  if (count_ == end_ - begin_) return end_ - part;
  int64_t id = end_;
  while (part > 0) {
    const int64_t slot = SlotOf(id - 1);
    const int64_t block_rows = slot % kBlockRows + 1;
    const bool whole =
        block_rows == std::min(kBlockRows, capacity_ - slot / kBlockRows * kBlockRows);
    const int64_t in_block = valid_in_block_[slot / kBlockRows];
    if (whole && id - block_rows >= begin_ && in_block < part) {
      part -= in_block;
      id -= block_rows;
    } else {
      part -= rows_[slot].priority > 0 ? 1 : 0;
      --id;
    }
  }
  return id;
}

int64_t PriorityTable::CountUse(int64_t slot) {
  int32_t& use = rows_[slot].use;
  use = std::min(use + 1, kMaxUse);
  return use;
}

int64_t PriorityTable::RetireUsedUp(absl::Span<const int64_t> slots, int64_t max_use) {
  changed_.clear();
  for (const int64_t slot : slots) {
    if (rows_[slot].use >= max_use && Invalidate(slot)) changed_.push_back(slot);
  }
  weights_.assign(changed_.size(), 0);
  tree_->Set(changed_, weights_);
  return static_cast<int64_t>(changed_.size());
}

int64_t PriorityTable::Update(const PriorityInfo& info) {
  const size_t size = info.replay_unique_id.size();
  changed_.clear();
  weights_.clear();
  for (size_t i = 0; i < size; ++i) {
    const int64_t id = info.replay_unique_id[i];
    const bool held = id >= begin_ && id < end_ && SlotOf(id) == info.replay_buffer_idx[i];
    if (held) __builtin_prefetch(&rows_[info.replay_buffer_idx[i]], /*rw=*/1);
  }
  for (size_t i = 0; i < size; ++i) {
    const int64_t id = info.replay_unique_id[i];
    if (!IsValid(id) || SlotOf(id) != info.replay_buffer_idx[i]) continue;
    const int64_t slot = info.replay_buffer_idx[i];
    rows_[slot].priority = info.priority[i] + kPriorityOffset;
    max_priority_ = std::max(max_priority_, info.priority[i]);
    changed_.push_back(slot);
    weights_.push_back(WeightOf(rows_[slot].priority));
  }
  tree_->Set(changed_, weights_);
  return static_cast<int64_t>(size - changed_.size());
}

StateSnapshot PriorityTable::Snapshot() const {
  struct Saved {
    std::vector<float> priority;  // 0: retired
    std::vector<int32_t> use;
    double max_priority;
  };
  auto saved = std::make_shared<Saved>();
  saved->max_priority = max_priority_;
  saved->priority.reserve(static_cast<size_t>(end_ - begin_));
  saved->use.reserve(static_cast<size_t>(end_ - begin_));
  ForEachPiece(begin_, end_, [&](int64_t slot, int64_t slot_end, int64_t /*id*/) {
    for (; slot < slot_end; ++slot) {
      saved->priority.push_back(rows_[slot].priority);
      saved->use.push_back(rows_[slot].use);
    }
  });
  return [saved](StateWriter* writer) -> absl::Status {
    DING_RETURN_IF_ERROR(writer->WriteSpan<float>("priority", saved->priority));
    DING_RETURN_IF_ERROR(writer->WriteSpan<int32_t>("use", saved->use));
    return writer->WriteDouble("max_priority", saved->max_priority);
  };
}

absl::Status PriorityTable::Load(StateReader* reader, int64_t begin, int64_t end) {
  std::vector<float> priority(static_cast<size_t>(end - begin));
  std::vector<int32_t> use(priority.size());
  DING_RETURN_IF_ERROR(reader->ReadSpan<float>("priority", absl::MakeSpan(priority)));
  DING_RETURN_IF_ERROR(reader->ReadSpan<int32_t>("use", absl::MakeSpan(use)));
  DING_ASSIGN_OR_RETURN(const double max_priority, reader->ReadDouble("max_priority"));
  if (!(max_priority >= 1 && max_priority <= double{kMaxPriority})) {
    return absl::InvalidArgumentError(
        absl::StrCat("saved max_priority is ", max_priority, ", expected 1 to ", kMaxPriority));
  }
  for (size_t i = 0; i < priority.size(); ++i) {
    const bool in_range = priority[i] >= kPriorityOffset && priority[i] <= kMaxPriority;
    if (!in_range && priority[i] != 0) {
      return absl::InvalidArgumentError(absl::StrCat("saved priority of row ", i, " is ",
                                                     priority[i], ", expected 0 (retired) or ",
                                                     kPriorityOffset, " to ", kMaxPriority));
    }
    if (use[i] < 0 || use[i] > kMaxUse) {
      return absl::InvalidArgumentError(
          absl::StrCat("saved use of row ", i, " is ", use[i], ", expected 0 to ", kMaxUse));
    }
  }
  SetWindow(begin, end);
  max_priority_ = static_cast<float>(max_priority);
  ForEachPiece(begin, end, [&](int64_t slot, int64_t slot_end, int64_t id) {
    weights_.clear();
    for (int64_t i = slot; i < slot_end; ++i, ++id) {
      const auto row = static_cast<size_t>(id - begin);
      const bool valid = priority[row] > 0;
      rows_[i] = {priority[row], use[row]};
      weights_.push_back(valid ? WeightOf(priority[row]) : 0);
      CountValid(i, valid ? 1 : 0);
    }
    tree_->Assign(slot, weights_);
  });
  return absl::OkStatus();
}

}  // namespace ding
