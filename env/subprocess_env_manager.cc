#include "ding_worker/env/subprocess_env_manager.h"

#include <algorithm>
#include <string>
#include <thread>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/deadline.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/image.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/env_host.h"
#include "ding_worker/env/env_process.h"
#include "ding_worker/env/env_workers.h"
#include "ding_worker/env/fork_server.h"
#include "ding_worker/env/probe_env_spec.h"
#include "ding_worker/env/process_deadline.h"
#include "ding_worker/env/process_end.h"
#include "ding_worker/env/process_memory.h"
#include "ding_worker/env/process_message.h"

namespace ding {
namespace {

// For a process to leave by itself, and for a killed one to be gone.
constexpr absl::Duration kPatience = absl::Seconds(5);
// How long to sleep before looking whether processes and fork server are alive and in time.
constexpr absl::Duration kLook = absl::Milliseconds(20);

// On a clock that never jumps: its times are for comparing with each other.
absl::Time SteadyNow() { return absl::FromUnixNanos(Clock::Real()->MonotonicNanos()); }

int Cores() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency())); }

class ProcessEnvWorkers : public EnvWorkers {
 public:
  static absl::StatusOr<std::unique_ptr<ProcessEnvWorkers>> Create(
      const SubprocessEnvManagerOptions& options, EnvSpec spec, std::vector<EnvFactory> factories) {
    const int env_num = static_cast<int>(factories.size());
    const int per_process =
        options.envs_per_process > 0 ? options.envs_per_process : (env_num + Cores() - 1) / Cores();
    const int process_num = (env_num + per_process - 1) / per_process;
    DING_ASSIGN_OR_RETURN(std::unique_ptr<ProcessMemory> memory,
                          ProcessMemory::Create(spec, env_num, process_num));
    auto workers = absl::WrapUnique(new ProcessEnvWorkers(
        options, std::move(spec), std::move(factories), std::move(memory), per_process));
    ForkServer::Options server;
    server.num_children = process_num;
    server.run = [self = workers.get()](int process) { return self->BeProcess(process); };
    server.on_end = [memory = workers->memory_.get()](int) {
      memory->manager().event.fetch_add(1);
      FutexWake(&memory->manager().event);
    };
    DING_ASSIGN_OR_RETURN(workers->server_, ForkServer::Start(std::move(server)));
    return workers;
  }
  ~ProcessEnvWorkers() override { End(); }

  int env_num() const override { return static_cast<int>(factories_.size()); }
  const EnvSpec& spec() const override { return spec_; }
  MutableColumnsView rows() const override { return memory_->rows(); }
  MutableColumnsView actions() const override { return memory_->actions(); }

  void AskStep(int env_id) override {
    Seat& seat = Take(env_id, EnvCall::kStep);
    // Whatever the env was doing is gone with its process.
    CheckEnd(ProcessOf(env_id));
    if (!seat.lost.ok()) {
      AnswerFor(env_id, seat.lost);
      return;
    }
    Ask(env_id);
  }

  void AskReset(int env_id, const EpisodeStart& start) override {
    Seat& seat = Take(env_id, EnvCall::kReset);
    seat.start = start;
    CheckEnd(ProcessOf(env_id));
    AskReset(env_id, /*attempts_made=*/0);
  }

  absl::Status Wait(int at_least, std::vector<int>* answered) override {
    at_least = std::min(at_least, static_cast<int>(busy_.size()));
    // Who has answered stays so: nobody is looked at twice.
    size_t first = 0;
    DING_RETURN_IF_ERROR(WaitUntil(at_least, [&] {
      while (first < busy_.size() && HasAnswered(busy_[first])) ++first;
      if (static_cast<int>(first) >= at_least) return true;
      // A call that waits for all is through with the first that has not.
      return at_least < static_cast<int>(busy_.size()) && CountAnswered(first) >= at_least;
    }));
    const auto take = [&](int env_id) {
      if (!HasAnswered(env_id)) return false;
      if (!seat(env_id).synthetic) ReadAnswer(env_id);
      Release(env_id);
      answered->push_back(env_id);
      return true;
    };
    busy_.erase(std::remove_if(busy_.begin(), busy_.end(), take), busy_.end());
    return absl::OkStatus();
  }
  EnvAnswer& answer(int env_id) override { return seat(env_id).answer; }

