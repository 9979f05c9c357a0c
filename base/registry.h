// Maps names to factories, so that a program finds the implementations that are linked into it.
//
// Each interface has one registry, which stands beside it as a leaked function-local static. The target of an
// implementation's factory registers itself at start-up with DING_REGISTER and has `alwayslink`.
//   - A duplicate name ends the program at start-up with a message that names both places: the binary was
//     put together wrongly, and no config could choose between the two.
//   - An unknown name is a mistake of the user: Find() returns NotFound and lists the linked names.
//
// Threads: thread-safe.
//
// Example:
//   using BufferFactory =
//       std::function<absl::StatusOr<std::unique_ptr<IBuffer>>(const BufferConfig&)>;
//   Registry<BufferFactory>& BufferRegistry() {
//     static auto* const registry = new Registry<BufferFactory>("buffer");
//     return *registry;
//   }
//   DING_REGISTER(BufferRegistry(), "naive", CreateNaiveBuffer);  // in naive_buffer_factory.cc
#ifndef DING_WORKER_BASE_REGISTRY_H_
#define DING_WORKER_BASE_REGISTRY_H_

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/mutex.h"

namespace ding {

template <typename Factory>
class Registry {
 public:
  // `kind` appears in messages: "unknown <kind> type 'x'".
  explicit Registry(absl::string_view kind) : kind_(kind) {}
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;

  // `where` is the file and line of the registration. A duplicate name ends the program.
  void Register(absl::string_view name, Factory factory, absl::string_view where)
      ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    const auto [it, inserted] =
        entries_.try_emplace(std::string(name), Entry{std::move(factory), std::string(where)});
    if (!inserted) {
      std::fprintf(stderr, "%s type '%s' is registered twice: at %s and at %s\n", kind_.c_str(),
                   it->first.c_str(), it->second.where.c_str(), std::string(where).c_str());
      std::abort();
    }
  }

  // Returns the factory of `name`, or NotFound with the list of linked names.
  absl::StatusOr<Factory> Find(absl::string_view name) const ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    const auto it = entries_.find(name);
    if (it != entries_.end()) return it->second.factory;
    return absl::NotFoundError(absl::StrCat(
        "unknown ", kind_, " type '", name,
        "'; this program has: ", entries_.empty() ? std::string("none") : JoinNames()));
  }

  // All names, sorted.
  std::vector<std::string> Names() const ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    std::vector<std::string> names;
    for (const auto& entry : entries_) names.push_back(entry.first);
    return names;
  }

  const std::string& kind() const { return kind_; }

 private:
  template <typename F>
  friend class ScopedRegistration;

  struct Entry {
    Factory factory;
    std::string where;
  };

  std::string JoinNames() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return absl::StrJoin(entries_, ", ", [](std::string* out, const auto& entry) {
      absl::StrAppend(out, entry.first);
    });
  }

  const std::string kind_;
  mutable Mutex mutex_;
  std::map<std::string, Entry, std::less<>> entries_ ABSL_GUARDED_BY(mutex_);
};

// Replaces or adds a factory while it lives, for tests; its destructor restores the old state. The registry
// must outlive it.
template <typename Factory>
class ScopedRegistration {
 public:
  ScopedRegistration(Registry<Factory>* registry, absl::string_view name, Factory factory)
      : registry_(registry), name_(name) {
    MutexLock lock(&registry_->mutex_);
    const auto it = registry_->entries_.find(name_);
    if (it != registry_->entries_.end()) {
      replaced_.push_back(std::move(it->second));
      registry_->entries_.erase(it);
    }
    registry_->entries_.emplace(
        name_, typename Registry<Factory>::Entry{std::move(factory), "ScopedRegistration"});
  }
  ScopedRegistration(const ScopedRegistration&) = delete;
  ScopedRegistration& operator=(const ScopedRegistration&) = delete;
  ~ScopedRegistration() {
    MutexLock lock(&registry_->mutex_);
    registry_->entries_.erase(name_);
    if (!replaced_.empty()) registry_->entries_.emplace(name_, std::move(replaced_.front()));
  }

 private:
  Registry<Factory>* const registry_;
  const std::string name_;
  std::vector<typename Registry<Factory>::Entry> replaced_;  // empty, or one entry
};

}  // namespace ding

#define DING_REGISTER_CONCAT_INNER_(a, b) a##b
#define DING_REGISTER_CONCAT_(a, b) DING_REGISTER_CONCAT_INNER_(a, b)
#define DING_REGISTER_STRINGIFY_INNER_(x) #x
#define DING_REGISTER_STRINGIFY_(x) DING_REGISTER_STRINGIFY_INNER_(x)

// Registers `factory` (an expression convertible to the registry's factory type) under `name` at start-up.
// Use it at namespace scope of a .cc file whose target has `alwayslink = True`.
#define DING_REGISTER(registry, name, factory)                                                  \
  [[maybe_unused]] static const bool DING_REGISTER_CONCAT_(ding_registered_, __LINE__) =        \
      ((registry).Register((name), (factory), __FILE__ ":" DING_REGISTER_STRINGIFY_(__LINE__)), \
       true)

#endif  // DING_WORKER_BASE_REGISTRY_H_
