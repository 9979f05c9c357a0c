#include "ding_worker/worker/program/train_flags.h"

#include <cstdio>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gflags/gflags.h"

DEFINE_int64(seed, -1, "seed of the run; overrides the config's");
DEFINE_int64(max_env_step, -1, "env steps after which the run ends; overrides the config's");
DEFINE_int64(max_train_iter, -1,
             "train iterations after which the run ends; overrides the config's");
DEFINE_string(python, "", "Python interpreter of envs of type 'gymnasium'; overrides the config's");
DEFINE_string(progress, "auto", "how the progress is shown: auto, plain, json or off");

namespace ding {
namespace {

// What is given is passed on whatever it is, so that the check of the config refuses what makes no
// sense.
bool IsGiven(const char* flag) { return !google::GetCommandLineFlagInfoOrDie(flag).is_default; }

// None for "auto", which is decided by where stderr goes.
std::optional<ProgressStyle> StyleOf(const std::string& name) {
  if (name == "plain") return ProgressStyle::kPlain;
  if (name == "json") return ProgressStyle::kJson;
  if (name == "off") return ProgressStyle::kOff;
  return std::nullopt;
}

}  // namespace

const char kRunFlagsHelp[] =
    R"(  --seed=N              seed of the run
  --max_env_step=N      ends the run after N env steps
  --max_train_iter=N    ends the run after N train iterations
  --python=PROGRAM      the Python interpreter of envs of type 'gymnasium', of a virtual environment too
)";

const char kProgressFlagsHelp[] =
    R"(  --progress=HOW        auto: one line that is drawn over, on a terminal, in colours unless NO_COLOR is set;
                        plain: lines, ever more rarely; json: an object a second (docs/how_to/train.md);
                        off. All go to stderr
)";

std::vector<std::string> RunFlagSettings() {
  std::vector<std::string> settings;
  if (IsGiven("seed")) settings.push_back(absl::StrCat("seed=", FLAGS_seed));
  if (IsGiven("max_env_step")) {
    settings.push_back(absl::StrCat("max_env_step=", FLAGS_max_env_step));
  }
  if (IsGiven("max_train_iter")) {
    settings.push_back(absl::StrCat("max_train_iter=", FLAGS_max_train_iter));
  }
  if (!FLAGS_python.empty()) {
    settings.push_back(absl::StrCat("env.params.python=", FLAGS_python));
  }
  return settings;
}

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