  absl::StatusOr<Image> Render(int env_id) override {
    DING_ASSIGN_OR_RETURN(const std::string message, Call(env_id, EnvCall::kRender, ""));
    ProcessMessageReader in(message);
    Image image = TakeImage(&in);
    if (!in.ok()) return absl::DataLossError("the image is cut off");
    return image;
  }
  absl::Status SaveState(int env_id, StateWriter* writer) override {
    DING_ASSIGN_OR_RETURN(const std::string message, Call(env_id, EnvCall::kSave, ""));
    ProcessMessageReader in(message);
    return TakeState(&in, writer);
  }
  absl::Status LoadState(int env_id, StateReader* reader) override {
    StateDict state;
    for (const std::string& name : reader->Names()) {
      DING_ASSIGN_OR_RETURN(const Tensor tensor, reader->ReadTensor(name));
      DING_RETURN_IF_ERROR(state.WriteTensor(name, tensor));
    }
    ProcessMessageWriter message;
    message.Bytes("the saved state");
    Put(state, &message);
    DING_RETURN_IF_ERROR(Call(env_id, EnvCall::kLoad, message.bytes()).status());
    seat(env_id).lost = absl::OkStatus();
    return absl::OkStatus();
  }

  void End() override {
    for (int i = 0; i < process_num(); ++i) {
      if (server_ == nullptr || server_->state(i) != ForkServer::State::kRunning) continue;
      memory_->process(i).leave.store(1);
      Wake(i);
    }
    const Deadline deadline = Deadline::After(kPatience);
    for (int i = 0; i < process_num() && server_ != nullptr; ++i) {
      // One that is in the middle of a call is not waited for.
      const bool idle = seats_busy(i) == 0;
      if (idle && server_->WaitForEnd(i, deadline.Left())) continue;
      if (server_->state(i) != ForkServer::State::kRunning) continue;
      if (server_->Kill(i).ok()) server_->WaitForEnd(i, kPatience);
    }
    for (int i = 0; i < env_num(); ++i) {
      memory_->env(i).turn.store(ProcessMemory::kIdle);
      seat(i) = Seat();
    }
    for (Process& process : processes_) process = Process();
    busy_.clear();
    to_wake_.clear();
  }

 private:
  struct Seat {
    EnvCall call = EnvCall::kIdle;  // that it is busy with
    bool synthetic = false;         // `answer` is ours: its process cannot answer any more
    EpisodeStart start;
    absl::Time retry_at = absl::InfiniteFuture();  // of a reset that waits for its next attempt
    int attempts_made = 0;
    absl::Status lost;  // why the env is gone; OK if it is there
    EnvAnswer answer;
  };
  struct Process {
    bool up = false;  // spawned, and its end not yet dealt with
    int busy = 0;     // its envs that wait for an answer of it
    ProcessDeadline deadline;
  };

  ProcessEnvWorkers(const SubprocessEnvManagerOptions& options, EnvSpec spec,
                    std::vector<EnvFactory> factories, std::unique_ptr<ProcessMemory> memory,
                    int per_process)
      : options_(options),
        limits_{options.connect_timeout, options.step_timeout, options.reset_timeout},
        spec_(std::move(spec)),
        factories_(std::move(factories)),
        per_process_(per_process),
        memory_(std::move(memory)),
        seats_(factories_.size()),
        processes_((factories_.size() + static_cast<size_t>(per_process) - 1) /
                   static_cast<size_t>(per_process)),
        crowded_(process_num() + 1 > Cores()) {
    busy_.reserve(seats_.size());
    to_wake_.reserve(processes_.size());
  }

  int process_num() const { return static_cast<int>(processes_.size()); }
  int ProcessOf(int env_id) const { return env_id / per_process_; }
  Seat& seat(int env_id) { return seats_[static_cast<size_t>(env_id)]; }
  Process& process(int i) { return processes_[static_cast<size_t>(i)]; }
  int seats_busy(int i) { return process(i).busy; }
  std::vector<int> EnvsOf(int i) const {
    std::vector<int> env_ids;
    for (int env_id = i * per_process_; env_id < std::min((i + 1) * per_process_, env_num());
         ++env_id) {
      env_ids.push_back(env_id);
    }
    return env_ids;
  }

