#include "ding_worker/interaction/store/testing/faulty_store.h"

#include "absl/strings/str_join.h"
#include "ding_worker/base/status_macros.h"

namespace ding {
namespace {

absl::Status Failed() { return absl::UnavailableError("the store is gone"); }

}  // namespace

void FaultyStore::TakeEffectLate() {
  for (const auto& [key, value] : late_) Apply(key, value).IgnoreError();
  late_.clear();
}

void FaultyStore::LoseLast(int puts) {
  for (; puts > 0 && !undo_.empty(); --puts) {
    const Undo& undo = undo_.back();
    const absl::Status undone = undo.value.has_value()
                                    ? store_->Put(undo.key, {absl::string_view(*undo.value)})
                                    : store_->Delete(undo.key);
    undone.IgnoreError();
    undo_.pop_back();
  }
}

absl::Status FaultyStore::Apply(absl::string_view key, absl::string_view value) {
  std::string before;
  const bool was_there = store_->Get(key, &before).ok();
  DING_RETURN_IF_ERROR(store_->Put(key, {value}));
  undo_.push_back({std::string(key), std::nullopt});
  if (was_there) undo_.back().value = std::move(before);
  return absl::OkStatus();
}

absl::Status FaultyStore::Put(absl::string_view key, absl::Span<const absl::string_view> pieces) {
  ++puts_;
  if (full_) return absl::ResourceExhaustedError("the store is full");
  const std::string value = absl::StrJoin(pieces, "");
  if (rng_.Uniform() >= failing_) return Apply(key, value);
  switch (rng_.UniformInt(3)) {
    case 0:
      Apply(key, value).IgnoreError();
      break;
    case 1:
      late_.emplace_back(key, value);
      break;
    default:
      break;
  }
  return Failed();
}

absl::Status FaultyStore::Get(absl::string_view key, std::string* value) {
  return rng_.Uniform() < failing_ ? Failed() : store_->Get(key, value);
}

absl::Status FaultyStore::Delete(absl::string_view key) {
  return rng_.Uniform() < failing_ ? Failed() : store_->Delete(key);
}

absl::StatusOr<std::vector<std::string>> FaultyStore::List(absl::string_view prefix) {
  return store_->List(prefix);
}

absl::Status FaultyStore::Clear() {
  undo_.clear();
  return store_->Clear();
}

}  // namespace ding
