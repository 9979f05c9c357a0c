// Maps names to factories, so that a program finds the implementations that are linked into it.
//
// Each interface has one registry: a function-local static beside it that is never destroyed. An
// implementation registers its factory at start-up with DING_REGISTER; its target has `alwayslink`.
// Each registration has one line of help, which `--list_modules` of a program prints beside the
// name. A type that takes parameters (base/params.h) also registers the message that holds them, so
// that `--set` and `--help_config` know it.
//
// DING_REPLACE puts another factory in the place of one that is registered, for a program that
// needs an implementation of its own under a name that configs already use. The order in which the
// two are linked does not matter.
//
//   - A name that is registered twice or replaced twice ends the program at start-up with a message
//     that names both places: the binary was put together wrongly, and no config could choose
//     between the two.
//   - Help that is empty, longer than kMaxRegistryHelp or has a line break ends it, too.
//   - If a replaced name is not registered by anything, every Find() fails and names the place of
//     the replacement.
//   - An unknown name is a mistake of the user: Find() returns NotFound and lists the linked names.
//
// Threads: thread-safe.
//
// Most registries hold modules (base/module.h), which a config chooses by `type` and `params`.
//
// Example, of one that does not:
//   Registry<const Codec*>& CodecRegistry() {
//     static auto* const registry = new Registry<const Codec*>("codec");
//     return *registry;
//   }
//   DING_REGISTER(CodecRegistry(), "lz4", &lz4, "LZ4: cheap");
//   DING_REPLACE(CodecRegistry(), "lz4", &mine, "LZ4: in hardware");  // in a program of one's own
#ifndef DING_WORKER_BASE_REGISTRY_H_
#define DING_WORKER_BASE_REGISTRY_H_

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/base/version.h"

namespace google {
namespace protobuf {
class Descriptor;
}  // namespace protobuf
}  // namespace google

namespace ding {

// The longest help of a registration, in bytes.
inline constexpr size_t kMaxRegistryHelp = 100;

// Returns the descriptor of the message that holds the parameters of a type, as
// `&MyParams::descriptor` does; null if a registration names none. It is a function because
// registrations run before main().
using ParamsMessage = const google::protobuf::Descriptor* (*)();

// What a registration tells people and `--set` about a type.
struct RegistryHelp {
  // `text` is one line of 1 to kMaxRegistryHelp bytes.
  template <typename Text>
  RegistryHelp(const Text& text,
               ParamsMessage params = nullptr)  // NOLINT: help is most often only a text
      : text(text), params(params) {}

  std::string text;
  ParamsMessage params;
};

// A registered name, for lists of a registry.
struct RegistryEntry {
  std::string name;
  std::string help;
  std::string where;  // file and line of the registration, or of what replaces it
  ParamsMessage params = nullptr;
};

// A registry of any factory.
class ListedRegistry {
 public:
  virtual ~ListedRegistry() = default;
  virtual const std::string& kind() const = 0;
  // All registered names with their help, sorted by name.
  virtual std::vector<RegistryEntry> Entries() const = 0;
};

// Returns the entries of all registries of this kind in this program, sorted by name. Returns none
// if there is no such registry.
std::vector<RegistryEntry> EntriesOfKind(absl::string_view kind);

namespace registry_internal {

// EntriesOfKind() searches a registry from its List() to its Unlist().
void List(const ListedRegistry* registry);
void Unlist(const ListedRegistry* registry);

// Ends the program if `help` is not one line of 1 to kMaxRegistryHelp bytes.
void CheckHelp(absl::string_view kind, absl::string_view name, absl::string_view help,
               absl::string_view where);
// Ends the program: `name` is registered or replaced (`verb`) at both places.
[[noreturn]] void EndBecauseTwice(absl::string_view kind, absl::string_view name,
                                  absl::string_view verb, absl::string_view first,
                                  absl::string_view second);

// Gives a factory and its help the same message of params, if the factory has a place for it, as a
// Module does (base/module.h). If both name a message, the one in the help is used.
template <typename Factory>
auto ShareMessage(Factory* factory, RegistryHelp* help, int)
    -> decltype(factory->params_message, void()) {
  if (help->params == nullptr) help->params = factory->params_message;
  factory->params_message = help->params;
}
template <typename Factory>
void ShareMessage(Factory*, RegistryHelp*, long) {}  // NOLINT: the weaker overload

}  // namespace registry_internal

template <typename Factory>
class Registry : public ListedRegistry {
 public:
  // `kind` appears in messages: "unknown <kind> type 'x'".
  explicit Registry(absl::string_view kind) : kind_(kind) { registry_internal::List(this); }
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;
  ~Registry() override { registry_internal::Unlist(this); }