  // In the child.
  int BeProcess(int i) {
    EnvProcessOptions options;
    options.process = i;
    options.env_ids = EnvsOf(i);
    options.spec = &spec_;
    options.factories = &factories_;
    options.retry = &options_;
    options.memory = memory_.get();
    options.memory_limit_mb = options_.memory_limit_mb;
    options.crowded = crowded_;
    return RunEnvProcess(options);
  }

  // Asking.

  Seat& Take(int env_id, EnvCall call) {
    Seat& seat = this->seat(env_id);
    seat.call = call;
    seat.answer.reset = call == EnvCall::kReset;
    busy_.push_back(env_id);
    return seat;
  }
  void Release(int env_id) {
    Seat& seat = this->seat(env_id);
    if (!seat.synthetic) --process(ProcessOf(env_id)).busy;
    seat.call = EnvCall::kIdle;
    seat.synthetic = false;
    memory_->env(env_id).turn.store(ProcessMemory::kIdle, std::memory_order_relaxed);
  }

  void AskReset(int env_id, int attempts_made) {
    Seat& seat = this->seat(env_id);
    seat.attempts_made = attempts_made;
    seat.retry_at = absl::InfiniteFuture();
    ProcessMemory::Env& env = memory_->env(env_id);
    env.seed = seat.start.seed;
    env.attempts_made = attempts_made;
    env.message_size = 0;
    if (!seat.start.params.empty()) {
      ProcessMessageWriter message;
      Put(seat.start.params, &message);
      memory_->PutMessage(env_id, message.bytes());
    }
    Ask(env_id);
  }

  // Hands the request over; has a process started if there is none.
  void Ask(int env_id) {
    const int i = ProcessOf(env_id);
    ProcessMemory::Env& env = memory_->env(env_id);
    env.call = static_cast<uint32_t>(seat(env_id).call);
    env.turn.store(ProcessMemory::kAsked);
    if (process(i).busy++ > 0) return;
    if (!process(i).up) Start(i);
    to_wake_.push_back(i);
  }

  void Start(int i) {
    ProcessMemory::Process& shared = memory_->process(i);
    shared.leave.store(0);
    shared.sleeping.store(0);
    shared.call.store(static_cast<uint32_t>(EnvCall::kStarting));
    process(i).up = true;
    process(i).deadline.Start(SteadyNow(), shared.progress.load());
    // A server that is gone shows in WaitUntil().
    server_->Spawn(i).IgnoreError();
  }

  void Wake(int i) {
    ProcessMemory::Process& shared = memory_->process(i);
    shared.requests.fetch_add(1);
    if (shared.sleeping.load() != 0) FutexWake(&shared.requests);
  }

  // Waiting.

  bool HasAnswered(int env_id) {
    return seat(env_id).synthetic ||
           memory_->env(env_id).turn.load(std::memory_order_acquire) == ProcessMemory::kAnswered;
  }
  // The number of busy envs that have answered; the first `first` of them have.
  int CountAnswered(size_t first) {
    int count = static_cast<int>(first);
    for (size_t i = first; i < busy_.size(); ++i) count += HasAnswered(busy_[i]) ? 1 : 0;
    return count;
  }

  // Until `done` is true; wakes to look when `at_least` of the busy envs have answered. Nobody
  // counts on the shared count but this: a process can die between its answer and its count.
  template <typename Done>
  absl::Status WaitUntil(int at_least, const Done& done) {
    for (const int i : to_wake_) Wake(i);
    to_wake_.clear();
    if (SpinUntil(done, crowded_)) return absl::OkStatus();
    ProcessMemory::Manager& shared = memory_->manager();
    NoteStart();
    while (true) {
      const uint32_t answered = shared.answered.load();
      const int missing = std::max(1, at_least - CountAnswered(0));
      shared.wake_at.store(answered + static_cast<uint32_t>(missing));
      shared.sleeping.store(1);
      const uint32_t event = shared.event.load();
      if (!done()) FutexWait(&shared.event, event, kLook);
      shared.sleeping.store(0);
      if (done()) return absl::OkStatus();
      DING_RETURN_IF_ERROR(Look());
      if (done()) return absl::OkStatus();
    }
  }

  // The time that processes are given begins with the first wait that has to sleep.
  void NoteStart() {
    const absl::Time now = SteadyNow();
    for (int i = 0; i < process_num(); ++i) {
      Process& process = this->process(i);
      if (!process.up || process.busy == 0) continue;
      process.deadline.Watch(now, memory_->process(i).progress.load());
    }
  }

