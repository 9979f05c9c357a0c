#include "ding_worker/env/process/env_process_pool.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/process_resources.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/env/env_host.h"
#include "ding_worker/env/process/env_process.h"
#include "ding_worker/env/process/fork_server.h"
#include "ding_worker/env/process/process_message.h"

namespace ding {
namespace {

// How long a process may take to leave by itself, and a killed process to be gone.
constexpr absl::Duration kPatience = absl::Seconds(5);

bool in_probe = false;  // set by the process of a probe, which has one thread

int QuotientRoundedUp(int number, int divisor) { return (number + divisor - 1) / divisor; }

struct TimeLimit {
  absl::Duration time;  // zero: no limit
  absl::string_view key;
  absl::string_view what;
};

TimeLimit LimitOf(EnvCall call, const ProcessDeadline::Limits& limits) {
  switch (call) {
    case EnvCall::kStarting:
    case EnvCall::kBuild:
      return {limits.connect_timeout, "connect_timeout", "start"};
    case EnvCall::kStep:
      return {limits.step_timeout, "step_timeout", "finish a step"};
    case EnvCall::kIdle:
      return {limits.connect_timeout, "connect_timeout", "begin the requested call"};
    case EnvCall::kWaiting:
      return {absl::ZeroDuration(), "", ""};
    default:
      return {limits.reset_timeout, "reset_timeout", "finish a reset"};
  }
}

}  // namespace

void ProcessDeadline::Start(absl::Time now, uint32_t progress) {
  progress_ = progress;
  since_ = now;
  kill_cause_ = absl::OkStatus();
}

void ProcessDeadline::Watch(absl::Time now, uint32_t progress) {
  if (progress == progress_ && watched_) return;
  progress_ = progress;
  since_ = now;
  watched_ = true;
}

absl::StatusOr<ProcessDeadline::Verdict> ProcessDeadline::Check(absl::Time now, uint32_t progress,
                                                                EnvCall call,
                                                                const Limits& limits) {
  if (!kill_cause_.ok()) {
    if (now - since_ < kPatience) return Verdict::kInTime;
    return absl::InternalError(absl::StrCat("a process that was killed ",
                                            absl::FormatDuration(kPatience),
                                            " ago is still there; ", kill_cause_.message()));
  }
  if (progress != progress_) {
    progress_ = progress;
    since_ = now;
    return Verdict::kInTime;
  }
  const TimeLimit limit = LimitOf(call, limits);
  if (limit.time <= absl::ZeroDuration() || now - since_ <= limit.time) return Verdict::kInTime;
  kill_cause_ = absl::DeadlineExceededError(absl::StrCat("its process did not ", limit.what, " in ",
                                                         absl::FormatDuration(limit.time), " (",
                                                         limit.key, ")"));
  since_ = now;
  return Verdict::kKill;
}

absl::StatusOr<EnvProcessPool> EnvProcessPool::Create(Options options, const EnvSpec& spec,
                                                      int env_num, Run run) {
  const int envs_per_process = options.envs_per_process > 0
                                   ? options.envs_per_process
                                   : QuotientRoundedUp(env_num, UsableCores());
  const int process_num = QuotientRoundedUp(env_num, envs_per_process);
  DING_ASSIGN_OR_RETURN(std::unique_ptr<ProcessMemory> memory,
                        ProcessMemory::Create(spec, env_num, process_num));
  EnvProcessPool pool(std::move(options), spec, env_num, std::move(run), envs_per_process,
                      std::move(memory));
  ForkServer::Options server;
  server.num_children = process_num;
  // The server never leaves this stack frame: it and its processes have a copy of the frame from
  // the moment of the fork. So they may point to `pool`, although in the caller's process it is
  // moved away.
  server.run = [self = &pool](int process) { return self->RunProcess(process); };
  server.on_end = [memory = pool.memory()](int) {
    memory->manager().event.fetch_add(1);
    FutexWake(&memory->manager().event);
  };
  DING_ASSIGN_OR_RETURN(pool.server_, ForkServer::Start(std::move(server)));
  return pool;
}

EnvProcessPool::EnvProcessPool(Options options, const EnvSpec& spec, int env_num, Run run,
                               int envs_per_process, std::unique_ptr<ProcessMemory> memory)
    : options_(std::move(options)),
      spec_(spec),
      env_num_(env_num),
      run_(std::move(run)),
      envs_per_process_(envs_per_process),
      memory_(std::move(memory)),
      processes_(static_cast<size_t>(QuotientRoundedUp(env_num, envs_per_process))),
      crowded_(size() + 1 > UsableCores()) {}

std::vector<int> EnvProcessPool::EnvsOf(int i) const {
  std::vector<int> env_ids;
  const int end = std::min((i + 1) * envs_per_process_, env_num());
  for (int env_id = i * envs_per_process_; env_id < end; ++env_id) env_ids.push_back(env_id);
  return env_ids;
}

int EnvProcessPool::RunProcess(int i) const {
  EnvProcessOptions options;
  options.process = i;
  options.env_ids = EnvsOf(i);
  options.spec = &spec_;
  options.retry = &options_.retry;
  options.memory = memory_.get();
  options.memory_limit_mb = options_.memory_limit_mb;
  options.crowded = crowded_;
  return run_(options);
}

void EnvProcessPool::Start(int i) {
  ProcessMemory::Process& shared = memory_->process(i);
  shared.leave.store(0);
  shared.sleeping.store(0);
  shared.call.store(static_cast<uint32_t>(EnvCall::kStarting));
  // The process has called no env yet. If it ends now, the values of its predecessor must not be
  // reported.
  shared.env_id.store(-1);
  shared.attempts.store(0);
  process(i).up = true;
  process(i).deadline.Start(Now(), shared.progress.load());
  // An error means that the server is gone, which Alive() reports to the caller that waits.
  server_->Spawn(i).IgnoreError();
}

void EnvProcessPool::WatchTimes() {
  const absl::Time now = Now();
  for (int i = 0; i < size(); ++i) {
    Process& process = this->process(i);
    if (!process.up || process.calls == 0) continue;
    process.deadline.Watch(now, memory_->process(i).progress.load());
  }
}

absl::Status EnvProcessPool::CheckTime(int i, absl::Time now) {
  Process& process = this->process(i);
  if (!process.up || process.calls == 0) return absl::OkStatus();
  const ProcessMemory::Process& shared = memory_->process(i);
  const uint32_t progress = shared.progress.load();
  const auto call = static_cast<EnvCall>(shared.call.load());
  DING_ASSIGN_OR_RETURN(const ProcessDeadline::Verdict verdict,
                        process.deadline.Check(now, progress, call, options_.limits));
  return verdict == ProcessDeadline::Verdict::kKill ? server_->Kill(i) : absl::OkStatus();
}

absl::Time EnvProcessPool::Now() { return absl::FromUnixNanos(Clock::Real()->MonotonicNanos()); }

EnvProcessPool::Ending EnvProcessPool::TakeEnding(int i) {
  Process& process = this->process(i);
  const ProcessMemory::Process& shared = memory_->process(i);
  Ending ending;
  ending.cause =
      WhyProcessEnded(*server_, i, options_.memory_limit_mb, process.deadline.kill_cause());
  ending.env_id = shared.env_id.load();
  ending.attempts = shared.attempts.load();
  process.up = false;
  process.deadline.End();
  return ending;
}

void EnvProcessPool::EndAll() {
  if (server_ == nullptr) return;
  for (int i = 0; i < size(); ++i) {
    if (server_->state(i) != ForkServer::State::kRunning) continue;
    memory_->process(i).leave.store(1);
    Wake(i);
  }
  const Deadline deadline = Deadline::After(kPatience);
  for (int i = 0; i < size(); ++i) {
    // A process in the middle of a call is killed at once.
    const bool idle = process(i).calls == 0;
    if (idle && server_->WaitForEnd(i, deadline.Left())) continue;
    if (server_->state(i) != ForkServer::State::kRunning) continue;
    if (server_->Kill(i).ok()) server_->WaitForEnd(i, kPatience);
  }
  for (Process& process : processes_) process = Process();
}

EnvProcessPool::Run RunFactories(std::vector<EnvFactory> factories) {
  return [factories = std::move(factories)](const EnvProcessOptions& options) {
    EnvProcessOptions with_factories = options;
    with_factories.factories = &factories;
    return RunEnvProcess(with_factories);
  };
}

absl::StatusOr<EnvSpec> ProbeEnvSpec(const EnvFactory& factory, absl::Duration timeout) {
  return ProbeEnvSpec(
      [&factory](ProcessMemory* memory) {
        const absl::StatusOr<std::unique_ptr<Env>> env = BuildEnv(factory);
        ProcessMessageWriter message;
        Put(env.status(), &message);
        if (env.ok()) Put((*env)->spec(), &message);
        return memory->PutMessage(0, message.bytes()) ? 0 : 1;
      },
      timeout, /*rest=*/nullptr);
}

absl::StatusOr<EnvSpec> ProbeEnvSpec(const std::function<int(ProcessMemory*)>& run,
                                     absl::Duration timeout, std::string* rest) {
  // A spec is a message like any other; an empty one makes room for it.
  EnvSpec none;
  DING_ASSIGN_OR_RETURN(none.observation, MakeSpec({}));
  none.action = none.observation;
  DING_ASSIGN_OR_RETURN(const std::unique_ptr<ProcessMemory> memory,
                        ProcessMemory::Create(none, 1, 1));
  ForkServer::Options options;
  options.run = [&run, &memory](int) {
    in_probe = true;
    return run(memory.get());
  };
  DING_ASSIGN_OR_RETURN(const std::unique_ptr<ForkServer> server,
                        ForkServer::Start(std::move(options)));
  DING_RETURN_IF_ERROR(server->Spawn(0));
  if (!server->WaitForEnd(0, timeout)) {
    DING_RETURN_IF_ERROR(server->Alive());
    return absl::DeadlineExceededError(
        absl::StrCat("it was not built in ", absl::FormatDuration(timeout), " (connect_timeout)"));
  }
  if (server->wait_status(0) != 0) return WhyProcessEnded(*server, 0, 0, absl::OkStatus());
  ProcessMessageReader in(memory->message(0));
  DING_RETURN_IF_ERROR(TakeStatus(&in));
  EnvSpec spec;
  DING_RETURN_IF_ERROR(TakeEnvSpec(&in, &spec));
  if (rest != nullptr) *rest = std::string(in.Bytes());
  return spec;
}

bool InEnvProbe() { return in_probe; }

}  // namespace ding