  // `help` is one line for users, `where` the file and line of the registration. Ends the program
  // if the name is registered already, or if `help` is not one line of 1 to kMaxRegistryHelp bytes.
  void Register(absl::string_view name, Factory factory, const RegistryHelp& help,
                absl::string_view where) ABSL_LOCKS_EXCLUDED(mutex_) {
    Add(&Slot::registered, "registered", name, std::move(factory), help, where);
  }

  // Takes the place of the registration of `name`, which may come earlier or later. Ends the
  // program if the name is replaced already, or if Register() would refuse `help`.
  void Replace(absl::string_view name, Factory factory, const RegistryHelp& help,
               absl::string_view where) ABSL_LOCKS_EXCLUDED(mutex_) {
    Add(&Slot::replacement, "replaced", name, std::move(factory), help, where);
  }

  // Returns the factory of `name`.
  //   kNotFound            `name` is not registered; the message lists the names that are
  //   kFailedPrecondition  there are Problems(); the message lists them
  absl::StatusOr<Factory> Find(absl::string_view name) const ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    const std::vector<std::string> problems = ListProblems();
    if (!problems.empty()) return absl::FailedPreconditionError(absl::StrJoin(problems, "; "));
    const auto it = slots_.find(name);
    if (it != slots_.end()) return Active(it->second).factory;
    return absl::NotFoundError(
        absl::StrCat("unknown ", kind_, " type '", name,
                     "'; this program has: ", slots_.empty() ? std::string("none") : JoinNames()));
  }

  // All registered names, sorted.
  std::vector<std::string> Names() const ABSL_LOCKS_EXCLUDED(mutex_) {
    std::vector<std::string> names;
    for (RegistryEntry& entry : Entries()) names.push_back(std::move(entry.name));
    return names;
  }

  std::vector<RegistryEntry> Entries() const override ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    std::vector<RegistryEntry> entries;
    for (const auto& [name, slot] : slots_) {
      if (!slot.registered.has_value()) continue;
      const Entry& active = Active(slot);
      entries.push_back({name, active.help.text, active.where, active.help.params});
    }
    return entries;
  }

  // A sentence for each replacement of a name that nothing registers.
  std::vector<std::string> Problems() const ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    return ListProblems();
  }

  const std::string& kind() const override { return kind_; }

 private:
  template <typename F>
  friend class ScopedRegistration;

  struct Entry {
    Factory factory;
    RegistryHelp help;
    std::string where;
  };
  // At least one of them is set.
  struct Slot {
    std::optional<Entry> registered;
    std::optional<Entry> replacement;
  };

  static Entry MakeEntry(Factory factory, RegistryHelp help, absl::string_view where) {
    registry_internal::ShareMessage(&factory, &help, 0);
    return {std::move(factory), std::move(help), std::string(where)};
  }

  static const Entry& Active(const Slot& slot) {
    return slot.replacement.has_value() ? *slot.replacement : *slot.registered;
  }

  void Add(std::optional<Entry> Slot::*place, absl::string_view verb, absl::string_view name,
           Factory factory, const RegistryHelp& help, absl::string_view where)
      ABSL_LOCKS_EXCLUDED(mutex_) {
    registry_internal::CheckHelp(kind_, name, help.text, where);
    MutexLock lock(&mutex_);
    std::optional<Entry>& entry = slots_[std::string(name)].*place;
    if (entry.has_value()) {
      registry_internal::EndBecauseTwice(kind_, name, verb, entry->where, where);
    }
    entry.emplace(MakeEntry(std::move(factory), help, where));
  }

  std::vector<std::string> ListProblems() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    std::vector<std::string> problems;
    for (const auto& [name, slot] : slots_) {
      if (slot.registered.has_value()) continue;
      problems.push_back(absl::StrCat(kind_, " type '", name, "' is replaced at ",
                                      slot.replacement->where,
                                      ", but nothing registers that name: correct the name, or "
                                      "link the target that registers it"));
    }
    return problems;
  }

  std::string JoinNames() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return absl::StrJoin(
        slots_, ", ", [](std::string* out, const auto& slot) { absl::StrAppend(out, slot.first); });
  }

  const std::string kind_;
  mutable Mutex mutex_;
  std::map<std::string, Slot, std::less<>> slots_ ABSL_GUARDED_BY(mutex_);
};

