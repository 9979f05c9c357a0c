#include "ding_worker/interaction/control/message_checks.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/interaction/control/protocol.h"

namespace ding {
namespace {

constexpr double kMaxSeconds = 1e9;

}  // namespace

std::string ForPeople(absl::string_view text) {
  std::string shown(text.substr(0, kMaxTextBytes));
  for (char& c : shown) {
    if (absl::ascii_iscntrl(static_cast<unsigned char>(c))) c = ' ';
  }
  if (text.size() > kMaxTextBytes) absl::StrAppend(&shown, " ...");
  return shown;
}

absl::Status CheckResources(const Resources& resources) {
  if (resources.cpus() >= 0 && resources.cpus() <= kMaxCpus && resources.memory_bytes() >= 0 &&
      resources.memory_bytes() <= kMaxMemoryBytes && resources.gpus() >= 0 &&
      resources.gpus() <= kMaxGpus) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("a worker with ", resources.cpus(), " cores, ", resources.memory_bytes(),
                   " bytes of memory and ", resources.gpus(), " GPUs, expected 0 to ", kMaxCpus,
                   ", 0 to ", kMaxMemoryBytes, " and 0 to ", kMaxGpus));
}

absl::Status CheckHelloFields(const Hello& hello) {
  const bool controls = std::any_of(hello.name().begin(), hello.name().end(), [](char c) {
    return absl::ascii_iscntrl(static_cast<unsigned char>(c));
  });
  if (controls || hello.name().size() > kMaxNameBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a worker's name of ", hello.name().size(), " bytes",
                     controls ? " with control characters" : "", ": '", ForPeople(hello.name()),
                     "', expected at most ", kMaxNameBytes, " bytes and no control characters"));
  }
  return CheckResources(hello.resources());
}

absl::Status CheckProgress(const ProgressReport& progress) {
  DING_RETURN_IF_ERROR(CheckSteps(progress.cur_step()));
  DING_RETURN_IF_ERROR(Annotate(CheckSteps(progress.cur_sample()), "samples"));
  return Annotate(CheckSteps(progress.cur_episode()), "episodes");
}

absl::Status CheckCollectorFinished(const CollectorFinished& info) {
  DING_RETURN_IF_ERROR(CheckSteps(info.step_count()));
  DING_RETURN_IF_ERROR(Annotate(CheckSteps(info.sample_count()), "samples"));
  DING_RETURN_IF_ERROR(Annotate(CheckSteps(info.env_num()), "envs"));
  DING_RETURN_IF_ERROR(Annotate(CheckSteps(info.predefined_episode_count()), "episodes"));
  DING_RETURN_IF_ERROR(Annotate(CheckSteps(info.real_episode_count()), "episodes"));
  DING_RETURN_IF_ERROR(Annotate(CheckSteps(info.abnormal_episode_count()), "abnormal episodes"));
  if (info.train_iter() != -1) {
    DING_RETURN_IF_ERROR(Annotate(CheckSteps(info.train_iter()), "the policy's train iterations"));
  }
  if (!(info.duration_seconds() >= 0 && info.duration_seconds() <= kMaxSeconds)) {
    return absl::InvalidArgumentError(absl::StrCat("a task of ", info.duration_seconds(),
                                                   " seconds, expected 0 to ", kMaxSeconds));
  }
  for (const double episode_return : info.episode_return()) {
    if (std::isfinite(episode_return)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("an episode's return is ", episode_return, ", expected a finite number"));
  }
  if (!std::isfinite(info.eval_score())) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the score of an evaluation is ", info.eval_score(), ", expected a finite number"));
  }
  if (info.episode_return_size() > info.step_count()) {
    return absl::InvalidArgumentError(absl::StrCat(info.episode_return_size(), " episodes in ",
                                                   info.step_count(),
                                                   " steps, expected at least one step for each"));
  }
  if (info.game_result_size() == 0 || info.game_result_size() == info.episode_return_size()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(info.game_result_size(), " results for ",
                                                 info.episode_return_size(),
                                                 " games, expected one for each game"));
}

absl::Status CheckPriorities(const LearnerInfo& info) {
  for (const float priority : info.priority()) {
    if (priority >= 0 && std::isfinite(priority)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("priority ", priority, ", expected a finite number of at least 0"));
  }
  return absl::OkStatus();
}

absl::Status CheckBadChunks(const BadChunks& bad) {
  const bool known = std::all_of(bad.chunk().begin(), bad.chunk().end(),
                                 [](const BadChunk& chunk) { return chunk.chunk() >= 0; });
  if (known && bad.chunk_size() >= 1 && bad.chunk_size() <= kMaxBadChunks) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "a report of ", bad.chunk_size(), " chunks", known ? "" : ", one with a number below 0",
      ", expected 1 to ", kMaxBadChunks, " chunks with numbers of at least 0"));
}

}  // namespace ding
