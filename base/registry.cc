#include "ding_worker/base/registry.h"

#include <cstdio>
#include <cstdlib>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace ding {
namespace registry_internal {
namespace {

[[noreturn]] void End(const std::string& sentence) {
  std::fprintf(stderr, "%s\n", sentence.c_str());
  std::abort();
}

}  // namespace

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
