#include "ding_worker/interaction/store/sharded_store.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_macros.h"

namespace ding {
namespace {

// The beginnings of ChunkKey() and PolicyKey().
constexpr absl::string_view kSpread[] = {"data/", "policy/"};
constexpr absl::Duration kRetry = absl::Milliseconds(500);
constexpr int64_t kMinPauseNanos = 1000000000;
// So that one call does not take long.
constexpr size_t kDeletesOfACall = 100;

bool IsSpread(absl::string_view key) {
  return std::any_of(std::begin(kSpread), std::end(kSpread), [key](absl::string_view beginning) {
    return absl::StartsWith(key, beginning);
  });
}

// Whether spread keys may begin with `prefix`.
bool MayBeSpread(absl::string_view prefix) {
  return IsSpread(prefix) ||
         std::any_of(std::begin(kSpread), std::end(kSpread), [prefix](absl::string_view beginning) {
           return absl::StartsWith(beginning, prefix);
         });
}

}  // namespace

ShardedStore::ShardedStore(const std::string& url, std::vector<Part> parts, const Clock* clock)
    : url_(url), clock_(clock) {
  for (Part& part : parts) {
    shards_.push_back(std::make_unique<Shard>());
    shards_.back()->part = std::move(part);
  }
}

absl::StatusOr<std::unique_ptr<ShardedStore>> ShardedStore::Create(const std::string& url,
                                                                   std::vector<Part> parts,
                                                                   const Clock* clock,
                                                                   absl::Duration start_patience) {
  auto store = absl::WrapUnique(new ShardedStore(url, std::move(parts), clock));
  const auto touch = [](Store*) { return absl::OkStatus(); };
  const Deadline deadline = Deadline::After(start_patience);
  while (true) {
    absl::Status away;
    size_t open = 0;
    for (const auto& shard : store->shards_) {
      const absl::Status status = store->At(shard.get(), touch);
      if (!status.ok() && !absl::IsUnavailable(status)) return status;
      open += status.ok() ? 1 : 0;
      away.Update(status);
    }
    if (open == 0) return away;
    if (open == store->shards_.size() || deadline.Passed()) break;
    absl::SleepFor(kRetry);
  }
  for (const auto& shard : store->shards_) {
    MutexLock lock(&shard->mutex);
    shard->lost_at_start = !shard->error.ok();
  }
  store->created_ = true;
  return store;
}

std::vector<ShardedStore::Shard*> ShardedStore::OrderOf(absl::string_view key) const {
  if (!IsSpread(key)) return {shards_.front().get()};
  std::vector<std::pair<uint64_t, Shard*>> weighed;
  for (const auto& shard : shards_) {
    weighed.emplace_back(Rng::DeriveSeed(0, absl::StrCat(shard->part.name, " ", key)), shard.get());
  }
  std::sort(weighed.begin(), weighed.end(),
            [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<Shard*> order;
  for (const auto& [weight, shard] : weighed) order.push_back(shard);
  return order;
}

absl::Status ShardedStore::At(Shard* shard, const Work& work) {
  const int64_t begin = clock_->MonotonicNanos();
  Store* store = nullptr;
  bool tries = false;
  {
    MutexLock lock(&shard->mutex);
    tries = shard->store == nullptr || !shard->error.ok();
    if (tries) {
      if (shard->trying || begin < shard->next_try) return shard->error;
      shard->trying = true;
    }
    store = shard->store.get();
  }
  absl::Status status;
  std::unique_ptr<Store> opened;
  if (store == nullptr) {
    absl::StatusOr<std::unique_ptr<Store>> made = shard->part.open();
    status = made.status();
    if (status.ok()) opened = *std::move(made);
    store = opened.get();
    // The file of a password or certificate may be about to change.
    if (created_ && absl::IsUnauthenticated(status))
      status = absl::UnavailableError(status.message());
  }
  if (status.ok()) status = work(store);
  const int64_t end = clock_->MonotonicNanos();
  MutexLock lock(&shard->mutex);
  if (opened != nullptr) shard->store = std::move(opened);
  if (tries) shard->trying = false;
  if (absl::IsUnavailable(status)) {
    if (shard->error.ok()) shard->away_since = begin;
    shard->error = status;
    shard->next_try = end + std::max(kMinPauseNanos, 2 * (end - begin));
  } else if (shard->store != nullptr) {
    shard->error = absl::OkStatus();
    shard->lost_at_start = false;
  }
  return status;
}

bool ShardedStore::IsLost(Shard* shard) const {
  MutexLock lock(&shard->mutex);
  if (shard->error.ok()) return false;
  return shard->lost_at_start ||
         absl::Nanoseconds(clock_->MonotonicNanos() - shard->away_since) >= kPatience;
}

absl::Status ShardedStore::Put(absl::string_view key, absl::Span<const absl::string_view> pieces) {
  DING_RETURN_IF_ERROR(CheckPut(*this, key, pieces).status());
  absl::Status first;
  for (Shard* const shard : OrderOf(key)) {
    const absl::Status put = At(shard, [&](Store* store) { return store->Put(key, pieces); });
    if (!WorthTryingAgain(put)) return put;
    first.Update(put);
  }
  return first;
}

absl::Status ShardedStore::Get(absl::string_view key, std::string* value) {
  DING_RETURN_IF_ERROR(CheckKey(*this, key));
  absl::Status missing, away;
  for (Shard* const shard : OrderOf(key)) {
    const absl::Status got = At(shard, [&](Store* store) { return store->Get(key, value); });
    if (absl::IsNotFound(got)) {
      missing.Update(got);
    } else if (!absl::IsUnavailable(got)) {
      return got;
    } else if (IsSpread(key) && IsLost(shard)) {
      missing.Update(
          absl::NotFoundError(absl::StrCat("'", key, "' counts as lost if '", shard->part.name,
                                           "' has it, which is away: ", got.message())));
    } else {
      away.Update(got);
    }
  }
  return away.ok() ? Annotate(missing, absl::StrCat("store '", url_, "'")) : away;
}

void ShardedStore::DeleteLater(Shard* shard, absl::Span<const std::string> keys) {
  MutexLock lock(&shard->mutex);
  const size_t room = kMaxDeletes - std::min(kMaxDeletes, shard->deletes.size());
  keys = keys.subspan(0, room);
  shard->deletes.insert(shard->deletes.end(), keys.begin(), keys.end());
}

void ShardedStore::DeleteNow(Shard* shard) {
  std::vector<std::string> keys;
  {
    MutexLock lock(&shard->mutex);
    while (!shard->deletes.empty() && keys.size() < kDeletesOfACall) {
      keys.push_back(std::move(shard->deletes.back()));
      shard->deletes.pop_back();
    }
  }
  for (size_t i = 0; i < keys.size(); ++i) {
    const absl::Status deleted = At(shard, [&](Store* store) { return store->Delete(keys[i]); });
    if (absl::IsUnavailable(deleted)) {
      DeleteLater(shard, absl::MakeSpan(keys).subspan(i));
      return;
    }
  }
}

absl::Status ShardedStore::Delete(absl::string_view key) {
  DING_RETURN_IF_ERROR(CheckKey(*this, key));
  const std::vector<Shard*> order = OrderOf(key);
  absl::Status away;
  size_t missed = 0;
  for (Shard* const shard : order) {
    const absl::Status deleted = At(shard, [&](Store* store) { return store->Delete(key); });
    if (absl::IsUnavailable(deleted)) {
      away.Update(deleted);
      if (++missed == order.size()) return away;  // The caller will try again.
      DeleteLater(shard, {std::string(key)});
      continue;
    }
    DING_RETURN_IF_ERROR(deleted);
    DeleteNow(shard);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> ShardedStore::List(absl::string_view prefix) {
  std::vector<std::string> keys;
  for (const auto& shard : shards_) {
    const bool first = shard == shards_.front();
    if (!first && !MayBeSpread(prefix)) break;
    const absl::Status listed = At(shard.get(), [&](Store* store) -> absl::Status {
      DING_ASSIGN_OR_RETURN(const std::vector<std::string> found, store->List(prefix));
      keys.insert(keys.end(), found.begin(), found.end());
      return absl::OkStatus();
    });
    const bool may_lack = !first || IsSpread(prefix);
    if (absl::IsUnavailable(listed) && may_lack && IsLost(shard.get())) continue;
    DING_RETURN_IF_ERROR(listed);
  }
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  return keys;
}

absl::Status ShardedStore::Clear() {
  absl::Status status;
  for (const auto& shard : shards_) {
    status.Update(At(shard.get(), [](Store* store) { return store->Clear(); }));
  }
  return status;
}

absl::StatusOr<std::unique_ptr<Log>> ShardedStore::OpenLog(const LogOptions& options) {
  std::unique_ptr<Log> log;
  DING_RETURN_IF_ERROR(At(shards_.front().get(), [&](Store* store) -> absl::Status {
    DING_ASSIGN_OR_RETURN(log, store->OpenLog(options));
    return absl::OkStatus();
  }));
  return log;
}

}  // namespace ding
