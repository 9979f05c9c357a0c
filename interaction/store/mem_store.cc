#include "ding_worker/interaction/store/mem_store.h"

#include <functional>
#include <map>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/interaction/store/store.h"

namespace ding {
namespace {

// A shared pointer, because a value may be replaced or deleted while it is read.
using Value = std::shared_ptr<const std::string>;

}  // namespace

struct MemStore::Content {
  Mutex mutex;
  std::map<std::string, Value, std::less<>> values ABSL_GUARDED_BY(mutex);
};

std::shared_ptr<MemStore::Content> MemStore::ContentOf(absl::string_view name) {
  if (name.empty()) return std::make_shared<Content>();
  static auto* const mutex = new Mutex;
  static auto* const named = new std::map<std::string, std::weak_ptr<Content>>;
  MutexLock lock(mutex);
  std::weak_ptr<Content>& found = (*named)[std::string(name)];
  std::shared_ptr<Content> content = found.lock();
  if (content == nullptr) found = content = std::make_shared<Content>();
  return content;
}

MemStore::MemStore(absl::string_view name)
    : url_(absl::StrCat("mem:", name)), content_(ContentOf(name)) {}

absl::Status MemStore::Put(absl::string_view key, absl::Span<const absl::string_view> pieces) {
  DING_RETURN_IF_ERROR(CheckPut(*this, key, pieces).status());
  Value value = std::make_shared<const std::string>(absl::StrJoin(pieces, ""));
  MutexLock lock(&content_->mutex);
  // The old value is destroyed after the lock is released.
  content_->values[std::string(key)].swap(value);
  return absl::OkStatus();
}

absl::Status MemStore::Get(absl::string_view key, std::string* value) {
  DING_RETURN_IF_ERROR(CheckKey(*this, key));
  Value found;
  {
    MutexLock lock(&content_->mutex);
    const auto it = content_->values.find(key);
    if (it != content_->values.end()) found = it->second;
  }
  if (found == nullptr) return NoSuchKey(*this, key);
  value->assign(*found);
  return absl::OkStatus();
}

absl::Status MemStore::Delete(absl::string_view key) {
  DING_RETURN_IF_ERROR(CheckKey(*this, key));
  Value deleted;
  MutexLock lock(&content_->mutex);
  const auto it = content_->values.find(key);
  if (it == content_->values.end()) return absl::OkStatus();
  deleted = std::move(it->second);
  content_->values.erase(it);
  return absl::OkStatus();
}

absl::Status MemStore::Clear() {
  std::map<std::string, Value, std::less<>> deleted;
  MutexLock lock(&content_->mutex);
  deleted.swap(content_->values);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> MemStore::List(absl::string_view prefix) {
  std::vector<std::string> keys;
  MutexLock lock(&content_->mutex);
  for (auto it = content_->values.lower_bound(prefix);
       it != content_->values.end() && absl::StartsWith(it->first, prefix); ++it) {
    keys.push_back(it->first);
  }
  return keys;
}

}  // namespace ding