  // Deals with processes that have ended or take too long, and with attempts that are due.
  absl::Status Look() {
    DING_RETURN_IF_ERROR(server_->Alive());
    const absl::Time now = SteadyNow();
    for (int i = 0; i < process_num(); ++i) {
      CheckEnd(i);
      DING_RETURN_IF_ERROR(CheckTime(i, now));
    }
    for (const int env_id : busy_) {
      if (seat(env_id).retry_at <= now) AskReset(env_id, seat(env_id).attempts_made);
    }
    for (const int i : to_wake_) Wake(i);
    to_wake_.clear();
    return absl::OkStatus();
  }

  absl::Status CheckTime(int i, absl::Time now) {
    Process& process = this->process(i);
    if (!process.up || process.busy == 0) return absl::OkStatus();
    const ProcessMemory::Process& shared = memory_->process(i);
    const uint32_t progress = shared.progress.load();
    const auto call = static_cast<EnvCall>(shared.call.load());
    DING_ASSIGN_OR_RETURN(const ProcessDeadline::Verdict verdict,
                          process.deadline.Check(now, progress, call, limits_));
    return verdict == ProcessDeadline::Verdict::kKill ? server_->Kill(i) : absl::OkStatus();
  }

  // If it ended: answers for the envs that were busy, and notes that all its envs are gone.
  void CheckEnd(int i) {
    Process& process = this->process(i);
    if (!process.up || server_->state(i) != ForkServer::State::kEnded) return;
    const absl::Status cause =
        WhyProcessEnded(*server_, i, options_.memory_limit_mb, process.deadline.kill_cause());
    const ProcessMemory::Process& shared = memory_->process(i);
    const int running = shared.env_id.load();
    const int attempts = shared.attempts.load();
    process.up = false;
    process.deadline.End();
    const std::vector<int> env_ids = EnvsOf(i);
    for (const int env_id : env_ids) {
      Seat& seat = this->seat(env_id);
      absl::Status its_cause = cause;
      if (env_id != running && running >= 0 && env_ids.size() > 1) {
        its_cause = Annotate(cause, absl::StrCat("it shares a process with env ", running));
      }
      const bool waits = seat.call != EnvCall::kIdle && !seat.synthetic &&
                         seat.retry_at == absl::InfiniteFuture() &&
                         memory_->env(env_id).turn.load() == ProcessMemory::kAsked;
      seat.lost = its_cause;
      if (!waits) continue;
      --process.busy;
      memory_->env(env_id).turn.store(ProcessMemory::kIdle);
      if (seat.call != EnvCall::kReset) {
        AnswerFor(env_id, its_cause);
        continue;
      }
      // One that was not its turn yet has lost no attempt.
      const int made =
          env_id == running ? std::max(attempts, seat.attempts_made + 1) : seat.attempts_made;
      seat.attempts_made = made;
      if (made >= options_.max_retry) {
        AnswerFor(env_id, its_cause);
      } else {
        seat.retry_at =
            SteadyNow() + (env_id == running ? options_.retry_waiting_time : absl::ZeroDuration());
      }
    }
  }

  // Answers in place of the process.
  void AnswerFor(int env_id, const absl::Status& cause) {
    Seat& seat = this->seat(env_id);
    seat.synthetic = true;
    seat.answer.status = absl::OkStatus();
    if (seat.call != EnvCall::kStep) {
      seat.answer.status = cause;
      return;
    }
    ClearStepResult(spec_.players, &seat.answer.result);
    seat.answer.result.abnormal = true;
    seat.answer.void_cause = cause;
  }

  void ReadAnswer(int env_id) {
    Seat& seat = this->seat(env_id);
    const ProcessMemory::Env& env = memory_->env(env_id);
    EnvAnswer& answer = seat.answer;
    answer.status = absl::OkStatus();
    ProcessMessageReader outer(memory_->message(env_id));
    absl::string_view rest;
    if (env.message_size > 0) {
      answer.status = TakeStatus(&outer);
      rest = outer.Bytes();
    }
    if (seat.call == EnvCall::kReset) {
      if (answer.status.ok()) seat.lost = absl::OkStatus();
      return;
    }
    StepResult& result = answer.result;
    result.reward = env.reward;
    result.terminated = env.terminated != 0;
    result.truncated = env.truncated != 0;
    result.abnormal = env.abnormal != 0;
    const float* const others = memory_->other_rewards(env_id);
    result.other_rewards.assign(others, others + spec_.players - 1);
    if (!result.info.empty()) result.info.Clear();
    if (env.message_size == 0) return;
    ProcessMessageReader in(rest);
    result.info = TakeNamedValues(&in);
    answer.void_cause = TakeStatus(&in);
    result.other_rewards.resize(static_cast<size_t>(in.Number<int64_t>()));
    if (!in.ok() || !outer.ok()) {
      answer.status.Update(absl::DataLossError("its answer is cut off"));
    }
  }

