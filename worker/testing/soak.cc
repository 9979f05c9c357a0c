#include "ding_worker/worker/testing/soak.h"

#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/worker/ask_status.h"
#include "ding_worker/worker/testing/child_program.h"

namespace ding {
namespace {

constexpr absl::Duration kPollPeriod = absl::Milliseconds(20);
constexpr absl::Duration kAnswerTimeout = absl::Seconds(30);
// Only a broken run needs longer to bring a victim, to converge, and to clean up.
constexpr absl::Duration kVictimTimeout = absl::Minutes(1);
constexpr absl::Duration kConvergeTimeout = absl::Minutes(4);
constexpr absl::Duration kOrphanTimeout = absl::Seconds(10);

enum class Victim { kCollector, kEvaluator, kLearner, kCoordinator };
constexpr Victim kVictims[] = {Victim::kCollector, Victim::kEvaluator, Victim::kLearner,
                               Victim::kCoordinator};

std::string NameOf(Victim victim) {
  return victim == Victim::kCollector   ? "a collector"
         : victim == Victim::kEvaluator ? "an evaluating collector"
         : victim == Victim::kLearner   ? "the learner"
                                        : "the coordinator";
}

bool Is(Victim victim, const WorkerStatus& worker) {
  if (worker.task_id().empty()) return false;
  if (victim == Victim::kLearner) return worker.role() == Hello::LEARNER;
  return worker.role() == Hello::COLLECTOR && worker.evaluates() == (victim == Victim::kEvaluator);
}

class Soak {
 public:
  Soak(const SoakOptions& options, Transport* transport)
      : options_(options),
        transport_(transport),
        program_(options.program, Arguments(options), absl::StrCat(options.folder, "-soak"), {}) {}

  absl::StatusOr<SoakReport> Run();

 private:
  struct Recovery {
    std::string name;
    int64_t pid;  // that died
    Timer since{Clock::Real()};
  };

  static std::vector<std::string> Arguments(const SoakOptions& options);
  // Moments, in seconds, in their order.
  std::vector<double> Moments();
  absl::Status Kill(double moment, Victim victim);
  absl::Status WaitForNextCoordinator(int incarnation);
  absl::StatusOr<RunStatus> Look();
  absl::Status Broken(const std::string& what) const;
  absl::Status CheckEnd();
  absl::Status ReadRows();

