#include "ding_worker/base/registry.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/mutex.h"

namespace ding {
namespace {

[[noreturn]] void End(const std::string& sentence) {
  std::fprintf(stderr, "%s\n", sentence.c_str());
  std::abort();
}

// The registries that exist; leaked, since registries are made and used before main() and after it.
struct Listed {
  Mutex mutex;
  std::vector<const ListedRegistry*> registries ABSL_GUARDED_BY(mutex);
};

Listed& AllListed() {
  static auto* const listed = new Listed;
  return *listed;
}

}  // namespace

std::vector<RegistryEntry> EntriesOfKind(absl::string_view kind) {
  std::vector<RegistryEntry> entries;
  Listed& listed = AllListed();
  MutexLock lock(&listed.mutex);
  for (const ListedRegistry* const registry : listed.registries) {
    if (registry->kind() != kind) continue;
    for (RegistryEntry& entry : registry->Entries()) entries.push_back(std::move(entry));
  }
  std::sort(entries.begin(), entries.end(),
            [](const RegistryEntry& a, const RegistryEntry& b) { return a.name < b.name; });
  return entries;
}

namespace registry_internal {

void List(const ListedRegistry* registry) {
  Listed& listed = AllListed();
  MutexLock lock(&listed.mutex);
  listed.registries.push_back(registry);
}

void Unlist(const ListedRegistry* registry) {
  Listed& listed = AllListed();
  MutexLock lock(&listed.mutex);
  listed.registries.erase(std::remove(listed.registries.begin(), listed.registries.end(), registry),
                          listed.registries.end());
}

void CheckHelp(absl::string_view kind, absl::string_view name, absl::string_view help,
               absl::string_view where) {
  std::string found;
  if (absl::StripAsciiWhitespace(help).empty()) {
    found = "no help";
  } else if (help.find_first_of("\r\n") != absl::string_view::npos) {
    found = "help with a line break";
  } else if (help.size() > kMaxRegistryHelp) {
    found = absl::StrCat("help of ", help.size(), " bytes");
  } else {
    return;
  }
  End(absl::StrCat(kind, " type '", name, "' at ", where, " has ", found,
                   "; expected one line of 1 to ", kMaxRegistryHelp, " bytes"));
}

void EndBecauseTwice(absl::string_view kind, absl::string_view name, absl::string_view verb,
                     absl::string_view first, absl::string_view second) {
  End(absl::StrCat(kind, " type '", name, "' is ", verb, " twice: at ", first, " and at ", second));
}

}  // namespace registry_internal
}  // namespace ding