// For tests: adds or replaces a factory, until the destructor restores the old state. It takes
// precedence over a DING_REPLACE of the name. The registry must outlive it.
template <typename Factory>
class ScopedRegistration {
 public:
  ScopedRegistration(Registry<Factory>* registry, absl::string_view name, Factory factory,
                     ParamsMessage params = nullptr)
      : registry_(registry), name_(name) {
    MutexLock lock(&registry_->mutex_);
    Slot& slot = registry_->slots_[name_];
    std::swap(slot, before_);
    slot.registered.emplace(Registry<Factory>::MakeEntry(
        std::move(factory), {"set by a ScopedRegistration", params}, "ScopedRegistration"));
  }
  ScopedRegistration(const ScopedRegistration&) = delete;
  ScopedRegistration& operator=(const ScopedRegistration&) = delete;
  ~ScopedRegistration() {
    MutexLock lock(&registry_->mutex_);
    if (before_.registered.has_value() || before_.replacement.has_value()) {
      registry_->slots_[name_] = std::move(before_);
    } else {
      registry_->slots_.erase(name_);
    }
  }

 private:
  using Slot = typename Registry<Factory>::Slot;

  Registry<Factory>* const registry_;
  const std::string name_;
  Slot before_;  // empty if there was none
};

}  // namespace ding

#define DING_REGISTER_CONCAT_INNER_(a, b) a##b
#define DING_REGISTER_CONCAT_(a, b) DING_REGISTER_CONCAT_INNER_(a, b)
#define DING_REGISTER_STRINGIFY_INNER_(x) #x
#define DING_REGISTER_STRINGIFY_(x) DING_REGISTER_STRINGIFY_INNER_(x)
#define DING_REGISTER_AT_START_(method, registry, name, factory, ...)                    \
  [[maybe_unused]] static const bool DING_REGISTER_CONCAT_(ding_registered_, __LINE__) = \
      ((registry).method((name), (factory), ::ding::RegistryHelp(__VA_ARGS__),           \
                         __FILE__ ":" DING_REGISTER_STRINGIFY_(__LINE__)),               \
       true)

// Registers `factory` (an expression convertible to the registry's factory type) under `name` at
// start-up. Two more arguments describe it: one line of help of at most kMaxRegistryHelp bytes and,
// if the type takes parameters, their message as `&MyParams::descriptor`. Use it at namespace scope
// of a .cc file whose target has `alwayslink = True`.
#define DING_REGISTER(registry, name, factory, ...) \
  DING_REGISTER_AT_START_(Register, registry, name, factory, __VA_ARGS__)

// Likewise, but replaces the entry registered under `name`.
#define DING_REPLACE(registry, name, factory, ...) \
  DING_REGISTER_AT_START_(Replace, registry, name, factory, __VA_ARGS__)

#endif  // DING_WORKER_BASE_REGISTRY_H_
