#include "ding_worker/worker/testing/soak.h"

#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/worker/coordination/parallel_run.h"
#include "ding_worker/worker/coordination/parallel_run.pb.h"
#include "ding_worker/worker/processes/ask_operator.h"
#include "ding_worker/worker/testing/child_program.h"

namespace ding {
namespace {

constexpr absl::Duration kPollPeriod = absl::Milliseconds(20);
constexpr absl::Duration kAnswerTimeout = absl::Seconds(30);
// Only a broken run needs longer until there is a victim, until its successor is at work, until it
// converges, and until it has cleaned up.
constexpr absl::Duration kVictimTimeout = absl::Minutes(1);
constexpr absl::Duration kConvergeTimeout = absl::Minutes(4);
constexpr absl::Duration kOrphanTimeout = absl::Seconds(10);

// Time between the last kill and the earliest convergence, so that the successor can be seen at
// work.
constexpr double kQuietSeconds = 3;
// The longest time for which Redis is away.
constexpr double kMaxRedisOutageSeconds = 1;
// Number of files that the supervising process may have open at the end beyond those at the
// beginning.
constexpr int kSpareFiles = 8;
// Number of rows that may be in a buffer, but neither in the journal nor acknowledged: a message of
// each collector.
constexpr int64_t kMaxRowsUnderWay = 2048;
constexpr char kRedisPrefix[] = "soak";

bool IsWorkerOf(Victim victim, const WorkerStatus& worker) {
  if (worker.task_id().empty()) return false;
  switch (victim) {
    case Victim::kCollector:
    case Victim::kEvaluator:
      return worker.role() == Hello::COLLECTOR &&
             worker.evaluates() == (victim == Victim::kEvaluator);
    case Victim::kLearner:
      return worker.role() == Hello::LEARNER && worker.member().empty();
    case Victim::kAggregator:
      return !worker.member().empty();
    case Victim::kGroupLearner:
    case Victim::kCoordinator:
    case Victim::kRedis:
      return false;  // They are not workers of the coordinator.
  }
  return false;
}

int64_t RowsPushed(const RunStatus& status) {
  int64_t rows = 0;
  for (const BufferStatus& buffer : status.buffer()) rows += buffer.push_count();
  return rows;
}

// A worker of the run that can be killed as `victim`; null if there is none at the moment.
const WorkerStatus* FindVictim(Victim victim, const RunStatus& status, Rng* rng) {
  std::vector<const WorkerStatus*> found;
  for (const WorkerStatus& worker : status.worker()) {
    if (IsWorkerOf(victim, worker)) found.push_back(&worker);
    if (victim != Victim::kGroupLearner) continue;
    for (const WorkerStatus& member : worker.member()) found.push_back(&member);
  }
  return found.empty() ? nullptr : found[rng->UniformInt(found.size())];
}

class Soak {
 public:
  Soak(const SoakOptions& options, Transport* transport)
      : options_(options),
        transport_(transport),
        program_(options.program, Arguments(options), absl::StrCat(options.folder, "-soak"), {}) {}

  absl::StatusOr<SoakReport> Run();

 private:
  // A victim whose work nobody has taken over yet.
  struct Gap {
    explicit Gap(size_t kill) : kill(kill) {}

    size_t kill;       // index in the report
    std::string name;  // of the worker; empty: the victim was no worker
    int64_t pid = 0;   // of the process that was killed
    // Progress of the run when Redis was back.
    int64_t envstep = 0;
    int64_t train_iter = 0;
    Timer since{Clock::Real()};
  };

  static std::vector<std::string> Arguments(const SoakOptions& options);
  // The moments of the kills, in seconds and in ascending order, and the victims at these moments.
  std::vector<double> Moments();
  std::vector<Victim> Victims();
  absl::Status Kill(double moment, Victim victim);
  void Killed(Victim victim, double moment, const std::string& what);
  absl::Status KillRedis(const RunStatus& status);
  absl::Status WaitForNextCoordinator(const RunStatus& before);
  absl::StatusOr<RunStatus> Look();
  static bool IsClosed(const Gap& gap, const RunStatus& status);
  void Back(const Gap& gap);
  int OpenFiles() const;
  absl::Status Broken(const std::string& what) const;
  absl::Status CheckEnd();
  absl::Status CheckAllCameBack() const;
  absl::Status CheckNothingIsLeft(int files_before, int files_after);
  absl::Status ReadRows();