  const SoakOptions& options_;
  Transport* const transport_;
  Rng rng_{options_.seed, "soak"};
  ChildProgram program_;
  const Timer timer_{Clock::Real()};
  std::string address_;
  std::vector<Recovery> recovering_;
  SoakReport report_;
};

std::vector<std::string> Soak::Arguments(const SoakOptions& options) {
  const double limit = options.seconds + absl::ToDoubleSeconds(kConvergeTimeout);
  return {absl::StrCat("--config=", options.config),
          absl::StrCat("--exp_dir=", options.folder),
          absl::StrCat("--seed=", options.seed),
          absl::StrCat("--max_seconds=", limit),
          absl::StrCat("--set=env.stop_value=", options.stop_value),
          absl::StrCat("--set=policy.other.commander.stop_after_seconds=", options.seconds)};
}

std::vector<double> Soak::Moments() {
  std::vector<double> moments;
  for (int i = 0; i < options_.kills; ++i) {
    moments.push_back(static_cast<double>(rng_.UniformInt(static_cast<uint64_t>(1e6))) * 1e-6 *
                      options_.seconds);
  }
  std::sort(moments.begin(), moments.end());
  return moments;
}

absl::Status Soak::Broken(const std::string& what) const {
  const std::string said = program_.err();
  return absl::InternalError(absl::StrCat(
      what, "; the run says:\n", said.substr(said.size() - std::min<size_t>(said.size(), 2000))));
}

absl::StatusOr<RunStatus> Soak::Look() {
  absl::StatusOr<RunStatus> status = AskStatus(address_, "soak", kAnswerTimeout, transport_);
  if (!status.ok()) return Broken(std::string(status.status().message()));
  for (const WorkerStatus& worker : status->worker()) {
    const auto recovered = [&](const Recovery& recovery) {
      if (recovery.name != worker.name() || recovery.pid == worker.pid() ||
          !(worker.steps_per_second() > 0)) {
        return false;
      }
      report_.recoveries.push_back(recovery.since.Seconds());
      options_.say(absl::StrCat("  ", worker.name(), " collects again after ",
                                recovery.since.Seconds(), " s"));
      return true;
    };
    recovering_.erase(std::remove_if(recovering_.begin(), recovering_.end(), recovered),
                      recovering_.end());
  }
  return status;
}

absl::Status Soak::Kill(double moment, Victim victim) {
  const Timer waited(Clock::Real());
  while (waited.Elapsed() < kVictimTimeout) {
    absl::SleepFor(kPollPeriod);
    DING_ASSIGN_OR_RETURN(const RunStatus status, Look());
    if (status.elapsed_seconds() < moment) continue;
    if (victim == Victim::kCoordinator) {
      kill(static_cast<pid_t>(status.coordinator_pid()), SIGKILL);
      ++report_.kills;
      options_.say(absl::StrCat(status.elapsed_seconds(), " s: killed ", NameOf(victim)));
      return WaitForNextCoordinator(status.incarnation());
    }
    for (const WorkerStatus& worker : status.worker()) {
      if (!Is(victim, worker)) continue;
      kill(static_cast<pid_t>(worker.pid()), SIGKILL);
      ++report_.kills;
      options_.say(absl::StrCat(status.elapsed_seconds(), " s: killed ", NameOf(victim), ", ",
                                worker.name(), " (", worker.task_id(), ")"));
      if (victim != Victim::kLearner) recovering_.push_back({worker.name(), worker.pid()});
      return absl::OkStatus();
    }
  }
  return Broken(absl::StrCat("there is not ", NameOf(victim), " that could be killed"));
}

// Which must have given tasks, and got rows, before it counts.
absl::Status Soak::WaitForNextCoordinator(int incarnation) {
  const Timer waited(Clock::Real());
  int64_t envstep = -1;
  while (waited.Elapsed() < kVictimTimeout) {
    const absl::StatusOr<RunStatus> status =
        AskStatus(address_, "soak", absl::Seconds(1), transport_);
    if (status.ok() && status->incarnation() > incarnation) {
      if (envstep < 0) envstep = status->envstep();
      if (status->envstep() > envstep || status->converged()) {
        options_.say(absl::StrCat("  the first new sample after ", waited.Seconds(), " s"));
        return absl::OkStatus();
      }
    }
    absl::SleepFor(kPollPeriod);
  }
  return Broken("the coordinator that was killed has no successor");
}

absl::StatusOr<SoakReport> Soak::Run() {
  const auto listens = [this] {
    address_ = CoordinatorAddress(program_);
    return !address_.empty() || !program_.IsRunning();
  };
  if (!Eventually(listens) || address_.empty()) return Broken("no coordinator listens");
  int number = 0;
  for (const double moment : Moments()) {
    DING_RETURN_IF_ERROR(Kill(moment, kVictims[number++ % 4]));
  }
  while (!recovering_.empty() && program_.IsRunning()) {
    absl::SleepFor(kPollPeriod);
    if (!Look().ok()) break;  // It has converged.
  }
  DING_RETURN_IF_ERROR(CheckEnd());
  return report_;
}

absl::Status Soak::CheckEnd() {
  const std::optional<int> code = program_.Wait(absl::Seconds(options_.seconds) + kConvergeTimeout);
  report_.converged_after = timer_.Seconds() - options_.seconds;
  if (code != 0) return Broken(absl::StrCat("the run ended with ", code.value_or(-1)));
  const absl::StatusOr<std::string> result = ReadFile(JoinPath(options_.folder, "result.json"));
  if (!result.ok()) return result.status();
  report_.result = *result;
  if (!absl::StrContains(report_.result, "\"stop\":true")) {
    return Broken(absl::StrCat("the run did not converge: ", report_.result));
  }
  const std::vector<Orphan> left = ReapOrphans(kOrphanTimeout);
  if (!left.empty()) return Broken(absl::StrCat("process ", left[0].pid, " was left"));
  return ReadRows();
}

absl::Status Soak::ReadRows() {
  const std::string path = JoinPath(options_.folder, "log/coordinator_logger.txt");
  DING_ASSIGN_OR_RETURN(const std::string log, ReadFile(path));
  long long pushed = -1, acknowledged = -1, in_buffer = -1, held = -1, evicted = -1, lost = -1;
  for (const absl::string_view line : absl::StrSplit(log, '\n')) {
    const size_t rows = line.find("rows: ");
    const size_t buffer = line.find("buffer_0: ");
    if (rows != absl::string_view::npos) {
      std::sscanf(std::string(line.substr(rows)).c_str(), "rows: %lld pushed, %lld acknowledged",
                  &pushed, &acknowledged);
    } else if (buffer != absl::string_view::npos) {
      std::sscanf(std::string(line.substr(buffer)).c_str(),
                  "buffer_0: %lld rows pushed, %lld in it, %lld evicted, %lld lost", &in_buffer,
                  &held, &evicted, &lost);
    }
  }
  report_.rows_pushed = pushed;
  report_.rows_acknowledged = acknowledged;
  report_.rows_evicted = evicted;
  if (acknowledged > 0 && acknowledged <= pushed && pushed == in_buffer &&
      in_buffer == held + evicted && lost == 0) {
    return absl::OkStatus();
  }
  return absl::InternalError(
      absl::StrCat(acknowledged, " rows acknowledged of ", pushed, " pushed; ", in_buffer,
                   " pushed into the buffer, of which ", held, " are in it, ", evicted,
                   " evicted and ", lost, " lost: ", path));
}

}  // namespace

absl::StatusOr<SoakReport> RunSoak(const SoakOptions& options, Transport* transport) {
  Soak soak(options, transport);
  return soak.Run();
}

}  // namespace ding