  // One call of an idle env, while others go on; what it sent back.
  absl::StatusOr<std::string> Call(int env_id, EnvCall call, absl::string_view request) {
    CheckEnd(ProcessOf(env_id));
    Seat& seat = this->seat(env_id);
    if (!seat.lost.ok() && call != EnvCall::kLoad) return seat.lost;
    if (!memory_->PutMessage(env_id, request)) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "it takes ", request.size(), " bytes, expected at most ", ProcessMemory::kMessageBytes));
    }
    Take(env_id, call);
    Ask(env_id);
    const absl::Status waited = WaitUntil(1, [&] { return HasAnswered(env_id); });
    busy_.erase(std::find(busy_.begin(), busy_.end(), env_id));
    if (!waited.ok()) return waited;
    if (seat.synthetic) {
      Release(env_id);
      return seat.answer.status;
    }
    ProcessMessageReader in(memory_->message(env_id));
    const absl::Status status = TakeStatus(&in);
    std::string answer(in.Bytes());
    Release(env_id);
    if (!status.ok()) return status;
    if (!in.ok()) return absl::DataLossError("its answer is cut off");
    return answer;
  }

  const SubprocessEnvManagerOptions options_;
  const ProcessDeadline::Limits limits_;
  const EnvSpec spec_;
  const std::vector<EnvFactory> factories_;
  const int per_process_;
  const std::unique_ptr<ProcessMemory> memory_;
  std::vector<Seat> seats_;
  std::vector<Process> processes_;
  const bool crowded_;  // more who wait than cores
  std::vector<int> busy_;
  std::vector<int> to_wake_;            // processes with requests that they do not know of
  std::unique_ptr<ForkServer> server_;  // ends before the memory that it uses
};

absl::Status Check(const SubprocessEnvManagerOptions& options, int env_num) {
  std::vector<std::string> problems;
  if (options.envs_per_process < 0) {
    problems.push_back(absl::StrCat("envs_per_process is ", options.envs_per_process,
                                    ", expected 0 (a process per core) or more"));
  }
  if (options.memory_limit_mb < 0) {
    problems.push_back(absl::StrCat("memory_limit_mb is ", options.memory_limit_mb,
                                    ", expected 0 (no limit) or more"));
  }
  const auto at_least_zero = [&problems](absl::string_view name, absl::Duration timeout) {
    if (timeout >= absl::ZeroDuration()) return;
    problems.push_back(
        absl::StrCat(name, " is ", absl::FormatDuration(timeout), ", expected 0 (never) or more"));
  };
  at_least_zero("step_timeout", options.step_timeout);
  at_least_zero("reset_timeout", options.reset_timeout);
  if (options.connect_timeout <= absl::ZeroDuration()) {
    problems.push_back(absl::StrCat("connect_timeout is ",
                                    absl::FormatDuration(options.connect_timeout),
                                    ", expected more than 0"));
  }
  return AsyncEnvManager::Check(options, env_num, std::move(problems));
}

}  // namespace

absl::StatusOr<std::unique_ptr<EnvManager>> CreateSubprocessEnvManager(
    SubprocessEnvManagerOptions options, std::vector<EnvFactory> factories) {
  DING_RETURN_IF_ERROR(Check(options, static_cast<int>(factories.size())));
  if (factories.empty()) {
    return absl::InvalidArgumentError(
        "env manager: there are no env factories, expected at least one");
  }
  absl::StatusOr<EnvSpec> spec = ProbeEnvSpec(factories[0], options.connect_timeout);
  if (!spec.ok()) return Annotate(spec.status(), "env 0");
  DING_ASSIGN_OR_RETURN(std::unique_ptr<ProcessEnvWorkers> workers,
                        ProcessEnvWorkers::Create(options, *std::move(spec), std::move(factories)));
  return AsyncEnvManager::Create(options, std::move(workers));
}

}  // namespace ding