  const SoakOptions& options_;
  Transport* const transport_;
  Rng rng_{options_.seed, "soak"};
  ChildProgram program_;
  const Timer timer_{Clock::Real()};
  std::string address_;
  std::vector<Gap> gaps_;
  std::set<int64_t> killed_;  // pids of workers
  SoakReport report_;
};

std::vector<std::string> Soak::Arguments(const SoakOptions& options) {
  const double limit = options.seconds + absl::ToDoubleSeconds(kConvergeTimeout);
  std::vector<std::string> arguments = {
      absl::StrCat("--config=", options.config),
      absl::StrCat("--exp_dir=", options.relative_folder
                                     ? std::filesystem::relative(options.folder).string()
                                     : options.folder),
      absl::StrCat("--seed=", options.seed),
      absl::StrCat("--max_seconds=", limit),
      absl::StrCat("--set=env.stop_value=", options.stop_value),
      absl::StrCat("--set=policy.other.commander.stop_after_seconds=",
                   options.seconds + kQuietSeconds)};
  if (options.redis != nullptr) {
    arguments.push_back(absl::StrCat("--set=system.store_url=", options.redis->Url(kRedisPrefix)));
    arguments.push_back("--set=system.coordinator.journal=JOURNAL_IN_STORE");
  }
  arguments.insert(arguments.end(), options.arguments.begin(), options.arguments.end());
  return arguments;
}

std::vector<double> Soak::Moments() {
  std::vector<double> moments;
  for (int i = 0; i < options_.kills; ++i) moments.push_back(rng_.Uniform(0, options_.seconds));
  std::sort(moments.begin(), moments.end());
  return moments;
}

std::vector<Victim> Soak::Victims() {
  std::vector<Victim> victims;
  while (victims.size() < static_cast<size_t>(options_.kills)) {
    std::vector<Victim> round = options_.victims;
    for (size_t left = round.size(); left > 0; --left) {
      std::swap(round[left - 1], round[rng_.UniformInt(left)]);
    }
    victims.insert(victims.end(), round.begin(), round.end());
  }
  victims.resize(static_cast<size_t>(options_.kills));
  return victims;
}

absl::Status Soak::Broken(const std::string& what) const {
  const std::string said = program_.err();
  return absl::InternalError(absl::StrCat(
      what, "; the run says:\n", said.substr(said.size() - std::min<size_t>(said.size(), 2000))));
}

bool Soak::IsClosed(const Gap& gap, const RunStatus& status) {
  if (gap.name.empty()) {
    return status.envstep() > gap.envstep && status.train_iter() > gap.train_iter;
  }
  const auto is_successor = [&gap](const WorkerStatus& worker) {
    return worker.name() == gap.name && worker.pid() != gap.pid;
  };
  for (const WorkerStatus& worker : status.worker()) {
    if (is_successor(worker)) return worker.steps_per_second() > 0;
    for (const WorkerStatus& member : worker.member()) {
      // The learner must be in a generation of its group.
      if (is_successor(member)) return member.waits_for().empty();
    }
  }
  return false;
}

void Soak::Back(const Gap& gap) {
  SoakKill& kill = report_.kills[gap.kill];
  kill.back_seconds = gap.since.Seconds();
  options_.say(absl::StrCat("  ", gap.name.empty() ? NameOf(kill.victim) : gap.name,
                            " is back after ", kill.back_seconds, " s"));
}

absl::StatusOr<RunStatus> Soak::Look() {
  absl::StatusOr<RunStatus> status = AskStatus(address_, "soak", kAnswerTimeout, transport_,
                                               [this] { return !program_.IsRunning(); });
  if (!status.ok()) return Broken(std::string(status.status().message()));
  const auto closed = [&](const Gap& gap) {
    if (!IsClosed(gap, *status)) return false;
    Back(gap);
    return true;
  };
  gaps_.erase(std::remove_if(gaps_.begin(), gaps_.end(), closed), gaps_.end());
  return status;
}

void Soak::Killed(Victim victim, double moment, const std::string& what) {
  report_.kills.push_back({victim});
  options_.say(absl::StrCat(moment, " s: killed ", NameOf(victim), what));
}

absl::Status Soak::Kill(double moment, Victim victim) {
  const Timer waited(Clock::Real());
  while (waited.Elapsed() < kVictimTimeout) {
    absl::SleepFor(kPollPeriod);
    const absl::StatusOr<RunStatus> looked = Look();
    // On a slow machine the run may converge before there is the victim.
    if (!program_.IsRunning()) return absl::OkStatus();
    DING_RETURN_IF_ERROR(looked.status());
    const RunStatus& status = *looked;
    if (status.elapsed_seconds() < moment) continue;
    if (victim == Victim::kCoordinator) {
      kill(static_cast<pid_t>(status.coordinator_pid()), SIGKILL);
      Killed(victim, status.elapsed_seconds(), "");
      return WaitForNextCoordinator(status);
    }
    if (victim == Victim::kRedis) return KillRedis(status);
    const WorkerStatus* const worker = FindVictim(victim, status, &rng_);
    // The coordinator may not know yet that the worker is gone.
    if (worker == nullptr || kill(static_cast<pid_t>(worker->pid()), SIGKILL) != 0) continue;
    killed_.insert(worker->pid());
    Killed(victim, status.elapsed_seconds(),
           absl::StrCat(", ", worker->name(), " ", worker->task_id()));
    Gap gap(report_.kills.size() - 1);
    gap.name = worker->name();
    gap.pid = worker->pid();
    gaps_.push_back(std::move(gap));
    return absl::OkStatus();
  }
  return Broken(absl::StrCat("there is not ", NameOf(victim), " that could be killed"));
}

absl::Status Soak::KillRedis(const RunStatus& status) {
  Gap gap(report_.kills.size());
  options_.redis->Kill();
  Killed(Victim::kRedis, status.elapsed_seconds(), "");
  absl::SleepFor(absl::Seconds(rng_.Uniform(0, kMaxRedisOutageSeconds)));
  DING_RETURN_IF_ERROR(options_.redis->Restart());
  DING_ASSIGN_OR_RETURN(const RunStatus back, Look());
  gap.envstep = back.envstep();
  gap.train_iter = back.train_iter();
  gaps_.push_back(std::move(gap));
  return absl::OkStatus();
}

// Waits for the next coordinator, which must have given tasks and received rows before it counts.
// `before` is what the last one reported before it died; what the last one had not acknowledged may
// be forgotten.
absl::Status Soak::WaitForNextCoordinator(const RunStatus& before) {
  const Gap gap(report_.kills.size() - 1);
  int64_t envstep = -1;
  while (gap.since.Elapsed() < kVictimTimeout) {
    const absl::StatusOr<RunStatus> status =
        AskStatus(address_, "soak", absl::Seconds(1), transport_);
    if (status.ok() && status->incarnation() > before.incarnation()) {
      if (RowsPushed(*status) < RowsPushed(before) - kMaxRowsUnderWay) {
        return Broken(absl::StrCat("a coordinator of ", RowsPushed(before),
                                   " rows was killed, and its successor knows of ",
                                   RowsPushed(*status)));
      }
      if (envstep < 0) envstep = status->envstep();
      if (status->envstep() > envstep || status->converged()) {
        Back(gap);
        return absl::OkStatus();
      }
    }
    absl::SleepFor(kPollPeriod);
  }
  return Broken("the coordinator that was killed has no successor");
}

int Soak::OpenFiles() const {
  const auto files = ListDirectory(absl::StrCat("/proc/", program_.pid(), "/fd"));
  return files.ok() ? static_cast<int>(files->size()) : 0;
}

absl::StatusOr<SoakReport> Soak::Run() {
  const auto listens = [this] {
    address_ = CoordinatorAddress(program_);
    return !address_.empty() || !program_.IsRunning();
  };
  if (!Eventually(listens) || address_.empty()) return Broken("no coordinator listens");
  const std::vector<double> moments = Moments();
  const std::vector<Victim> victims = Victims();
  int files_before = 0;
  int files_after = 0;
  for (size_t i = 0; i < moments.size() && program_.IsRunning(); ++i) {
    DING_RETURN_IF_ERROR(Kill(moments[i], victims[i]));
    files_after = OpenFiles();
    if (i == 0) files_before = files_after;
  }
  while (!gaps_.empty() && program_.IsRunning()) {
    absl::SleepFor(kPollPeriod);
    if (!Look().ok()) break;  // The run has converged.
  }
  DING_RETURN_IF_ERROR(CheckAllCameBack());
  DING_RETURN_IF_ERROR(CheckEnd());
  DING_RETURN_IF_ERROR(CheckNothingIsLeft(files_before, files_after));
  DING_RETURN_IF_ERROR(ReadRows());
  return report_;
}

absl::Status Soak::CheckEnd() {
  const std::optional<int> code = program_.Wait(absl::Seconds(options_.seconds) + kConvergeTimeout);
  report_.converged_after = timer_.Seconds() - options_.seconds;
  if (code != 0) return Broken(absl::StrCat("the run ended with ", code.value_or(-1)));
  DING_ASSIGN_OR_RETURN(const std::string result,
                        ReadFile(JoinPath(options_.folder, "result.json")));
  if (absl::StrContains(result, "\"stop\":true")) return absl::OkStatus();
  return Broken(absl::StrCat("the run did not converge: ", result));
}

// A victim that was killed just before the run converged need not be replaced.
absl::Status Soak::CheckAllCameBack() const {
  for (const Gap& gap : gaps_) {
    if (gap.since.Elapsed() < kVictimTimeout) continue;
    return Broken(absl::StrCat(NameOf(report_.kills[gap.kill].victim), " ", gap.name,
                               " was killed ", gap.since.Seconds(), " s ago and is not back"));
  }
  return absl::OkStatus();
}

absl::Status Soak::CheckNothingIsLeft(int files_before, int files_after) {
  if (files_after > files_before + kSpareFiles) {
    return Broken(absl::StrCat("whoever watches the processes has ", files_after,
                               " open files, it had ", files_before));
  }
  if (options_.redis != nullptr) {
    const std::string script = "return #redis.call('KEYS', '*') .. ''";
    DING_ASSIGN_OR_RETURN(const std::string keys, options_.redis->Command({"EVAL", script, "0"}));
    if (keys != "0") return Broken(absl::StrCat(keys, " keys were left in Redis"));
    options_.redis->Kill();  // It is a child of this process, too, but must not count below.
  }
  const std::vector<Orphan> left = ReapOrphans(kOrphanTimeout);
  // The learners of an aggregator that was killed end by themselves.
  for (const Orphan& orphan : left) {
    if (orphan.code < 0 && killed_.count(orphan.pid) == 0) {
      return Broken(absl::StrCat("process ", orphan.pid, " was left"));
    }
  }
  DING_ASSIGN_OR_RETURN(const ParallelRunInfo info, ReadRunInfo(options_.folder));
  if (info.memory().empty() || !PathExists(info.memory())) return absl::OkStatus();
  return Broken(absl::StrCat("'", info.memory(), "' was left"));
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

std::string NameOf(Victim victim) {
  // A switch, like those of other enums, and not a shared table: the compiler warns if a name is
  // missing.
  switch (victim) {
    case Victim::kCollector:
      return "a collector";
    case Victim::kEvaluator:
      return "an evaluating collector";
    case Victim::kLearner:
      return "the learner";
    case Victim::kGroupLearner:
      return "one of two learners";
    case Victim::kAggregator:
      return "the aggregator";
    case Victim::kCoordinator:
      return "the coordinator";
    case Victim::kRedis:
      return "Redis";
  }
  return "";
}

absl::StatusOr<SoakReport> RunSoak(const SoakOptions& options, Transport* transport) {
  Soak soak(options, transport);
  return soak.Run();
}

}  // namespace ding
