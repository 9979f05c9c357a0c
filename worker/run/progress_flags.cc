#include "ding_worker/worker/run/progress_flags.h"

#include <cstdio>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gflags/gflags.h"

DEFINE_string(progress, "auto", "how the progress is shown: auto, plain, json or off");

namespace ding {
namespace {

// "auto" is decided by where stderr goes.
std::optional<ProgressStyle> StyleOf(const std::string& name) {
  if (name == "plain") return ProgressStyle::kPlain;
  if (name == "json") return ProgressStyle::kJson;
  if (name == "off") return ProgressStyle::kOff;
  return std::nullopt;
}

}  // namespace

const char kProgressFlagsHelp[] =
    R"(  --progress=HOW        auto: one line that is drawn over, on a terminal, in colours unless NO_COLOR is set;
                        plain: lines, ever more rarely; json: an object a second (docs/how_to/train.md);
                        off. All go to stderr
)";

absl::Status CheckProgressFlags() {
  if (FLAGS_progress == "auto" || StyleOf(FLAGS_progress).has_value()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--progress is '", FLAGS_progress, "', expected auto, plain, json or off"));
}

ProgressOptions ProgressByFlags() {
  ProgressOptions options = ProgressTo(stderr);
  options.style = StyleOf(FLAGS_progress).value_or(options.style);
  return options;
}

std::string ProgressArgument() { return absl::StrCat("--progress=", FLAGS_progress); }

}  // namespace ding
