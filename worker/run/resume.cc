#include "ding_worker/worker/run/resume.h"

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/worker/run/paths.h"
#include "google/protobuf/util/message_differencer.h"

namespace ding {
namespace {

constexpr absl::string_view kLogPrefix = "log_bytes:";

// Clears the fields that may change when a run is resumed.
void ClearFieldsThatMayDiffer(ExperimentConfig* config) {
  config->clear_exp_name();
  config->clear_max_env_step();
  config->clear_max_train_iter();
  config->clear_resume();
  config->mutable_system()->clear_max_seconds();
  config->mutable_system()->clear_record_bytes();
  config->mutable_env()->clear_stop_value();
  config->mutable_env()->clear_n_confirm_episode();
  // What gets a run past a value that ended it.
  config->mutable_env()->clear_out_of_bounds();
  config->mutable_env()->mutable_manager()->clear_not_finite();
  config->clear_stopper();
  // A data set may have moved; its checksum shows whether it is the same.
  config->mutable_data_set()->clear_path();
  PolicySection* const policy = config->mutable_policy();
  LearnerHooksConfig* const hook = policy->mutable_learn()->mutable_learner()->mutable_hook();
  hook->clear_log_show_after_iter();
  hook->clear_log_reduce_after_iter();
  policy->mutable_collect()->mutable_collector()->clear_collect_print_freq();
  policy->mutable_eval()->mutable_evaluator()->clear_stop_value();
  policy->mutable_other()->mutable_replay_buffer()->clear_periodic_thruput_seconds();
}

}  // namespace

absl::Status CheckSameExperiment(const ExperimentConfig& saved, const ExperimentConfig& now) {
  ExperimentConfig before = saved;
  ExperimentConfig after = now;
  ClearFieldsThatMayDiffer(&before);
  ClearFieldsThatMayDiffer(&after);
  // Runs from before paths were made absolute have them as they were written.
  DING_RETURN_IF_ERROR(MakePathsAbsolute(&before));
  DING_RETURN_IF_ERROR(MakePathsAbsolute(&after));
  google::protobuf::util::MessageDifferencer differencer;
  std::string report;
  differencer.ReportDifferencesToString(&report);
  if (differencer.Compare(before, after)) return absl::OkStatus();
  const std::vector<absl::string_view> lines = absl::StrSplit(report, '\n', absl::SkipEmpty());
  return absl::InvalidArgumentError(absl::StrCat(
      "the config is not that of the run to resume; undo these changes, or start a new run "
      "(stop value, stoppers, budgets, periods of logs, record_bytes and what bad values of envs "
      "mean may differ):\n  ",
      absl::StrJoin(lines, "\n  ")));
}

std::string ResumeCommand(absl::string_view program, const std::string& exp_dir) {
  const char* const command = std::getenv("DING_WORKER_COMMAND");
  return absl::StrCat(command != nullptr ? command : ShellWord(program),
                      " --resume --exp_dir=", ShellWord(exp_dir));
}

void DescribeLogs(const LogSizes& logs, CheckpointInfo* info) {
  for (const auto& [path, bytes] : logs) {
    info->fields[absl::StrCat(kLogPrefix, path)] = absl::StrCat(bytes);
  }
}

LogSizes LogsOfCheckpoint(const CheckpointInfo& info) {
  LogSizes logs;
  for (const auto& [name, value] : info.fields) {
    absl::string_view path = name;
    int64_t bytes = 0;
    if (absl::ConsumePrefix(&path, kLogPrefix) && absl::SimpleAtoi(value, &bytes)) {
      logs[std::string(path)] = bytes;
    }
  }
  return logs;
}

}  // namespace ding
